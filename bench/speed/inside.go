package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/fleet"
	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/profile"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// inside is the pipeline with both sides in this process, for a profile that shows
// both: of the first push, and of one of what is unchanged. Pages are those of the
// collection, or of the folder --inside.
func inside(ctx context.Context, dir string, in input) (_ ratio.Round, err error) {
	f, err := fleet.New(ctx, dir, in.bin, 1)
	if err != nil {
		return nil, err
	}
	source := fleet.Source{Kind: "scp", Location: in.collection}
	if in.inside != "" {
		source = fleet.Source{Kind: "site", Location: in.inside}
	}
	p, err := f.Join(ctx, host, source)
	if err = errors.Join(err, f.Stop()); err != nil {
		return nil, err
	}
	serving, err := serve(ctx, f.Indexers[0])
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, serving()) }()
	pub, err := publisher.Open(publisher.Config{Dir: p.Dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pub.Close()) }()
	r := make(ratio.Round)
	for _, name := range []string{"inside", "inside/unchanged"} {
		to := in.profile
		if to != "" {
			to = filepath.Join(to, filepath.Base(name))
		}
		stop, err := profile.Start(to)
		if err != nil {
			return nil, err
		}
		began, used := time.Now(), cpuTime()
		results, err := pub.Push(ctx, publisher.PushOptions{})
		took, cpu := time.Since(began), cpuTime()-used
		if err = errors.Join(err, stop()); err != nil {
			return nil, err
		}
		if len(results) != 1 || results[0].RefusedCount > 0 {
			return nil, fmt.Errorf("what was pushed: %+v", results)
		}
		pages := results[0].Sent + int(results[0].Unchanged)
		r[name] = load.Sample{Rate: float64(pages) / took.Seconds(), CPU: cpu / time.Duration(max(1, pages))}
	}
	return r, nil
}

// serve runs an indexer of the fleet in this process, where it was.
func serve(ctx context.Context, x *fleet.Indexer) (stop func() error, err error) {
	opened, err := indexer.Open(indexer.Config{Dir: x.Dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", x.Address)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- opened.Serve(ctx, opened.NewServer(), l) }()
	return func() error {
		cancel()
		return errors.Join(<-served, opened.Close())
	}, nil
}
