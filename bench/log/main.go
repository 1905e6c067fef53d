// Command log measures our transparency log beside Tessera's POSIX driver and
// Pebble by itself: in one run, in turn, on one disk. What counts are the
// ratios within a round; the figures of one machine say nothing about another.
//
//	go run ./log                     some minutes; a table of figures and aims
//	go run ./log --only ours/256     one measurement alone, for a profile
//	go run ./log --entries 10000000  how the log behaves as it grows
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
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/machine"
)

// options are what the flags say.
type options struct {
	dir     string
	rounds  int
	measure time.Duration
	only    string
	profile string
	entries uint64
	json    bool
	tmpfs   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "log:", err)
		}
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("log", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "dir", ".", "folder on the disk to measure; a folder of its own is made in it and removed")
	f.IntVar(&o.rounds, "rounds", 5, "how often each measurement is made, in turn with the others")
	f.DurationVar(&o.measure, "for", 3*time.Second, "what is measured each time, behind a second to warm up")
	f.StringVar(&o.only, "only", "", "regular expression: make the measurements that match alone")
	f.StringVar(&o.profile, "profile", "", "folder for profiles of CPU, memory, mutexes and blocking")
	f.Uint64Var(&o.entries, "entries", 0, "let one log grow to this size instead, and watch it")
	f.BoolVar(&o.json, "json", false, "print everything as JSON")
	f.BoolVar(&o.tmpfs, "tmpfs", false, "measure in memory if that is where the folder is")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.rounds < 1 || o.measure <= 0 {
		return o, errors.New("flags alone, at least one round, and a duration above zero")
	}
	return o, nil
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
	m, err := machine.Of(dir)
	if err != nil {
		return err
	}
	if m.FileSystem == "tmpfs" && !o.tmpfs {
		return fmt.Errorf("%s is in memory, where a sync costs nothing: set --dir to a disk, or --tmpfs", o.dir)
	}
	progress := func(format string, a ...any) { fmt.Fprintf(stderr, format+"\n", a...) }
	var r report
	if o.entries > 0 {
		r, err = grow(ctx, dir, o.entries, progress)
	} else {
		r, err = contest(ctx, dir, o, progress)
	}
	if err != nil {
		return err
	}
	m.LoadAfter = machine.LoadAverage()
	r.describe(m, o)
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err = io.WriteString(stdout, r.text())
	return err
}

// A report is what was measured.
type report interface {
	describe(machine.Machine, options)
	text() string
}
