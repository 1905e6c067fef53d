package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// edits is how many real pages are edited: one in a hundred.
const edits = 44

// leastSent is how many of the edits have to be sent: where a sentence falls into
// what is no content of a page, the page has not changed.
const leastSent = 40

// real is what was measured on pages that others wrote.
type real struct {
	First     phase `json:"first"`
	Unchanged phase `json:"unchanged"`
	Edited    phase `json:"edited"`
	Rsync     rsync `json:"rsync"`
}

// measureReal pushes real pages to one indexer, and has rsync copy the same folder
// at the same three moments.
func measureReal(ctx context.Context, dir string, o options, progress func(string, ...any)) (_ *real, err error) {
	site := filepath.Join(dir, "site")
	if err := os.CopyFS(site, os.DirFS(o.real)); err != nil {
		return nil, fmt.Errorf("%w (the Debian package cppreference-doc-en-html has them)", err)
	}
	f, err := newFleet(ctx, dir, o.bin, site, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	d, err := startRsync(ctx, dir, site)
	if err != nil {
		return nil, err
	}
	defer d.stop()
	var r real
	for _, step := range []struct {
		name string
		ours *phase
		its  *copied
	}{{"first", &r.First, &r.Rsync.First}, {"unchanged", &r.Unchanged, &r.Rsync.Unchanged}, {"edited", &r.Edited, &r.Rsync.Edited}} {
		if step.name == "edited" {
			if err := edit(site); err != nil {
				return nil, err
			}
		}
		if *step.ours, err = f.push(ctx, step.name); err != nil {
			return nil, err
		}
		if *step.its, err = d.copy(ctx); err != nil {
			return nil, err
		}
		progress("real pages, %s: %d octets, %.1f s; rsync %d octets, %.1f s", step.name, step.ours.Octets, step.ours.Seconds, step.its.Octets, step.its.Seconds)
	}
	if r.Edited.Sent < leastSent || r.Edited.Sent > edits {
		return nil, fmt.Errorf("%d pages were edited, and %d sent", edits, r.Edited.Sent)
	}
	return &r, nil
}

// edit puts a sentence into pages that are spread over the whole folder.
func edit(site string) error {
	var pages []string
	err := filepath.WalkDir(site, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".html" {
			pages = append(pages, path)
		}
		return err
	})
	edited := 0
	for i := 7; i < len(pages) && edited < edits && err == nil; i += max(1, len(pages)/60) {
		var before []byte
		if before, err = os.ReadFile(pages[i]); err != nil {
			break
		}
		after := bytes.Replace(before, []byte("<p>"), fmt.Appendf(nil, "<p>Sentence %d of an edit, which was not there before. ", i), 1)
		if bytes.Equal(before, after) {
			continue
		}
		err = os.WriteFile(pages[i], after, 0o644)
		edited++
	}
	if err == nil && edited < edits {
		err = fmt.Errorf("%s has too few pages: %d of %d edits", site, edited, edits)
	}
	return err
}
