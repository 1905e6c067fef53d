//go:build system

package e2e

import (
	"bytes"
	"context"
	"path/filepath"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// TestAnExportIsReadBackOnCppreference exports 4,424 pages as they came, and as SCP,
// which our own source then reads: page by page both say the same.
func TestAnExportIsReadBackOnCppreference(t *testing.T) {
	p := pair.New(t, 0)
	pair.CopyDir(t, "/usr/share/cppreference/doc/html/en", p.Site)
	if r := p.Push(); r.Sent != 4424 {
		t.Fatalf("%d pages were taken", r.Sent)
	}
	local, err := identity.Load(p.Idx, time.Now())
	pair.Check(t, err)
	write := func(format, dir string) (*export.Report, uint64) {
		t.Helper()
		peak, stop := peakHeap()
		begun := time.Now()
		r, err := export.Write(t.Context(), p.X, export.Options{Purpose: grants.SearchIndex, Format: format, Dir: dir, Generated: time.Now()})
		stop()
		pair.Check(t, err)
		if v := exported.Verify(dir, []*identity.Card{local.Card}, time.Now()); v.Verdict != "signed" || !v.UsableNow || r.Pages != 4424 {
			t.Errorf("%s: %d pages, %+v", format, r.Pages, v)
		}
		t.Logf("%s: %d pages, %d written in %v, the heap at most %d MB", format, r.Pages, r.Written, time.Since(begun).Round(time.Millisecond), *peak>>20)
		return r, *peak
	}
	asHeld, asSCP := filepath.Join(t.TempDir(), "jsonl"), filepath.Join(t.TempDir(), "scp")
	r, _ := write("jsonl", asHeld)
	want := make(map[string]tct.Document)
	pair.Check(t, exported.EachLine(filepath.Join(asHeld, exported.PagesFolder, r.Collections[0].ID+".jsonl"), func(line []byte) error {
		var page struct {
			indexer.Page
			Payload []byte `json:"payload"`
		}
		if err := json.Unmarshal(line, &page); err != nil {
			return err
		}
		d, err := tct.Decode(page.Payload)
		want[page.URL] = d
		return err
	}))
	write("scp", asSCP)
	s, err := scp.NewSource(scp.SourceConfig{
		Location: filepath.Join(asSCP, exported.DataFolder, r.Collections[0].ID, "sitemap.xml"), Dir: t.TempDir(), Now: time.Now,
	})
	pair.Check(t, err)
	defer s.Close()
	n := 0
	for got, err := range s.Pages(t.Context(), nil, nil) {
		pair.Check(t, err)
		n++
		line, err := scp.ParsePage(got.Payload)
		pair.Check(t, err)
		d, ok := want[got.URL]
		if !ok || line.Title != d.Title || line.Language != d.Language || tct.Normalise(line.Text()) != tct.Normalise(d.Content) {
			t.Errorf("%s comes back as another, or is none of them: %t", got.URL, ok)
		}
	}
	if n != len(want) || n != 4424 {
		t.Errorf("%d pages come back, %d were exported", n, len(want))
	}
	unchanged(t, p, asSCP)
}

// unchanged exports again: where nothing has changed no file is another.
func unchanged(t *testing.T, p *pair.Pair, dir string) {
	t.Helper()
	before := sumsOf(t, dir)
	r, err := export.Write(t.Context(), p.X, export.Options{Purpose: grants.SearchIndex, Format: "scp", Dir: dir, Generated: time.Now().Add(time.Second)})
	pair.Check(t, err)
	if after := sumsOf(t, dir); r.Written != 0 || r.Removed != 0 || !bytes.Equal(before, after) {
		t.Errorf("exported again: %d written, %d removed, other sums: %t", r.Written, r.Removed, !bytes.Equal(before, after))
	}
}

func sumsOf(t *testing.T, dir string) []byte {
	t.Helper()
	sums, _, err := exported.WriteSums(dir)
	pair.Check(t, err)
	return sums[:]
}

// peakHeap watches how large the heap becomes until stop.
func peakHeap() (peak *uint64, stop func()) {
	peak = new(uint64)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for ctx.Err() == nil {
			metrics.Read(sample)
			*peak = max(*peak, sample[0].Value.Uint64())
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return peak, func() { cancel(); <-done }
}
