package publisher

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

// scanAt scans by a clock that is ahead of the file system's, so that all
// files are at rest.
func (c *scanCase) scanAt(ahead time.Duration) ScanReport {
	c.t.Helper()
	s := c.scanner()
	at := time.Now().Add(ahead)
	s.now = func() time.Time { return at }
	r, err := s.run(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// moved does something to a file until its change time shows it: a file system
// gives the same one to what happens within one of its ticks.
func (c *scanCase) moved(name string, do func(path string)) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	stampOf := func() content.Stamp {
		for p, err := range (&site.Site{Dir: c.dir, BaseURL: "https://a.test/"}).Pages(c.t.Context(), nil, nil) {
			if err == nil && p.Location == name {
				return p.Stamp
			}
		}
		return content.Stamp{}
	}
	before := stampOf()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if do(path); stampOf() != before {
			return
		}
	}
	c.t.Fatal("the file system does not show that a file was written to")
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnUnchangedFolderIsNotRead(t *testing.T) {
	c := newScanCase(t)
	c.write("index.html", "one")
	c.write("a/b.html", "two")
	if r := c.scanAt(time.Hour); r.Read != 2 || r.Changed != 2 {
		t.Errorf("the first scan: %+v", r)
	}
	before := c.rows()
	c.j.edits.Lock() // whoever wants to write waits for ever
	if r := c.scanAt(2 * time.Hour); r.Read != 0 || r.Pages != 2 {
		t.Errorf("without a change: %+v", r)
	}
	c.j.edits.Unlock()
	if c.rows() != before {
		t.Error("a scan without a change has written")
	}
	c.moved("a/b.html", func(path string) { ok(t, os.Chtimes(path, time.Now(), time.Now())) })
	for i, read := range []int{1, 0} {
		if r := c.scanAt(2 * time.Hour); r.Read != read || r.Changed != 0 {
			t.Errorf("scan %d after a touch: %+v, want %d read", i, r, read)
		}
	}
	if r := c.scanAt(time.Hour + defaultVerify); r.Read != 2 || r.Changed != 0 {
		t.Errorf("a day later: %+v, want all read", r)
	}
	if r := c.scanAt(time.Hour); r.Read != 2 {
		t.Errorf("after the clock was moved back: %+v, want all read", r)
	}
	if r := c.scanAt(time.Hour); r.Read != 0 {
		t.Errorf("and once more: %+v, want none read", r)
	}
}

// page is one of a fixed length.
func page(words string) []byte {
	return []byte("<!DOCTYPE html><title>T</title><p>" + words + "</p>")
}

func TestAnEditIsFoundHoweverItIsHidden(t *testing.T) {
	const name = "a.html"
	old := time.Now().Add(-time.Hour)
	for _, tt := range []struct {
		name string
		edit func(c *scanCase, path string)
	}{
		{"other octets, of the same size and time", func(c *scanCase, path string) {
			ok(c.t, os.WriteFile(path, page("two"), 0o644))
			ok(c.t, os.Chtimes(path, old, old))
		}},
		{"another file in its place, of the same size and time", func(c *scanCase, path string) {
			ok(c.t, os.WriteFile(path+".new", page("two"), 0o644))
			ok(c.t, os.Chtimes(path+".new", old, old))
			ok(c.t, os.Rename(path+".new", path))
		}},
		{"an older file brought back", func(c *scanCase, path string) {
			ok(c.t, os.WriteFile(path, page("two"), 0o644))
			ok(c.t, os.Chtimes(path, old.Add(-24*time.Hour), old.Add(-24*time.Hour)))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newScanCase(t)
			path := filepath.Join(c.dir, name)
			ok(t, os.WriteFile(path, page("one"), 0o644))
			ok(t, os.Chtimes(path, old, old))
			c.scanAt(time.Hour)
			c.moved(name, func(path string) { tt.edit(c, path) })
			if r := c.scanAt(time.Hour); r.Changed != 1 {
				t.Errorf("%+v, want the edit found", r)
			}
		})
	}
}

func TestEditsWithinOneTickOfTheClockAreFound(t *testing.T) {
	c := newScanCase(t)
	path := filepath.Join(c.dir, "a.html")
	for i := range 20 {
		ok(t, os.WriteFile(path, page([]string{"one", "two"}[i%2]), 0o644))
		if r := c.scanAt(0); r.Changed != 1 {
			t.Fatalf("edit %d: %+v", i, r)
		}
	}
}

// An editing source runs edit when its first page was read.
type editing struct {
	*site.Site
	edit func()
}

func (e *editing) PagesSince(ctx context.Context, known func(string) ([32]byte, bool), kept func(string, content.Stamp) content.Kept, skip func(content.Skipped)) iter.Seq2[content.Page, error] {
	return func(yield func(content.Page, error) bool) {
		for p, err := range e.Site.PagesSince(ctx, known, kept, skip) {
			if e.edit != nil {
				e.edit()
				e.edit = nil
			}
			if !yield(p, err) {
				return
			}
		}
	}
}

func TestAnEditInTheMidstOfAScanIsFoundByTheNext(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "one")
	c.scanAt(time.Hour)
	s := c.scanner()
	at := time.Now().Add(25 * time.Hour) // all is read
	s.now = func() time.Time { return at }
	s.source = &editing{s.source.(*site.Site), func() { c.moved("a.html", func(string) { c.write("a.html", "two") }) }}
	if r, err := s.run(t.Context()); err != nil || r.Read != 1 || r.Changed != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if r := c.scanAt(26 * time.Hour); r.Changed != 1 {
		t.Errorf("%+v, want the edit found", r)
	}
}

func TestAFolderThatIsNotThereDeletesNothing(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "one")
	c.scan()
	ok(t, os.Rename(c.dir, c.dir+"-away"))
	if _, err := c.scanner().run(t.Context()); err == nil {
		t.Error("no error")
	}
	if h := c.j.mustHead(t); h.Pages != 1 || h.Revision != 1 {
		t.Errorf("%+v", h)
	}
}

// TestAFileThatWasJustWrittenIsListedAsNoPage, and read again until an edit could not
// follow unnoticed.
func TestAFileThatWasJustWrittenIsListedAsNoPage(t *testing.T) {
	c := newScanCase(t)
	ok(t, os.WriteFile(filepath.Join(c.dir, "a.html"), []byte("<p>\xff\xfe\xff"), 0o644))
	for i, at := range []time.Duration{-time.Hour, -time.Hour, time.Hour, 2 * time.Hour} {
		r := c.scanAt(at)
		if len(r.Skipped) != 1 || r.Skipped[0].Unread != (i == 3) {
			t.Errorf("scan %d: %+v", i, r)
		}
		listed := 0
		ok(t, c.j.brokenFiles(c.j.store, nil, func([]byte, DeadLetter) (bool, error) { listed++; return true, nil }))
		if listed != 1 {
			t.Errorf("scan %d: %d files are listed", i, listed)
		}
	}
}

func TestAFileThatGivesNoPageIsReadOnce(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "one")
	c.write("b.html", `<meta name=robots content=noindex>`)
	ok(t, os.WriteFile(filepath.Join(c.dir, "c.html"), []byte("<p>\xff\xfe\xff"), 0o644))
	ok(t, os.WriteFile(filepath.Join(c.dir, "d.html"), nil, 0o644))
	ok(t, os.Truncate(filepath.Join(c.dir, "d.html"), content.MaxSource+1)) // a hole: nothing is written
	skipped := func(r ScanReport, unread bool) {
		t.Helper()
		if len(r.Skipped) != 3 || r.SkippedCount != 3 || (r.Skipped[0].Err == nil) == (r.Skipped[1].Err == nil) {
			t.Fatalf("skipped %+v", r.Skipped)
		}
		for i, k := range r.Skipped {
			if k.Unread != unread || k.Location != []string{"b.html", "c.html", "d.html"}[i] || k.Reason == "" {
				t.Errorf("skipped %+v, want unread %v", k, unread)
			}
		}
	}
	skipped(c.scanAt(time.Hour), false)
	before := c.rows()
	skipped(c.scanAt(2*time.Hour), true)
	if c.rows() != before {
		t.Error("a scan without a change has written")
	}
	var listed []DeadLetter
	broken := func() int {
		listed = nil
		ok(t, c.j.brokenFiles(c.j.store, nil, func(_ []byte, l DeadLetter) (bool, error) { listed = append(listed, l); return true, nil }))
		return len(listed)
	}
	if broken() != 2 || listed[1].Location != "d.html" || listed[1].Reason != "larger than 104857600 octets" {
		t.Errorf("listed as broken: %+v", listed)
	}
	since := listed[0].Since
	skipped(c.scanAt(time.Hour+defaultVerify), false)
	if broken() != 2 || !listed[0].Since.Equal(since.Time) {
		t.Errorf("a day later: %+v, first seen at %v", listed, since)
	}
	c.moved("b.html", func(path string) { ok(t, os.WriteFile(path, page("two"), 0o644)) })
	ok(t, os.Remove(filepath.Join(c.dir, "c.html")))
	ok(t, os.Remove(filepath.Join(c.dir, "d.html")))
	if r := c.scanAt(2*time.Hour + defaultVerify); r.Changed != 1 || r.Read != 1 || r.SkippedCount != 0 || broken() != 0 {
		t.Errorf("after they were mended or removed: %+v, listed %+v", r, listed)
	}
	if r := c.scanAt(3*time.Hour + 2*defaultVerify); r.SkippedCount != 0 || r.Pages != 2 {
		t.Errorf("once more: %+v", r)
	}
}
