package indexer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// An exporting is an agreement whose pages are exported to one folder.
type exporting struct {
	*indexer.Agreed
	t   testing.TB
	dir string
	at  time.Time // what the formats say
}

func newExporting(t testing.TB, change func(*grants.Draft)) *exporting {
	t.Helper()
	e := &exporting{Agreed: indexer.Agree(t, change), t: t, dir: filepath.Join(t.TempDir(), "out")}
	e.at = e.Now()
	return e
}

func (e *exporting) write(format, dir string) (*export.Report, error) {
	return e.writeIn(e.t.Context(), format, dir)
}

func (e *exporting) writeIn(ctx context.Context, format, dir string) (*export.Report, error) {
	e.at = e.at.Add(time.Second) // SCP's time only grows
	return export.Write(ctx, e.X, export.Options{Purpose: grants.SearchIndex, Format: format, Dir: dir, Generated: e.at})
}

func (e *exporting) must(format, dir string) *export.Report {
	e.t.Helper()
	r, err := e.write(format, dir)
	if err != nil {
		e.t.Fatal(err)
	}
	if v := exported.Verify(dir, []*identity.Card{e.Card()}, e.Now()); v.Verdict != "signed" || !v.UsableNow || v.Manifest.Pages.Count != r.Pages {
		e.t.Fatalf("%s: %+v", format, v)
	}
	return r
}

func unpacked(raw []byte) ([]byte, error) {
	z, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return io.ReadAll(z)
}

// tree is what a folder holds, unpacked, but for the manifest, which says when it was
// made.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == exported.ManifestFile {
			return err
		}
		raw, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".zst") {
			raw, err = unpacked(raw)
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func fiveURLs() map[string]string {
	pages := make(map[string]string)
	for i := range 5 {
		pages[fmt.Sprintf("%spage-%d", indexer.Site, i)] = fmt.Sprintf("Words of page %d.", i)
	}
	return pages
}

// TestAnExportIsTheSameForTheSamePages writes each format to two folders at one time, and
// then one of them again: the same octets, and the same files.
func TestAnExportIsTheSameForTheSamePages(t *testing.T) {
	e := newExporting(t, passedOn)
	e.Push(fiveURLs())
	for _, format := range export.Formats() {
		a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		e.must(format, a)
		e.at = e.at.Add(-time.Second)
		e.must(format, b)
		one, two := tree(t, a), tree(t, b)
		for name, octets := range one {
			if two[name] != octets {
				t.Errorf("%s: %s is not the same in both", format, name)
			}
		}
		if len(one) != len(two) || len(one) < 2 {
			t.Errorf("%s: %d files, %d files", format, len(one), len(two))
		}
		before := make(map[string]fs.FileInfo)
		for name := range one {
			before[name], _ = os.Stat(filepath.Join(a, name))
		}
		e.at = e.at.Add(-time.Second)
		if r := e.must(format, a); r.Written != 0 || r.Removed != 0 || r.Pages != 5 {
			t.Errorf("%s again: %+v", format, r)
		}
		for name, info := range before {
			if now, err := os.Stat(filepath.Join(a, name)); err != nil || name != exported.SumsFile && !os.SameFile(info, now) {
				t.Errorf("%s again: %s is another file, %v", format, name, err)
			}
		}
	}
}

// TestAnExportWritesWhatHasChanged: one page of five, and one that is gone. Of what is
// gone nothing is left in any file.
func TestAnExportWritesWhatHasChanged(t *testing.T) {
	for _, format := range export.Formats() {
		t.Run(format, func(t *testing.T) {
			e := newExporting(t, passedOn)
			pages := fiveURLs()
			pages[indexer.Site+"page-3"] = "A sentence about windmills."
			e.Push(pages)
			if r := e.must(format, e.dir); r.Written != 5 || r.Pages != 5 {
				t.Errorf("at first: %+v", r)
			}
			e.Forward(time.Minute)
			e.Push(map[string]string{indexer.Site + "page-1": "Other words.", indexer.Site + "page-3": ""})
			r := e.must(format, e.dir)
			if r.Written != 1 || r.Removed != 1 || r.Pages != 4 {
				t.Errorf("then: %+v", r)
			}
			for name, octets := range tree(t, e.dir) {
				// A delta of ARC names the URL, so that it is dropped.
				named := format != "arc" && strings.Contains(octets, "page-3\"")
				if named || strings.Contains(octets, "windmills") {
					t.Errorf("%s tells of what is gone", name)
				}
			}
		})
	}
}

// TestConsentThatEndsWhileAnExportIsWrittenIsNotInIt ends consent, or a page's time, at
// each page that is read. The export is made again; it never shows what had ended.
func TestConsentThatEndsWhileAnExportIsWrittenIsNotInIt(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(e *exporting)
		left uint64
		err  error
	}{
		{"revoked", func(e *exporting) { e.Revoke(grants.DispositionStop) }, 0, nil},
		{"a page is deleted", func(e *exporting) { e.Push(map[string]string{indexer.Site + "page-2": ""}) }, 4, nil},
		{"expired", func(e *exporting) { e.Forward(20 * 24 * time.Hour) }, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newExporting(t, passedOn)
			e.Push(fiveURLs())
			before := e.must("jsonl", e.dir)
			n := 0
			ctx := onPage(t.Context(), func() {
				if n++; n == 3 {
					tt.end(e)
				}
			})
			r, err := export.Write(ctx, e.X, export.Options{Purpose: grants.SearchIndex, Format: "jsonl", Dir: e.dir, Generated: e.at})
			if !errors.Is(err, tt.err) || err == nil && (r.Pages != tt.left || r.Manifest == before.Manifest) {
				t.Errorf("%+v, %v", r, err)
			}
			if n < 3 {
				t.Fatalf("only %d pages were read", n)
			}
			if got := e.must("jsonl", e.dir); got.Pages != tt.left || got.Written != 0 {
				t.Errorf("the next one: %+v", got)
			}
		})
	}
}

// A pageContext is asked by an export, before each page, whether it is to go on.
type pageContext struct {
	context.Context
	asked func()
}

func (c *pageContext) Err() error {
	c.asked()
	return c.Context.Err()
}

func onPage(ctx context.Context, asked func()) context.Context { return &pageContext{ctx, asked} }

// TestAnExportThatCanNotBeMadeLeavesTheOldOne: the clock is behind, so that nothing is
// signed; and one that is asked for something else than there is.
func TestAnExportThatCanNotBeMadeLeavesTheOldOne(t *testing.T) {
	e := newExporting(t, passedOn)
	e.Push(fiveURLs())
	e.must("tct", e.dir)
	before := tree(t, e.dir)
	e.Push(map[string]string{indexer.Site + "page-0": "Other words."})
	stranger := filepath.Join(t.TempDir(), "stranger")
	if err := os.Mkdir(stranger, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stranger, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(o export.Options) error {
		o.Purpose, o.Generated = grants.SearchIndex, e.at
		_, err := export.Write(t.Context(), e.X, o)
		return err
	}
	e.Forward(-time.Hour)
	for name, err := range map[string]error{
		"the clock is behind":       write(export.Options{Format: "tct", Dir: e.dir}),
		"a format that there isn't": write(export.Options{Format: "pdf", Dir: e.dir}),
		"a base that is no folder":  write(export.Options{Format: "tct", Dir: e.dir, BaseURL: "https://example.com/x"}),
		"a stranger's folder":       write(export.Options{Format: "tct", Dir: stranger}),
	} {
		if err == nil {
			t.Errorf("%s: it is made", name)
		}
	}
	if after := tree(t, e.dir); len(after) != len(before) || after[exported.SumsFile] != before[exported.SumsFile] {
		t.Error("the old one has changed")
	}
	if left, err := filepath.Glob(e.dir + ".*"); err != nil || !slices.Equal(left, []string{e.dir + ".lock"}) {
		t.Errorf("beside it: %q, %v", left, err)
	}
}

// TestAnExportHoldsOnePageAtATime exports 160 MiB of large pages. What is live of the heap
// stays below that by far: it is what the indexer keeps of frames, 64 MiB, and some pages.
// The export waits while that is found out, or what it makes meanwhile would count too.
func TestAnExportHoldsOnePageAtATime(t *testing.T) {
	e := newExporting(t, passedOn)
	const pages, size = 160, 1 << 20
	for i := range pages {
		e.Push(map[string]string{fmt.Sprintf("%slarge-%02d", indexer.Site, i): strings.Repeat(fmt.Sprintf("Sentence %d about lighthouses. ", i), size/30)})
	}
	for _, format := range []string{"jsonl", "scp"} {
		base, asked, peak := liveHeap(), 0, uint64(0)
		r, err := e.writeIn(onPage(t.Context(), func() {
			if asked++; asked%16 == 0 {
				peak = max(peak, liveHeap())
			}
		}), format, filepath.Join(t.TempDir(), format))
		if err != nil {
			t.Fatal(err)
		}
		grown := (peak - min(base, peak)) >> 20
		t.Logf("%s: %d pages of %d MiB, the heap grew by at most %d MiB", format, r.Pages, pages*size>>20, grown)
		if r.Pages != pages || asked < pages || grown > 90 {
			t.Errorf("%s: %d pages, of which %d were asked for, and the heap grew by %d MiB", format, r.Pages, asked, grown)
		}
	}
}

// liveHeap is how many octets of the heap are in use.
func liveHeap() uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
