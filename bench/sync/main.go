// Command sync measures what keeping indexers up to date costs, with the real
// programs on the loopback interface: octets, round trips and memory. How long it
// took says more about the machine, and is printed beside.
//
//	go run ./sync --bin ../bin                    everything, an hour or more
//	go run ./sync --bin ../bin --only real        real pages, beside rsync
//	go run ./sync --bin ../bin --only small --pages 100000
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
	"strconv"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/bench/machine"
)

// options are what the flags say.
type options struct {
	dir   string
	bin   string
	real  string
	only  string
	pages []int
	json  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "sync:", err)
		}
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var pages string
	f := flag.NewFlagSet("sync", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "dir", ".", "folder on the disk to measure; a folder of its own is made in it and removed")
	f.StringVar(&o.bin, "bin", "bin", "folder with publisherd and indexerd")
	f.StringVar(&o.real, "real", "/usr/share/cppreference/doc/html/en", "folder with real pages")
	f.StringVar(&o.only, "only", "", "real or small: make these measurements alone")
	f.StringVar(&pages, "pages", "10000,500000,1000000", "how many small pages; several numbers, ascending, show what grows with them")
	f.BoolVar(&o.json, "json", false, "print everything as JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	for n := range strings.SplitSeq(pages, ",") {
		i, err := strconv.Atoi(n)
		if err != nil || i < leastPages || len(o.pages) > 0 && i <= o.pages[len(o.pages)-1] {
			return o, fmt.Errorf("--pages %s: want ascending numbers from %d on", pages, leastPages)
		}
		o.pages = append(o.pages, i)
	}
	if f.NArg() > 0 || o.only != "" && o.only != "real" && o.only != "small" {
		return o, errors.New("flags alone, and --only real or small")
	}
	var err error
	o.bin, err = filepath.Abs(o.bin)
	return o, err
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
	var r report
	if r.Machine, err = machine.Of(dir); err != nil {
		return err
	}
	progress := func(format string, a ...any) { fmt.Fprintf(stderr, format+"\n", a...) }
	if o.only != "small" {
		if r.Real, err = measureReal(ctx, filepath.Join(dir, "real"), o, progress); err != nil {
			return err
		}
	}
	if o.only != "real" {
		for _, n := range o.pages {
			s, err := measureSmall(ctx, filepath.Join(dir, strconv.Itoa(n)), n, o, progress)
			if err != nil {
				return err
			}
			r.Small = append(r.Small, s)
		}
	}
	r.Machine.LoadAfter = machine.LoadAverage()
	r.judge()
	if o.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err = io.WriteString(stdout, r.text())
	return err
}
