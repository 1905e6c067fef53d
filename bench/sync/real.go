package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/bench/fleet"
)

// edits is how many real pages are edited: one in a hundred.
const edits = 44

// leastSent is how many of the edits have to be sent: where a sentence falls into
// what is no content of a page, the page has not changed.
const leastSent = 40

// rsync is what `rsync -az` from a daemon did for the same folder.
type rsync struct {
	First     fleet.Copied `json:"first"`
	Unchanged fleet.Copied `json:"unchanged"`
	Edited    fleet.Copied `json:"edited"`
}

// real is what was measured on pages that others wrote.
type real struct {
	First     fleet.Phase `json:"first"`
	Unchanged fleet.Phase `json:"unchanged"`
	Edited    fleet.Phase `json:"edited"`
	Rsync     rsync       `json:"rsync"`
}

// measureReal pushes real pages to one indexer, and has rsync copy the same folder
// at the same three moments.
func measureReal(ctx context.Context, dir string, o options, progress func(string, ...any)) (_ *real, err error) {
	site := filepath.Join(dir, "site")
	if err := os.CopyFS(site, os.DirFS(o.real)); err != nil {
		return nil, fmt.Errorf("%w (the Debian package cppreference-doc-en-html has them)", err)
	}
	f, err := fleet.New(ctx, dir, o.bin, 1)
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
	var r real
	for _, step := range []struct {
		name string
		ours *fleet.Phase
		its  *fleet.Copied
	}{{"first", &r.First, &r.Rsync.First}, {"unchanged", &r.Unchanged, &r.Rsync.Unchanged}, {"edited", &r.Edited, &r.Rsync.Edited}} {
		if step.name == "edited" {
			if err := fleet.Edit(site, edits); err != nil {
				return nil, err
			}
		}
		if *step.ours, err = p.Push(ctx, step.name); err != nil {
			return nil, err
		}
		if *step.its, err = d.Copy(ctx); err != nil {
			return nil, err
		}
		progress("real pages, %s: %d octets, %.1f s; rsync %d octets, %.1f s", step.name, step.ours.Octets, step.ours.Seconds, step.its.Octets, step.its.Seconds)
	}
	if r.Edited.Sent < leastSent || r.Edited.Sent > edits {
		return nil, fmt.Errorf("%d pages were edited, and %d sent", edits, r.Edited.Sent)
	}
	return &r, nil
}
