// Command soak has an indexer and several publishers work for an hour, as real
// programs on the loopback interface, and looks whether what they hold stays flat:
// memory, goroutines and descriptors. It fails if anything grows, if any command
// fails, or if at the end the indexer does not hold what the sites say.
//
//	go run ./soak --bin ../bin                 an hour
//	go run ./soak --bin ../bin --for 10m --publishers 2
//
// What grows is told by TestGrowthIsTold.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options are what the flags say.
type options struct {
	bin, dir   string
	publishers int
	pages      int // of each, at the beginning
	fill       int // how often a page of each is written anew at first
	length     time.Duration
	every      time.Duration // between two looks
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.bin, "bin", "bin", "folder with publisherd, indexerd and auditor")
	f.StringVar(&o.dir, "dir", "", "folder for everything that is made, kept if something fails; empty: a temporary one")
	f.IntVar(&o.publishers, "publishers", 4, "how many publishers, 1 to 50")
	f.IntVar(&o.pages, "pages", 400, "pages of each site, 10 to 100000")
	f.DurationVar(&o.length, "for", time.Hour, "how long, from 1m on")
	f.IntVar(&o.fill, "fill", 20000, "how often a page of each site is written anew before anything is measured, so that what the stores hold in memory is full; 0 to 1000000")
	f.DurationVar(&o.every, "every", 5*time.Second, "between two looks, from 1s on")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.publishers < 1 || o.publishers > 50 || o.pages < 10 || o.pages > 100_000 || o.fill < 0 || o.fill > 1_000_000 || o.length < time.Minute || o.every < time.Second {
		return o, errors.New("flags alone, within the bounds that -help names")
	}
	o.bin, err = filepath.Abs(o.bin)
	return o, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "soak-"); err != nil {
			return err
		}
	}
	f := &farm{options: o}
	defer func() {
		err = errors.Join(err, f.stop())
		if err == nil {
			err = os.RemoveAll(o.dir)
		} else {
			fmt.Fprintf(stderr, "everything is kept in %s\n", o.dir)
		}
	}()
	if err := f.build(ctx); err != nil {
		return err
	}
	if err := f.fillStores(ctx); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d publishers with %d pages each, for %s, in %s\n", o.publishers, o.pages, o.length, o.dir)
	table, err := f.soak(ctx, stdout)
	if err != nil {
		return err
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	fmt.Fprintln(stdout, f.tally())
	return table.judge(stdout)
}

// soak works and looks, by turns, until the time is over.
func (f *farm) soak(ctx context.Context, stdout io.Writer) (*table, error) {
	t, begun := new(table), time.Now()
	said, looked := begun, time.Time{}
	for time.Since(begun) < f.length {
		if err := f.step(ctx); err != nil {
			return nil, fmt.Errorf("after %s: %w", time.Since(begun).Round(time.Second), err)
		}
		if time.Since(looked) < f.every {
			continue
		}
		looked = time.Now()
		for _, d := range f.daemons() {
			s, err := d.look(ctx)
			if err != nil {
				return nil, err
			}
			t.add(d.name, s)
		}
		if time.Since(said) > time.Minute {
			said = looked
			fmt.Fprintf(stdout, "%s  %s  %s\n", time.Since(begun).Round(time.Second), f.tally(), t.last("indexer"))
		}
	}
	return t, nil
}
