package scp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pagesOf yields page lines: name → words.
func pagesOf(pages map[string]string, modified time.Time) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		names := slices.Sorted(maps.Keys(pages))
		slices.Reverse(names) // the order must not matter
		for _, name := range names {
			if !yield(line("https://example.com/"+name, pages[name], modified), nil) {
				return
			}
		}
	}
}

func exportTo(t *testing.T, dir string, at time.Time, pages map[string]string, modified time.Time) ExportReport {
	t.Helper()
	r, err := Export(t.Context(), ExportConfig{Dir: dir, BaseURL: "https://example.com/scp/", Section: "all", Generated: at, Packing: Packing{Compression: Gzip}}, pagesOf(pages, modified))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tree reads all files of a folder that are not hidden.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAnExportIsSnapshotsAndDeltas(t *testing.T) {
	dir := t.TempDir()
	at := func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
	for _, tt := range []struct {
		name  string
		hour  int
		pages map[string]string
		want  string
	}{
		{"the first is a snapshot", 0, map[string]string{"a": "1", "b": "1"}, "snapshot 2 +2 ~0 -0"},
		{"without a change nothing is written", 1, map[string]string{"a": "1", "b": "1"}, " 2 +0 ~0 -0"},
		{"changes and new pages make a delta", 2, map[string]string{"a": "1", "b": "2", "c": "1"}, "delta 3 +1 ~1 -0"},
		{"another follows", 3, map[string]string{"a": "2", "b": "2", "c": "1"}, "delta 3 +0 ~1 -0"},
		{"a deletion takes a snapshot", 4, map[string]string{"a": "2", "c": "1"}, "snapshot 2 +0 ~0 -1"},
		{"and so does a day", 28, map[string]string{"a": "2", "c": "1"}, "snapshot 2 +0 ~0 -0"},
		{"what has expired goes", 70, map[string]string{"a": "3", "c": "1"}, "snapshot 2 +0 ~1 -0"},
	} {
		r := exportTo(t, dir, at(tt.hour), tt.pages, noon.Add(-time.Hour))
		if got := fmt.Sprintf("%s %d +%d ~%d -%d", r.Type, r.Pages, r.Added, r.Changed, r.Deleted); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		// Whoever reads the sitemap has what was exported.
		if got := mirrored(t, dir, at(tt.hour)); !maps.Equal(got, tt.pages) {
			t.Errorf("%s: a reader holds %v, want %v", tt.name, got, tt.pages)
		}
	}
	var names []string
	for name := range tree(t, dir) {
		if !strings.HasPrefix(name, ".scp/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "all-snapshot-20250602T160000Z.scp.gz all-snapshot-20250604T100000Z.scp.gz sitemap.xml" {
		t.Errorf("in the folder are %s", got)
	}
}

// mirrored reads an exported folder by its sitemap, from nothing.
func mirrored(t *testing.T, dir string, now time.Time) map[string]string {
	t.Helper()
	s := source(t, SourceConfig{Location: filepath.Join(dir, "sitemap.xml"), Dir: t.TempDir(), Now: func() time.Time { return now }})
	return contents(t, s)
}

func TestExportedTimesOnlyGrow(t *testing.T) {
	dir := t.TempDir()
	last := make(map[string]time.Time)
	for i, modified := range []time.Duration{0, -48 * time.Hour, 100 * 24 * time.Hour, -time.Hour} {
		at := noon.Add(time.Duration(i) * time.Hour)
		exportTo(t, dir, at, map[string]string{"a": "same", "b": fmt.Sprint(i)}, noon.Add(modified))
		s := source(t, SourceConfig{Location: filepath.Join(dir, "sitemap.xml"), Dir: t.TempDir(), Now: func() time.Time { return at }})
		for p, err := range s.Pages(t.Context(), nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if p.Modified.After(at) || p.Modified.Before(last[p.URL]) || strings.HasSuffix(p.URL, "b") && !p.Modified.After(last[p.URL]) {
				t.Errorf("export %d: %s was modified %v, before that %v", i, p.URL, p.Modified, last[p.URL])
			}
			last[p.URL] = p.Modified
		}
	}
}

func TestExportsOfTheSameAreTheSame(t *testing.T) {
	run := func() map[string]string {
		dir := t.TempDir()
		exportTo(t, dir, noon, map[string]string{"a": "1", "b": "1"}, noon)
		exportTo(t, dir, noon.Add(time.Hour), map[string]string{"a": "2", "b": "1"}, noon.Add(time.Hour))
		return tree(t, dir)
	}
	if one, two := run(), run(); !maps.Equal(one, two) {
		t.Error("two runs of the same exports leave different folders")
	}
}

func TestExportSurvivesACrashAtEachStep(t *testing.T) {
	// An export writes the collection, its index, its state and the sitemap, in
	// this order; the folder is put back to each point between.
	dir := t.TempDir()
	first := map[string]string{"a": "1", "b": "1"}
	second := map[string]string{"a": "2", "c": "1"}
	exportTo(t, dir, noon, first, noon)
	before := tree(t, dir)
	exportTo(t, dir, noon.Add(time.Hour), second, noon.Add(time.Hour))
	after := tree(t, dir)
	steps := []string{"all-snapshot-20250601T130000Z.scp.gz", ".scp/all-snapshot-20250601T130000Z.index", ".scp/all.json", "sitemap.xml"}
	for n := range len(steps) + 1 {
		crashed := t.TempDir()
		for name, text := range before {
			put(t, crashed, name, text)
		}
		put(t, crashed, ".scp/.scp-123", "left behind")
		for _, name := range steps[:n] {
			if after[name] == "" {
				t.Fatalf("no file %s", name)
			}
			put(t, crashed, name, after[name])
		}
		want := first
		if n == len(steps) {
			want = second
		}
		if got := mirrored(t, crashed, noon.Add(time.Hour)); !maps.Equal(got, want) {
			t.Errorf("after %d steps a reader holds %v, want %v", n, got, want)
		}
		exportTo(t, crashed, noon.Add(2*time.Hour), second, noon.Add(time.Hour))
		if got := mirrored(t, crashed, noon.Add(2*time.Hour)); !maps.Equal(got, second) {
			t.Errorf("after %d steps and another export a reader holds %v, want %v", n, got, second)
		}
		listed := tree(t, crashed)
		for name := range listed {
			if strings.HasSuffix(name, ".scp.gz") && !strings.Contains(listed["sitemap.xml"], name) && !strings.Contains(listed[".scp/all.json"], name) || strings.Contains(name, "123") {
				t.Errorf("after %d steps and another export %s is left behind", n, name)
			}
		}
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnExportThatFailsChangesNothing(t *testing.T) {
	dir := t.TempDir()
	exportTo(t, dir, noon, map[string]string{"a": "1"}, noon)
	before := tree(t, dir)
	c := ExportConfig{Dir: dir, BaseURL: "https://example.com/scp/", Section: "all", Generated: noon.Add(time.Hour), Packing: Packing{Compression: Gzip}}
	broken := errors.New("the source broke")
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		change func(*ExportConfig)
		pages  iter.Seq2[[]byte, error]
	}{
		{"the source breaks", t.Context(), nil, func(yield func([]byte, error) bool) { yield(nil, broken) }},
		{"a line that is none", t.Context(), nil, func(yield func([]byte, error) bool) { yield([]byte("{}"), nil) }},
		{"a line whose URL is none", t.Context(), nil, func(yield func([]byte, error) bool) {
			yield(bytes.Replace([]byte(good("a")), []byte("https:"), []byte("x:"), 1), nil)
		}},
		{"it is stopped", stopped, nil, pagesOf(map[string]string{"a": "2"}, noon)},
		{"time stands still", t.Context(), func(c *ExportConfig) { c.Generated = noon }, pagesOf(map[string]string{"a": "2"}, noon)},
		{"a base URL without a slash", t.Context(), func(c *ExportConfig) { c.BaseURL = "https://example.com/scp" }, pagesOf(nil, noon)},
		{"a section that is a path", t.Context(), func(c *ExportConfig) { c.Section = "../x" }, pagesOf(nil, noon)},
		{"a frequency that there is not", t.Context(), func(c *ExportConfig) { c.UpdateFreq = "yearly" }, pagesOf(nil, noon)},
		{"a level that there is not", t.Context(), func(c *ExportConfig) { c.Packing.Level = 99 }, pagesOf(nil, noon)},
	} {
		c := c
		if tt.change != nil {
			tt.change(&c)
		}
		if _, err := Export(tt.ctx, c, tt.pages); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		if !maps.Equal(tree(t, dir), before) {
			t.Errorf("%s: the folder has changed", tt.name)
		}
	}
}

func TestAnExportThatWouldLookLikeABombIsPlain(t *testing.T) {
	dir := t.TempDir()
	pages := make(map[string]string)
	for i := range 30 {
		pages[fmt.Sprint(i)] = strings.Repeat("a", 100_000)
	}
	if r := exportTo(t, dir, noon, pages, noon); !strings.HasSuffix(r.File, ".scp") {
		t.Errorf("written as %s", r.File)
	}
	if got := mirrored(t, dir, noon); len(got) != 30 {
		t.Errorf("%d pages", len(got))
	}
}

func TestPagesBeyondOneSitemapGoToMore(t *testing.T) {
	dir := t.TempDir()
	pages := make(map[string]string)
	for i := range MaxSitemapURLs + 1 {
		pages[fmt.Sprint(i)] = "x"
	}
	exportTo(t, dir, noon, pages, noon)
	files := tree(t, dir)
	if strings.Count(files["sitemap.xml"], "<url>") != MaxSitemapURLs || strings.Count(files["sitemap-2.xml"], "<url>") != 1 ||
		strings.Count(files["sitemap_index.xml"], "<sitemap>") != 2 {
		t.Error("the pages are not in two sitemaps and an index")
	}
	exportTo(t, dir, noon.Add(time.Hour), map[string]string{"a": "x"}, noon)
	files = tree(t, dir)
	if files["sitemap-2.xml"] != "" || files["sitemap_index.xml"] != "" {
		t.Error("a sitemap is left behind that is not needed")
	}
}
