package arc

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

const base = "https://example.com/"

// noon is when these tests begin.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func seed(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/seed", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A reading is what ReadSitemap handed out.
type reading struct {
	Summary
	entries []Entry
	skips   []string
	odd     []string
	err     error
}

func read(text string, l Limits) (r reading) {
	r.Summary, r.err = ReadSitemap(strings.NewReader(text), l, Visitor{
		Entry: func(e Entry) error {
			r.entries = append(r.entries, e)
			return nil
		},
		Skip: func(_ int, url string, reason error) error {
			r.skips = append(r.skips, url+": "+reason.Error())
			return nil
		},
		Odd: func(s string) { r.odd = append(r.odd, s) },
	})
	return r
}

// sitemapOf is a sitemap around entries in JSON.
func sitemapOf(entries ...string) string {
	return `{"arc_sitemap_version":"2.1","site":"https://example.com","generated_at":"2026-01-02T12:00:00Z","pages":[` + strings.Join(entries, ",") + `]}`
}

// entryOf is an entry with further members.
func entryOf(path string, members ...string) string {
	all := append([]string{`"url":"` + base + path + `"`, `"ai_indexable":true`}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

func pageHTML(title, text string) string {
	return "<!DOCTYPE html><html lang=en><head><title>" + title + "</title></head><body><p>" + text + "</p></body></html>"
}

// pageAt is a page as a folder of HTML gives it.
func pageAt(t testing.TB, path, text string, modified time.Time) content.Page {
	t.Helper()
	p, err := site.FromHTML([]byte(pageHTML("Title of "+path, text)), base+path, modified, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func lines(all ...[]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, l := range all {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func mustEntry(t testing.TB, text string) Entry {
	t.Helper()
	e, err := ParseEntry([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// exportTo exports pages, and returns what it did.
func exportTo(t testing.TB, c ExportConfig, pages ...content.Page) ExportReport {
	t.Helper()
	if c.BaseURL == "" {
		c.BaseURL = base
	}
	x, err := OpenExport(c)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, p := range pages {
		if err := x.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	r, err := x.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readFile(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeFile(t testing.TB, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func quoted(s string) string { return fmt.Sprintf("%q", s) }
