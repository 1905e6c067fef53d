package site_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"go.uber.org/goleak"
)

func TestKnownPagesAreOnlyNamed(t *testing.T) {
	dir := write(t, map[string]string{"a.html": "<title>a</title>x", "b.html": "<title>b</title>y"})
	s := &site.Site{Dir: dir, BaseURL: base}
	first, _ := mustScan(t, s)
	known := func(location string) ([32]byte, bool) {
		for _, p := range first {
			if p.Location == location {
				return p.SourceHash, true
			}
		}
		return [32]byte{}, false
	}
	if err := os.WriteFile(filepath.Join(dir, "b.html"), []byte("<title>b</title>z"), 0o644); err != nil {
		t.Fatal(err)
	}
	second, _, err := scan(t, s, known)
	if err != nil || len(second) != 2 {
		t.Fatalf("%d pages, %v", len(second), err)
	}
	want := content.Page{URL: base + "a.html", Location: "a.html", SourceHash: first[0].SourceHash, Unchanged: true, Stamp: first[0].Stamp}
	if !reflect.DeepEqual(second[0], want) {
		t.Errorf("unchanged: %+v, want %+v", second[0], want)
	}
	if second[1].Unchanged || second[1].Digest == first[1].Digest {
		t.Errorf("changed: %+v", second[1])
	}
}

func TestNoMorePagesAreHeldThanStated(t *testing.T) {
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("%03d.html", i)] = "x"
	}
	s := &site.Site{Dir: write(t, files), BaseURL: base}
	var started atomic.Int64
	known := func(string) ([32]byte, bool) {
		started.Add(1)
		return [32]byte{}, false
	}
	yielded := int64(0)
	for _, err := range s.Pages(t.Context(), known, nil) {
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // let the workers run as far as they may
		if ahead, most := started.Load()-yielded, int64(2*runtime.GOMAXPROCS(0)); ahead > most {
			t.Fatalf("%d pages are held, more than %d", ahead, most)
		}
		yielded++
	}
}

func TestACallerMayStopAtAnyPage(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := &site.Site{Dir: "../../testdata/site", BaseURL: base}
	for stop := range 15 {
		n := 0
		for _, err := range s.Pages(t.Context(), nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n > stop {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		n = 0
		var last error
		for _, err := range s.Pages(ctx, nil, nil) {
			if n++; n > stop {
				cancel()
			}
			last = err
		}
		cancel()
		if last != nil && !errors.Is(last, context.Canceled) || n > stop+2 {
			t.Errorf("stopped at page %d: %d pages, %v", stop, n, last)
		}
	}
}

func TestASiteMayBeReadByMany(t *testing.T) {
	s := &site.Site{Dir: "../../testdata/site", BaseURL: base}
	want, _ := mustScan(t, s)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			if got, _, err := scan(t, s, nil); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d pages, %v", len(got), err)
			}
		})
	}
	readers.Wait()
}
