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
	// What went wrong in one measurement is told behind what the others gave.
	failed := measure(ctx, dir, o, bouts(), r.Samples, progress)
	defer func() { err = errors.Join(failed, err) }()
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
// left to be written is written before the next begins. One that fails is told,
// keeps what it gave before, and is left out from then on.
func measure(ctx context.Context, dir string, o options, all []bout, samples map[string][]load.Sample, progress func(string, ...any)) error {
	in, err := prepare(dir, o)
	if err != nil {
		return err
	}
	var errs []error
	failed := make(map[string]bool)
	for round := range o.rounds {
		for _, b := range all {
			if !o.only.MatchString(b.name) || b.asked && o.only.String() == "" || failed[b.name] {
				continue
			}
			r, err := b.once(ctx, filepath.Join(dir, fmt.Sprintf("%d-%s", round, b.name)), in)
			if err != nil {
				progress("round %d of %d: %s: %v", round+1, o.rounds, b.name, err)
				errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
				failed[b.name] = true
			}
			for _, l := range lines() {
				if s := r[l.Name]; s != (load.Sample{}) {
					samples[l.Name] = append(samples[l.Name], s)
					progress("round %d of %d: %-24s %9.4g/s  p50 %-8v p99 %-8v CPU %-8v cores %.2f", round+1, o.rounds, l.Name, s.Rate, ratio.Brief(s.P50), ratio.Brief(s.P99), ratio.Brief(s.CPU), s.Rate*s.CPU.Seconds())
				}
			}
			if ctx.Err() != nil {
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}

// once makes a measurement in a folder that is there as long as it takes.
func (b bout) once(ctx context.Context, dir string, in input) (ratio.Round, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	r, err := b.run(ctx, dir, in)
	err = errors.Join(err, os.RemoveAll(dir))
	syscall.Sync()
	return r, err
}
