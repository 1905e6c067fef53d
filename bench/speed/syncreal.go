package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/fleet"
	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

// syncReal pushes real pages, and has rsync copy the same folder, at three moments:
// first, unchanged, and when one page in a hundred was edited. Rates are of pages of
// the folder, so that the ratio of two is that of their times.
func syncReal(ctx context.Context, dir string, in input) (_ ratio.Round, err error) {
	site := filepath.Join(dir, "site")
	if err := os.CopyFS(site, os.DirFS(in.real)); err != nil {
		return nil, fmt.Errorf("%w (the Debian package cppreference-doc-en-html has them)", err)
	}
	pages, err := fleet.Pages(site)
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(ctx, dir, in.bin, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	p, err := f.Join(ctx, host, fleet.Source{Kind: "site", Location: site})
	if err != nil {
		return nil, err
	}
	d, err := fleet.StartRsync(ctx, dir, site)
	if err != nil {
		return nil, err
	}
	defer d.Stop()
	if err := fleet.Rest(ctx); err != nil {
		return nil, err
	}
	r := make(ratio.Round)
	for _, name := range []string{"sync/first", "sync/unchanged", "sync/edited"} {
		if name == "sync/edited" {
			if err := fleet.Edit(site, max(1, len(pages)/100)); err != nil {
				return r, err
			}
		}
		ph, err := p.Push(ctx, name)
		if err != nil {
			return r, err
		}
		its, err := d.Copy(ctx)
		if err != nil {
			return r, err
		}
		n := float64(len(pages))
		r[name] = sampleOf(ph, len(pages))
		r[name+"/rsync"] = load.Sample{Rate: n / its.Seconds, CPU: time.Duration(its.CPU * float64(time.Second) / n)}
	}
	return r, nil
}
