package scp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// An ExportConfig says what an export writes, and where.
type ExportConfig struct {
	// Dir is the folder that a web server offers as BaseURL, a canonical URL
	// that ends with a slash.
	Dir, BaseURL string

	// State is a folder for what the next export has to know; empty stands for
	// .scp in Dir.
	State string

	Section    string
	UpdateFreq string // hourly, daily, weekly or monthly; empty for daily

	// Generated is the export's time; it must grow from export to export.
	Generated time.Time

	Packing Packing

	// Snapshot asks for a full state in any case. Without it one is written
	// first, after a deletion, which deltas cannot tell, when the last one is
	// older than UpdateFreq says, and behind maxDeltas deltas.
	Snapshot bool

	// Forget keeps nothing of a page that is gone: behind a deletion, what was
	// written before the new snapshot is removed at once, and not when it expires.
	Forget bool
}

// maxDeltas is how many deltas follow one snapshot.
const maxDeltas = 100

// An ExportReport tells what an export did.
type ExportReport struct {
	Type                           Type // of the collection that was written; empty for none
	File, Checksum                 string
	Pages, Added, Changed, Deleted int64
	// Moved counts pages whose modified was moved on, so that it grows.
	Moved int64
}

// interval is how long an update frequency lasts.
func interval(freq string) time.Duration {
	switch freq {
	case "hourly":
		return time.Hour
	case "weekly":
		return 7 * 24 * time.Hour
	case "monthly":
		return 30 * 24 * time.Hour
	}
	return 24 * time.Hour
}

func (c *ExportConfig) complete() error {
	if c.UpdateFreq == "" {
		c.UpdateFreq = "daily"
	}
	if c.State == "" {
		c.State = filepath.Join(c.Dir, ".scp")
	}
	c.Generated = c.Generated.UTC().Truncate(time.Second)
	probe := Sitemap{Sections: []Section{{c.Section, c.UpdateFreq, "0"}}}
	switch err := content.IsCanonical(c.BaseURL); {
	case err != nil:
		return fmt.Errorf("export: base URL: %w", err)
	case !strings.HasSuffix(c.BaseURL, "/") || strings.Contains(c.BaseURL, "?"):
		return fmt.Errorf("export: base URL %q must end with a slash", c.BaseURL)
	case c.Dir == "":
		return errors.New("export: no folder")
	case c.Generated.IsZero() || !inRange(c.Generated):
		return errors.New("export: no time")
	}
	if err := probe.valid(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return c.Packing.check()
}

// Export brings a folder up to the pages that it is given, in any order, as
// page lines: with a snapshot, a delta, or nothing where nothing has changed,
// and a sitemap.xml. Equal pages, times and states give equal octets.
//
// Each file is written beside its place, synced and renamed; the sitemap comes
// last, and what it does not list any more is removed only when it has
// expired. An export that ends early leaves the folder as good as it was, and
// the next one clears up behind it (TestExportSurvivesACrashAtEachStep).
//
// A page counts as changed by its fingerprint, so one that says only another
// time has not. The times that are written never go back, and grow with each
// change, as the text asks. Lines are otherwise written byte for byte.
//
// It holds one page, what a sorter holds, and the URLs of one sitemap; in
// State's folder it takes the pages' size twice while it runs.
func Export(ctx context.Context, c ExportConfig, pages iter.Seq2[[]byte, error]) (ExportReport, error) {
	if err := c.complete(); err != nil {
		return ExportReport{}, err
	}
	for _, dir := range []string{c.Dir, c.State} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return ExportReport{}, err
		}
	}
	e := &export{c: c}
	defer e.close()
	if err := e.load(); err != nil {
		return ExportReport{}, fmt.Errorf("export: %w", err)
	}
	if err := e.gather(ctx, pages); err != nil {
		return ExportReport{}, fmt.Errorf("export: %w", err)
	}
	if err := e.run(ctx); err != nil {
		return ExportReport{}, fmt.Errorf("export: %w", err)
	}
	return e.report, nil
}

// An export is one call of Export.
type export struct {
	c      ExportConfig
	state  exportState
	old    *layer // its index alone; nil for a first export
	new    *layer
	report ExportReport
}

func (e *export) close() {
	for _, l := range []*layer{e.old, e.new} {
		if l != nil {
			l.release()
		}
	}
}

// gather spools and sorts the pages.
func (e *export) gather(ctx context.Context, pages iter.Seq2[[]byte, error]) error {
	spool, err := durable.Unnamed(e.c.State)
	if err != nil {
		return err
	}
	index, err := durable.Unnamed(e.c.State)
	if err != nil {
		spool.Close()
		return err
	}
	e.new = newLayer(e.c.Generated, spool, index)
	w := layerWriter{spool: newSpoolWriter(spool), generated: e.c.Generated, sorter: sorter{dir: e.c.State}}
	defer w.sorter.close()
	walk, build := newWalker(), builder{}
	for line, err := range pages {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := w.add(line, walk, &build); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.sorter.finish(index)
}

// A change is a page of the new state, or of the old one alone.
type change struct {
	entry   entry // modified is what is to be written
	gone    bool
	added   bool
	changed bool
	moved   bool
}

// changes walks the old state and the new one side by side.
func (e *export) changes() iter.Seq2[change, error] {
	return func(yield func(change, error) bool) {
		heads := []foldHead{{}, {}}
		for i, l := range []*layer{e.old, e.new} {
			if l == nil {
				continue
			}
			next, stop := iter.Pull2(l.entries(0))
			defer stop()
			heads[i] = foldHead{layer: l, next: next}
			if err := heads[i].step(); err != nil {
				yield(change{}, err)
				return
			}
		}
		for {
			url, any := least(heads)
			if !any {
				return
			}
			c, err := e.one(&heads[0], &heads[1], url)
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (e *export) one(old, new *foldHead, url string) (c change, err error) {
	had, has := old.live && old.entry.url == url, new.live && new.entry.url == url
	switch was := old.entry; {
	case !has:
		c = change{entry: was, gone: true}
	case !had:
		c = change{entry: new.entry, added: true}
	default:
		c = change{entry: new.entry, changed: new.entry.fingerprint != was.fingerprint}
		floor := was.modified
		if c.changed {
			floor = floor.Add(time.Second)
		}
		if c.entry.modified.Before(floor) {
			c.entry.modified, c.moved = floor, true
		}
	}
	if had {
		err = old.step()
	}
	if has && err == nil {
		err = new.step()
	}
	return c, err
}

// run counts, decides, and writes.
func (e *export) run(ctx context.Context) error {
	for c, err := range e.changes() {
		if err != nil {
			return err
		}
		switch {
		case c.gone:
			e.report.Deleted++
			continue
		case c.added:
			e.report.Added++
		case c.changed:
			e.report.Changed++
		}
		e.report.Pages++
	}
	if e.report.Type = e.decide(); e.report.Type != "" {
		if !e.c.Generated.After(e.state.Reached) {
			return fmt.Errorf("the time %s is not after the last export's", formatTime(e.c.Generated))
		}
		if err := e.writeCollection(ctx); err != nil {
			return err
		}
	}
	return e.publish()
}

// decide says what is to be written.
func (e *export) decide() Type {
	due := e.c.Generated.Sub(e.state.Base) >= interval(e.c.UpdateFreq)
	switch {
	case e.c.Snapshot, e.old == nil, e.report.Deleted > 0, due, e.state.Deltas >= maxDeltas:
		return Snapshot
	case e.report.Added+e.report.Changed > 0:
		return Delta
	}
	return ""
}

// writeCollection writes the file, and beside it the index that the next
// export compares with.
func (e *export) writeCollection(ctx context.Context) error {
	stamp := e.c.Generated.Format("20060102T150405Z")
	id := e.c.Section + "-" + string(e.report.Type) + "-" + stamp
	w, err := NewWriter(Collection{
		ID: id, Section: e.c.Section, Type: e.report.Type, Generated: e.c.Generated, Since: e.state.Reached,
	}, e.c.State)
	if err != nil {
		return err
	}
	defer w.Close()
	index, err := os.CreateTemp(e.c.State, ".index-*")
	if err != nil {
		return err
	}
	defer os.Remove(index.Name())
	defer index.Close()
	entries := newEntryWriter(index)
	for c, err := range e.changes() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if c.gone {
			continue
		}
		if err := entries.write(&c.entry); err != nil {
			return err
		}
		if e.report.Type == Snapshot || c.added || c.changed {
			if err := e.writePage(w, &c); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(entries.flush(), index.Sync()); err != nil {
		return err
	}
	return e.finish(w, id, index.Name())
}

// writePage writes a page's line, with the time that it has to have.
func (e *export) writePage(w *Writer, c *change) error {
	line, p, _, err := recordAt(e.new.spool, c.entry.offset, c.entry.length)
	if err != nil {
		return err
	}
	at := p[mModified]
	t, _, _ := parseTime(string(unquoted(line[at.from:at.to])))
	if !t.Equal(c.entry.modified) {
		e.report.Moved++
		stamp, err := jsontext.AppendQuote(nil, formatTime(c.entry.modified))
		if err != nil {
			return err
		}
		line = append(append(line[:at.from:at.from], stamp...), line[at.to:]...)
	}
	return w.add(line)
}

// finish puts the file and the index into their places, and then the state
// that names them.
func (e *export) finish(w *Writer, id, index string) error {
	listed, checksum, err := e.place(w, id)
	if err != nil {
		return err
	}
	e.report.File, e.report.Checksum = listed.Name, checksum
	if e.report.Type == Snapshot {
		e.state.Base, e.state.Deltas = e.c.Generated, 0
	} else {
		e.state.Deltas++
	}
	e.state.Reached = e.c.Generated
	e.state.Index = id + ".index"
	e.state.Files = append(e.state.Files, listed)
	if err := os.Rename(index, filepath.Join(e.c.State, e.state.Index)); err != nil {
		return err
	}
	if err := durable.SyncDir(e.c.State); err != nil {
		return err
	}
	return e.save()
}

// place writes the collection into the folder; what would look like a bomb is
// written plain.
func (e *export) place(w *Writer, id string) (exportFile, string, error) {
	packing := e.c.Packing
	for {
		name := id + packing.Compression.Extension()
		f, err := os.CreateTemp(e.c.Dir, ".scp-*")
		if err != nil {
			return exportFile{}, "", err
		}
		checksum, size, err := w.Finish(f, packing)
		if err == nil {
			err = errors.Join(f.Chmod(0o644), f.Sync())
		}
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(f.Name(), filepath.Join(e.c.Dir, name))
		}
		if err != nil {
			os.Remove(f.Name())
		}
		if errors.Is(err, ErrLimit) && packing.Compression != Plain {
			packing = Packing{}
			continue
		}
		if err == nil {
			err = durable.SyncDir(e.c.Dir)
		}
		return exportFile{
			Name: name, Type: e.report.Type, Generated: e.c.Generated, Since: w.meta.Since, Pages: w.Pages, Size: size,
			Expires: e.c.Generated.Add(2 * interval(e.c.UpdateFreq)),
		}, checksum, err
	}
}
