// Command hammer puts a transparency log under load, and verifies all that it
// gets to see: adders commit entries, readers fetch random entries, tiles and
// proofs over HTTP, and a follower asks again and again for the checkpoint, and
// for the proof that it goes on from every one seen before.
//
//	go run ./hammer --for 1m                    a log of its own, in a new folder
//	go run ./hammer --url U --vkey K --for 1m   a running log; readers and follower alone
//
// A log that contradicts itself does not pass (TestALyingLogIsFound), and one
// that does not is not accused (TestAnHonestLogPasses). The exit code is 1 if
// anything was inconsistent or the hammer could not be used, and 2 if requests
// failed and nothing was inconsistent.
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
	"time"
)

// What main tells apart by its exit code.
var errRequests = errors.New("some requests failed")

type options struct {
	dir, url, vkey          string
	adders, readers, octets int
	duration                time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hammer:", err)
	}
	switch {
	case errors.Is(err, errRequests):
		os.Exit(2)
	case err != nil:
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("hammer", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "dir", ".", "where the folder of an own log is made, and removed again")
	f.StringVar(&o.url, "url", "", "address of the public side of a running log, to which nothing is added")
	f.StringVar(&o.vkey, "vkey", "", "its C2SP note verifier key")
	f.IntVar(&o.adders, "adders", 256, "how many add to an own log, each one entry at a time")
	f.IntVar(&o.readers, "readers", 8, "how many read at a time")
	f.IntVar(&o.octets, "octets", 1024, "size of an entry")
	f.DurationVar(&o.duration, "for", 30*time.Second, "how long")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("flags alone, not %q", f.Arg(0))
	case (o.url == "") != (o.vkey == ""):
		return o, errors.New("--url and --vkey belong together")
	case o.adders < 1 || o.readers < 1 || o.octets < 8 || o.octets > 65535 || o.duration <= 0:
		return o, errors.New("at least one adder and reader, 8 to 65,535 octets, and a duration above zero")
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	t := newTally()
	if o.url != "" {
		w, err := newWatcher(o.url, o.vkey, o.readers, t)
		if err != nil {
			return err
		}
		w.watch(ctx, o.duration, o.readers)
		return t.end(stdout, o.duration)
	}
	dir, err := os.MkdirTemp(o.dir, ".hammer-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := hammerOwn(ctx, dir, o, t); err != nil {
		return err
	}
	return t.end(stdout, o.duration)
}
