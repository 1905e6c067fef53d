// Command speed measures the whole way of a page, with the real programs on the
// loopback interface, beside what no program can go below and beside rsync. As with
// the log, what counts are the ratios within a round.
//
//	go run ./speed --bin ../bin                       everything, half an hour
//	go run ./speed --bin ../bin --only pipeline       one measurement alone
//	go run ./speed --only inside --profile DIR        both sides in one process, for a profile
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/machine"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

// options are what the flags say.
type options struct {
	dir, bin, real string
	rounds, pages  int
	only           *regexp.Regexp
	profile        string
	inside         string
	json           bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "speed:", err)
		}
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	var only string
	f := flag.NewFlagSet("speed", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "dir", ".", "folder on the disk to measure; a folder of its own is made in it and removed")
	f.StringVar(&o.bin, "bin", "bin", "folder with publisherd and indexerd")
	f.StringVar(&o.real, "real", "/usr/share/cppreference/doc/html/en", "folder with real pages")
	f.IntVar(&o.rounds, "rounds", 3, "how often each measurement is made, in turn with the others")
	f.IntVar(&o.pages, "pages", 20_000, "pages of the pipeline; growth goes from half of them to five times as many")
	f.StringVar(&only, "only", "", "regular expression: make the measurements that match alone")
	f.StringVar(&o.profile, "profile", "", "folder for profiles of CPU, memory, mutexes and blocking")
	f.StringVar(&o.inside, "inside", "", "folder of HTML for --only inside, in place of the collection")
	f.BoolVar(&o.json, "json", false, "print everything as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.rounds < 1 || o.pages < 1000 {
		return o, errors.New("flags alone, at least one round, and a thousand pages")
	}
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("--only: %w", err)
	}
	o.bin, err = filepath.Abs(o.bin)
	return o, err
}

// A report is what was measured, and what came of the aims.
type report struct {
	Machine machine.Machine          `json:"machine"`
	Rounds  int                      `json:"rounds"`
	Samples map[string][]load.Sample `json:"samples"`
	Aims    []ratio.Verdict          `json:"aims"`
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, ".bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	r := report{Rounds: o.rounds, Samples: make(map[string][]load.Sample)}
	if r.Machine, err = machine.Of(dir); err != nil {
		return err
	}
	progress := func(format string, a ...any) { fmt.Fprintf(stderr, format+"\n", a...) }
	if err := measure(ctx, dir, o, r.Samples, progress); err != nil {
		return err
	}
	r.Machine.LoadAfter = machine.LoadAverage()
	for _, a := range aims() {
		if v, ok := a.Judge(r.Samples, r.Rounds); ok {
			r.Aims = append(r.Aims, v)
		}
	}
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(stdout, "\nOn %v.\n%d rounds in turn; medians over the rounds (least to most).\n\n", r.Machine, r.Rounds)
	if err := ratio.WriteSamples(stdout, lines(), r.Samples); err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	return ratio.WriteVerdicts(stdout, r.Aims)
}

// measure makes every measurement once a round, each in an empty folder. What one
// left to be written is written before the next begins.
func measure(ctx context.Context, dir string, o options, samples map[string][]load.Sample, progress func(string, ...any)) error {
	in, err := prepare(dir, o)
	if err != nil {
		return err
	}
	for round := range o.rounds {
		for _, b := range bouts() {
			if !o.only.MatchString(b.name) || b.asked && o.only.String() == "" {
				continue
			}
			at := filepath.Join(dir, fmt.Sprintf("%d-%s", round, b.name))
			if err := os.Mkdir(at, 0o755); err != nil {
				return err
			}
			r, err := b.run(ctx, at, in)
			if err = errors.Join(err, os.RemoveAll(at)); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			syscall.Sync()
			for _, l := range lines() {
				if s, ok := r[l.Name]; ok {
					samples[l.Name] = append(samples[l.Name], s)
					progress("round %d of %d: %-24s %9.4g/s  p50 %-8v p99 %-8v CPU %v", round+1, o.rounds, l.Name, s.Rate, ratio.Brief(s.P50), ratio.Brief(s.P99), ratio.Brief(s.CPU))
				}
			}
		}
	}
	return nil
}
