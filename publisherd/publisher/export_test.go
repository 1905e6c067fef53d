package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// exportBase is the URL of the sites that these tests export.
const exportBase = "https://docs.test/"

// A roundTrip is a site that is exported, and what a source reads of that.
type roundTrip struct {
	t    *testing.T
	site Source
}

func newRoundTrip(t *testing.T, folder string) *roundTrip {
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	return &roundTrip{t, Source{Name: "docs", Kind: "site", Location: folder, BaseURL: exportBase}}
}

// pages reads a source, by URL. A page that is skipped is told.
func (c *roundTrip) pages(s Source) map[string]content.Page {
	c.t.Helper()
	r, err := s.reader(c.t.TempDir(), c.t.TempDir())
	if err != nil {
		c.t.Fatal(err)
	}
	defer closeReader(r)
	all := make(map[string]content.Page)
	for p, err := range r.Pages(c.t.Context(), nil, func(s content.Skipped) { c.t.Logf("skipped: %s: %s", s.Location, s.Reason) }) {
		if err != nil {
			c.t.Fatal(err)
		}
		all[p.URL] = p
	}
	return all
}

func (c *roundTrip) export(format content.Format, out string, at time.Time) ExportReport {
	c.t.Helper()
	r, err := c.site.Export(c.t.Context(), c.t.TempDir(), ExportOptions{Format: format.String(), Dir: out, Generated: at, KeepListings: true})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// run holds what comes back against what a round trip promises: TCT
// gives the same digest, SCP the same URL, title and normalised text, ARC the same
// URL, checksum and flags.
func (c *roundTrip) run() int {
	c.t.Helper()
	want := c.pages(c.site)
	for _, format := range []content.Format{content.FormatTCT, content.FormatSCP, content.FormatARC} {
		out := c.t.TempDir()
		c.export(format, out, time.Now())
		got := c.pages(Source{Name: "back", Kind: format.String(), Location: out})
		want := maps.Clone(want)
		if format == content.FormatARC { // an entry holds no snapshot of so many words: its HTML has to be beside it
			maps.DeleteFunc(want, func(u string, p content.Page) bool { return got[u].URL == "" && len(p.Payload) > arc.MaxEntry/2 })
		}
		if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
			c.t.Fatalf("%v: %d URLs come back, %d went out", format, len(a), len(b))
		}
		differ := 0
		for u, w := range want {
			if why := differs(c.t, w, got[u]); why != "" {
				if differ++; differ <= 5 {
					c.t.Errorf("%v: %s: %s", format, u, why)
				}
			}
		}
		if differ > 0 {
			c.t.Errorf("%v: %d of %d pages differ", format, differ, len(want))
		}
	}
	return len(want)
}

func differs(t *testing.T, want, got content.Page) string {
	t.Helper()
	if got.Format == content.FormatTCT {
		if got.Digest != want.Digest || got.Fingerprint != want.Fingerprint || got.Title != want.Title {
			return fmt.Sprintf("digest %x, title %q; want %x, %q", got.Digest, got.Title, want.Digest, want.Title)
		}
		return ""
	}
	if got.Format == content.FormatARC {
		return arcDiffers(want, got)
	}
	line, err := scp.ParsePage(got.Payload)
	if err != nil {
		return err.Error()
	}
	d, err := tct.Decode(want.Payload)
	if err != nil {
		return err.Error()
	}
	back, _ := line.Document()
	if a, b := tct.Normalise(back.Content), tct.Normalise(d.Content); got.Title != want.Title || a != b {
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		return fmt.Sprintf("title %q, want %q; text differs at %d: %.80q, want %.80q", got.Title, want.Title, at, a[max(0, at-20):], b[max(0, at-20):])
	}
	return ""
}

func TestPagesComeBackFromAnExport(t *testing.T) {
	if n := newRoundTrip(t, "../../testdata/site").run(); n < 10 {
		t.Errorf("%d pages", n)
	}
}

// tree reads a folder, by path, without what starts with a dot.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != dir && d.IsDir() && d.Name()[0] == '.':
			return fs.SkipDir
		case d.IsDir() || d.Name()[0] == '.':
			return nil
		}
		b, err := os.ReadFile(path)
		all[path[len(dir):]] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestExportsOfTheSamePagesAreTheSame(t *testing.T) {
	c := newRoundTrip(t, "../../testdata/site")
	for _, format := range []content.Format{content.FormatTCT, content.FormatSCP, content.FormatARC} {
		a, b := t.TempDir(), t.TempDir()
		first := c.export(format, a, testNow)
		c.export(format, b, testNow)
		if x, y := tree(t, a), tree(t, b); len(x) < 2 || !maps.Equal(x, y) {
			t.Errorf("%v: two exports differ, of %d and %d files", format, len(x), len(y))
		}
		if first.Written != first.Pages || first.Pages < 10 {
			t.Errorf("%v: the first export: %+v", format, first)
		}
		before := tree(t, a)
		again := c.export(format, a, testNow.Add(time.Minute))
		if again.Written != 0 || again.Removed != 0 || again.File != "" || !maps.Equal(before, tree(t, a)) {
			t.Errorf("%v: the second export: %+v", format, again)
		}
		if format == content.FormatSCP && len(first.Lost) == 0 {
			t.Errorf("nothing is said to be lost")
		}
	}
}

func TestAnExportWritesWhatHasChanged(t *testing.T) {
	c := newScanCase(t)
	for i := range 5 {
		c.write(fmt.Sprintf("p%d.html", i), "words")
	}
	s := Source{Name: "docs", Kind: "site", Location: c.dir, BaseURL: exportBase}
	outs := map[content.Format]string{content.FormatTCT: t.TempDir(), content.FormatSCP: t.TempDir(), content.FormatARC: t.TempDir()}
	for step, tt := range []struct {
		name             string
		change           func()
		written, removed int
		kind             string
	}{
		{"the first export has it all", func() {}, 5, 0, "snapshot"},
		{"an edit", func() { c.write("p1.html", "other words") }, 1, 0, "delta"},
		{"a new page", func() { c.write("p5.html", "words") }, 1, 0, "delta"},
		{"a deletion", func() { c.remove("p2.html") }, 0, 1, "snapshot"},
		{"nothing", func() {}, 0, 0, ""},
	} {
		tt.change()
		for format, out := range outs {
			r, err := s.Export(t.Context(), c.dir, ExportOptions{Format: format.String(), Dir: out, Generated: testNow.Add(time.Duration(step) * time.Minute)})
			if err != nil {
				t.Fatal(err)
			}
			if r.Written != tt.written || r.Removed != tt.removed || format == content.FormatSCP && r.Type != tt.kind {
				t.Errorf("%s, %v: %+v", tt.name, format, r)
			}
		}
	}
}

func TestAnExportOfWhatCannotBeReadChangesNothing(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "words")
	c.write("b.html", "words")
	s := Source{Name: "docs", Kind: "site", Location: c.dir, BaseURL: exportBase}
	for _, format := range []content.Format{content.FormatTCT, content.FormatSCP, content.FormatARC} {
		o := ExportOptions{Format: format.String(), Dir: t.TempDir(), Generated: testNow}
		if _, err := s.Export(t.Context(), c.dir, o); err != nil {
			t.Fatal(err)
		}
		before := tree(t, o.Dir)
		o.Generated = testNow.Add(time.Hour)
		c.raw("b.md", "# b\n"+string(make([]byte, 2<<20))) // more than a page of Markdown may have
		c.remove("b.html")
		if _, err := s.Export(t.Context(), c.dir, o); !errors.Is(err, ErrIncomplete) || !maps.Equal(before, tree(t, o.Dir)) {
			t.Errorf("%v, a page that cannot be read: %v", format, err)
		}
		o.SkipBroken = true
		if r, err := s.Export(t.Context(), c.dir, o); err != nil || r.Pages != 1 || len(r.Skipped) != 1 {
			t.Errorf("%v, left out as asked: %+v, %v", format, r, err)
		}
		c.remove("b.md")
		gone, empty := s, s
		gone.Location, empty.Location = filepath.Join(c.dir, "nowhere"), t.TempDir()
		before = tree(t, o.Dir)
		for _, x := range []Source{gone, empty} {
			o.Generated = o.Generated.Add(time.Hour)
			if _, err := x.Export(t.Context(), c.dir, o); err == nil || !maps.Equal(before, tree(t, o.Dir)) {
				t.Errorf("%v of %s: %v", format, x.Location, err)
			}
		}
		c.write("b.html", "words")
	}
}

// arcDiffers holds a page that came back by ARC against what that promises: the
// same URL, checksum, title and language, and here also the same text.
func arcDiffers(want, got content.Page) string {
	e, err := arc.ParseEntry(got.Payload)
	if err != nil {
		return err.Error()
	}
	d, _ := e.Document()
	if _, print := tct.Encode(nil, d); print != want.Fingerprint {
		return fmt.Sprintf("the text is another: %.200q", d.Content)
	}
	if got.HTMLChecksum != want.HTMLChecksum || got.Title != want.Title || got.Language != want.Language || !e.Indexable || e.AuthRequired {
		return fmt.Sprintf("checksum %x, title %q, language %q; want %x, %q, %q",
			got.HTMLChecksum, got.Title, got.Language, want.HTMLChecksum, want.Title, want.Language)
	}
	return ""
}
