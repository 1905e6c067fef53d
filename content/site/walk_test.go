package site_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

func TestADoubtThatComesUpLateEndsThePages(t *testing.T) {
	files := map[string]string{"a.html": "x", "z/index.html": "x"}
	for i := range 3000 { // more than is listed ahead
		files[fmt.Sprintf("m%02d/%03d.html", i/100, i)] = "x"
	}
	dir := write(t, files)
	s := &site.Site{Dir: dir, BaseURL: base}
	pages, last := 0, error(nil)
	for p, err := range s.Pages(t.Context(), nil, nil) {
		if last != nil {
			t.Fatal("there is something behind an error")
		}
		if last = err; err != nil {
			continue
		}
		if pages++; pages == 1 {
			if err := os.WriteFile(filepath.Join(dir, "z", "index.htm"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(p.Location, "z/") {
			t.Errorf("%s is yielded, one of two files for %s", p.Location, p.URL)
		}
	}
	if last == nil || !strings.Contains(last.Error(), "are both") {
		t.Errorf("after %d pages: %v", pages, last)
	}
}

// TestLargeFilesAreReadOneAtATime holds each large page for a while, in which the
// next one may not be read, and small ones may.
func TestLargeFilesAreReadOneAtATime(t *testing.T) {
	dir := write(t, map[string]string{"b1.html": "x", "c1.html": "x"})
	for _, name := range []string{"b.html", "c.html", "d.html"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 17<<20); err != nil { // a hole: zeros, which are no words
			t.Fatal(err)
		}
	}
	var read atomic.Int64
	known := func(location string) ([32]byte, bool) {
		if !strings.Contains(location, "1") {
			read.Add(1)
		}
		return [32]byte{}, false
	}
	large, all := int64(0), 0
	for p, err := range (&site.Site{Dir: dir, BaseURL: base}).Pages(t.Context(), known, func(k content.Skipped) { t.Errorf("skipped %+v", k) }) {
		if err != nil {
			t.Fatal(err)
		}
		if all++; strings.Contains(p.Location, "1") {
			continue
		}
		large++
		time.Sleep(30 * time.Millisecond)
		if n := read.Load(); n != large {
			t.Errorf("with %s in hand, %d large files were read, want %d", p.Location, n, large)
		}
	}
	if all != 5 || large != 3 {
		t.Errorf("%d pages, %d of them large", all, large)
	}
}
