package scp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// exportState is what one export leaves for the next: STATE/SECTION.json.
type exportState struct {
	Version string       `json:"version"`
	Base    time.Time    `json:"base"`    // of the last snapshot
	Reached time.Time    `json:"reached"` // of the last collection
	Deltas  int          `json:"deltas"`  // since the last snapshot
	Index   string       `json:"index"`   // file with the entries as they were written
	Files   []exportFile `json:"files"`   // that are in the folder
}

const exportVersion = "scp-export/1"

// An exportFile is a collection that an export wrote.
type exportFile struct {
	Name      string    `json:"name"`
	Type      Type      `json:"type"`
	Generated time.Time `json:"generated"`
	Since     time.Time `json:"since,omitzero"`
	Expires   time.Time `json:"expires"`
	Pages     int64     `json:"pages"`
	Size      int64     `json:"size"`
}

func (e *export) statePath() string { return filepath.Join(e.c.State, e.c.Section+".json") }

// load reads what the last export left. A state that is not there, or not
// whole, makes this one the first.
func (e *export) load() error {
	b, err := os.ReadFile(e.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var s exportState
	if json.Unmarshal(b, &s) != nil || s.Version != exportVersion || s.Index != filepath.Base(s.Index) {
		return nil
	}
	index, err := os.Open(filepath.Join(e.c.State, s.Index))
	if err != nil {
		// Times must not go back even if the index is lost.
		e.state.Reached, e.state.Files = s.Reached, s.Files
		return nil
	}
	spool, err := durable.Unnamed(e.c.State)
	if err != nil {
		index.Close()
		return err
	}
	e.state, e.old = s, newLayer(s.Reached, spool, index)
	return nil
}

func (e *export) save() error {
	e.state.Version = exportVersion
	b, err := json.MarshalIndent(e.state, "", " ")
	if err != nil {
		return err
	}
	return durable.WriteFile(e.statePath(), append(b, '\n'), 0o644)
}

// publish writes the sitemap and then removes what has expired. What the
// sitemap says already is not written again.
func (e *export) publish() error {
	m, more, err := e.sitemap()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		return err
	}
	if err := e.replace("sitemap.xml", b.Bytes()); err != nil {
		return err
	}
	if err := e.removeFrom(more); err != nil {
		return err
	}
	return e.clear()
}

// replace writes a file of the folder, unless it is so already.
func (e *export) replace(name string, data []byte) error {
	path := filepath.Join(e.c.Dir, name)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return durable.WriteFile(path, data, 0o644)
}

// sitemap lists collections and pages. Pages beyond the first 50,000 go to
// sitemap-2.xml and so on, and sitemap_index.xml then names all of them; more
// is the number of the first such file that is not needed.
func (e *export) sitemap() (first *Sitemap, more int, err error) {
	first = &Sitemap{Sections: []Section{{e.c.Section, e.c.UpdateFreq, strconv.FormatInt(e.report.Pages, 10)}}}
	if name := e.c.Packing.Compression.Coding(); name != "" {
		first.Compression = []string{name}
	}
	for _, f := range e.state.Files {
		if f.Type == Snapshot && !f.Generated.Equal(e.state.Base) || e.c.Generated.After(f.Expires) || e.forgets(&f) {
			continue
		}
		first.Listings = append(first.Listings, Listing{
			Type: f.Type, Section: e.c.Section, Period: f.Generated.Format("2006-01-02T15-04-05Z"), URL: e.c.BaseURL + f.Name,
			Generated: f.Generated, Expires: f.Expires, Since: f.Since, Pages: f.Pages, Size: f.Size,
		})
	}
	names := []string{e.c.BaseURL + "sitemap.xml"}
	at := first
	flush := func() error {
		if at == first {
			return nil
		}
		var b bytes.Buffer
		if err := at.Write(&b); err != nil {
			return err
		}
		name := fmt.Sprintf("sitemap-%d.xml", len(names)+1)
		names = append(names, e.c.BaseURL+name)
		return e.replace(name, b.Bytes())
	}
	size := 0
	for c, err := range e.changes() {
		if err != nil {
			return nil, 0, err
		}
		if c.gone {
			continue
		}
		// An octet that XML escapes takes five.
		if size += 5*len(c.entry.url) + 128; len(at.URLs) == MaxSitemapURLs || size > MaxSitemap {
			if err := flush(); err != nil {
				return nil, 0, err
			}
			at, size = &Sitemap{}, 0
		}
		at.URLs = append(at.URLs, SitemapURL{c.entry.url, c.entry.modified})
	}
	if err := flush(); err != nil {
		return nil, 0, err
	}
	if len(names) == 1 {
		return first, 2, nil
	}
	var b bytes.Buffer
	if err := writeSitemapIndex(&b, names); err != nil {
		return nil, 0, err
	}
	return first, len(names) + 1, e.replace("sitemap_index.xml", b.Bytes())
}

// removeFrom removes the further sitemaps from number n on.
func (e *export) removeFrom(n int) error {
	if n == 2 {
		if err := remove(filepath.Join(e.c.Dir, "sitemap_index.xml")); err != nil {
			return err
		}
	}
	for ; ; n++ {
		path := filepath.Join(e.c.Dir, fmt.Sprintf("sitemap-%d.xml", n))
		if _, err := os.Lstat(path); err != nil {
			return nil
		}
		if err := remove(path); err != nil {
			return err
		}
	}
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// forgets reports whether a file may hold pages that are gone: each deletion begins
// with a snapshot.
func (e *export) forgets(f *exportFile) bool { return e.c.Forget && f.Generated.Before(e.state.Base) }

// clear removes collections that have expired, and those of this section that
// an export left that did not come to its end.
func (e *export) clear() error {
	keep := make(map[string]bool)
	var files []exportFile
	for _, f := range e.state.Files {
		if !e.forgets(&f) && !e.c.Generated.After(f.Expires) || f.Generated.Equal(e.state.Base) {
			files = append(files, f)
			keep[f.Name] = true
		}
	}
	if len(files) != len(e.state.Files) {
		e.state.Files = files
		if err := e.save(); err != nil {
			return err
		}
	}
	keep[e.state.Index] = true
	for _, dir := range []string{e.c.Dir, e.c.State} {
		all, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range all {
			if e.isOurs(f.Name()) && !keep[f.Name()] {
				if err := remove(filepath.Join(dir, f.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// isOurs reports whether a name is one that writeCollection gives.
func (e *export) isOurs(name string) bool {
	if strings.HasPrefix(name, ".scp-") || strings.HasPrefix(name, ".index-") {
		return true
	}
	rest, ok := strings.CutPrefix(name, e.c.Section+"-")
	kind, rest, cut := strings.Cut(rest, "-")
	if !ok || !cut || kind != string(Snapshot) && kind != string(Delta) {
		return false
	}
	stamp, _, _ := strings.Cut(rest, ".")
	_, err := time.Parse("20060102T150405Z", stamp)
	return err == nil
}

// An entryWriter writes entries in the order in which they come.
type entryWriter struct {
	out *bufio.Writer
	buf []byte
}

func newEntryWriter(w io.Writer) *entryWriter {
	return &entryWriter{out: bufio.NewWriterSize(w, 64<<10)}
}

func (w *entryWriter) write(e *entry) error {
	w.buf = appendEntry(w.buf[:0], e)
	_, err := w.out.Write(w.buf)
	return err
}

func (w *entryWriter) flush() error { return w.out.Flush() }
