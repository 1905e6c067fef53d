package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/fleet"
	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

// pipeline pushes the collection to a new indexer: both daemons, a new publisher,
// from the command's begin to its end.
func pipeline(ctx context.Context, dir string, in input) (_ ratio.Round, err error) {
	f, err := fleet.New(ctx, dir, in.bin, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	s, _, err := pushAll(ctx, f, in.collection, in.pages)
	return ratio.Round{"pipeline": s}, err
}

// pushAll has a new publisher push all of a collection.
func pushAll(ctx context.Context, f *fleet.Fleet, collection string, pages int) (load.Sample, *fleet.Publisher, error) {
	p, err := f.Join(ctx, host, fleet.Source{Kind: "scp", Location: collection})
	if err != nil {
		return load.Sample{}, nil, err
	}
	ph, err := p.Push(ctx, "first")
	if err == nil && ph.Sent != pages {
		err = fmt.Errorf("%d pages of %d were sent", ph.Sent, pages)
	}
	if err != nil {
		return load.Sample{}, nil, err
	}
	return sampleOf(ph, pages), p, nil
}

// sampleOf is what a push says of each page.
func sampleOf(ph fleet.Phase, pages int) load.Sample {
	return load.Sample{Rate: float64(pages) / ph.Seconds, CPU: time.Duration(ph.CPU * float64(time.Second) / float64(pages))}
}

// growth pushes ten times as many pages to one indexer as to another, and starts
// that with the more of them anew.
func growth(ctx context.Context, dir string, in input) (ratio.Round, error) {
	r := make(ratio.Round)
	for _, x := range []struct {
		name  string
		pages int
	}{{"growth/small", in.pages / 2}, {"growth/large", in.pages * 5}} {
		if err := grown(ctx, filepath.Join(dir, fmt.Sprint(x.pages)), in, x.name, x.pages, r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// grown measures one size; what is on disk and the restart count last, of the
// larger one.
func grown(ctx context.Context, dir string, in input, name string, pages int, r ratio.Round) (err error) {
	f, err := fleet.New(ctx, dir, in.bin, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	collection := filepath.Join(dir, "pages.scp.zst")
	if err := writeCollection(collection, pages); err != nil {
		return err
	}
	s, p, err := pushAll(ctx, f, collection, pages)
	if err != nil {
		return err
	}
	r[name] = s
	x := f.Indexers[0]
	if err := x.Stop(); err != nil {
		return err
	}
	began := time.Now()
	if err := f.Start(ctx, x); err != nil {
		return err
	}
	took := time.Since(began)
	r["restart"] = load.Sample{Rate: 1 / took.Seconds(), P50: took}
	for name, dir := range map[string]string{"disk/indexer": x.Dir, "disk/publisher": p.Dir} {
		n, err := fleet.Allocated(dir)
		if err != nil {
			return err
		}
		r[name] = load.Sample{Rate: float64(n) / float64(pages)}
	}
	return nil
}
