package publisher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// A watched source counts the pages that are made out of it a second time, and asks
// before it gives the n-th page of a scan, and with -1 behind the last.
type watched struct {
	*site.Site
	again  atomic.Int64
	before func(n int) error
}

func (f *watched) PagesSince(
	ctx context.Context, known func(string) ([32]byte, bool), kept func(string, content.Stamp) content.Kept, skip func(content.Skipped),
) iter.Seq2[content.Page, error] {
	return func(yield func(content.Page, error) bool) {
		n := 0
		for p, err := range f.Site.PagesSince(ctx, known, kept, skip) {
			if f.before != nil {
				err = errors.Join(err, f.before(n))
			}
			if n++; !yield(p, err) || err != nil {
				return
			}
		}
		if f.before != nil {
			if err := f.before(-1); err != nil {
				yield(content.Page{}, err)
			}
		}
	}
}

func (f *watched) Fetch(ctx context.Context, location string) (content.Page, error) {
	f.again.Add(1)
	return f.Site.Fetch(ctx, location)
}

// manyPages is how many pages large writes: more than fit into memory between a scan and
// its push, and two of the portions in which a scan takes them into the journal.
const manyPages = 80

// large gives the fixture a large site, whose source asks before each page.
func (x *fixture) large(before func(n int) error) *watched {
	x.t.Helper()
	for i := range manyPages {
		text := fmt.Sprintf("<!DOCTYPE html><title>T</title><p>page %d %s</p>", i, strings.Repeat("word ", 100_000)) // half a MiB
		check(x.t, os.WriteFile(filepath.Join(x.site, fmt.Sprintf("%03d.html", i)), []byte(text), 0o644))
	}
	return x.watch(before)
}

func (x *fixture) watch(before func(n int) error) *watched {
	x.t.Helper()
	source, err := ReadSource(x.p.dir, "docs")
	check(x.t, err)
	r, err := x.p.readers.lookup(x.p.dir, source)
	check(x.t, err)
	if w, ok := r.(*watched); ok {
		r = w.Site
	}
	w := &watched{Site: r.(*site.Site), before: before}
	kept := x.p.readers.byName["docs"]
	kept.reader = w
	x.p.readers.byName["docs"] = kept
	return w
}

// TestALargePushMakesEachPageOnce out of its source, although memory has no room for
// what the scan has read; without a spool it makes those again.
func TestALargePushMakesEachPageOnce(t *testing.T) {
	t.Parallel()
	for _, spooled := range []bool{true, false} {
		x := newFixture(t)
		w := x.large(func(int) error {
			if !spooled {
				x.p.spools.close()
			}
			return nil
		})
		results, err := x.p.Push(t.Context(), PushOptions{})
		check(t, err)
		if n := w.again.Load(); results[0].Sent != manyPages || (n == 0) != spooled {
			t.Errorf("spooled: %v; %d pages were sent, and %d made again", spooled, results[0].Sent, n)
		}
	}
}

// taken is how many pages the indexer has taken.
func (f *fakeIndexer) taken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pages)
}

// TestAFirstPushBeginsWhileItIsScanned, and has all in the end, told as of one push.
func TestAFirstPushBeginsWhileItIsScanned(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	check(t, os.WriteFile(filepath.Join(x.site, "zzz.html"), []byte("<meta name=robots content=noindex><p>x"), 0o644)) // gives no page
	x.large(func(n int) error {
		if n != manyPages-1 {
			return nil
		}
		for until := time.Now().Add(time.Minute); x.fake.taken() == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				return errors.New("nothing is sent while the scan goes on")
			}
		}
		return nil
	})
	results, err := x.p.Push(t.Context(), PushOptions{})
	check(t, err)
	r := results[0]
	if len(results) != 1 || r.Sent != manyPages || r.Unchanged != 0 || r.Revision != manyPages || r.SkippedCount != 1 || len(r.Receipts) < 2 || x.fake.taken() != manyPages {
		t.Errorf("%+v; the indexer has %d pages", r, x.fake.taken())
	}
	if results, err = x.p.Push(t.Context(), PushOptions{}); err != nil || results[0].Sent != 0 || results[0].Unchanged != manyPages {
		t.Errorf("the next push: %+v, %v", results, err)
	}
}

// TestAScanThatFailsHasSentWhatItRead, and the push says why.
func TestAScanThatFailsHasSentWhatItRead(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	broken := errors.New("the source is broken")
	x.large(func(n int) error {
		if n == manyPages-1 {
			return broken
		}
		return nil
	})
	results, err := x.p.Push(t.Context(), PushOptions{})
	if !errors.Is(err, broken) || len(results) != 1 || results[0].Sent == 0 || results[0].Sent >= manyPages {
		t.Fatalf("%+v, %v", results, err)
	}
	x.watch(nil)
	sent := results[0].Sent
	if results, err = x.p.Push(t.Context(), PushOptions{}); err != nil || results[0].Sent != manyPages-sent {
		t.Errorf("the next push, %d being sent: %+v, %v", sent, results, err)
	}
}

// TestNothingIsDeletedBecauseItIsNotReadYet: an indexer that holds pages of which a
// publisher without its store knows nothing is compared with it behind the scan, not
// before.
func TestNothingIsDeletedBecauseItIsNotReadYet(t *testing.T) {
	t.Parallel()
	x := newFixture(t)
	x.large(nil)
	if results, err := x.p.Push(t.Context(), PushOptions{}); err != nil || results[0].Sent != manyPages {
		t.Fatalf("%+v, %v", results, err)
	}
	check(t, x.p.store.Close())
	check(t, os.RemoveAll(filepath.Join(x.p.dir, "store")))
	var err error
	x.p.store, err = durable.Open(filepath.Join(x.p.dir, "store"), durable.Options{})
	check(t, err)
	check(t, os.Remove(filepath.Join(x.site, "007.html")))
	grown := 0
	x.watch(func(n int) error {
		if grown = max(grown, n); n == -1 {
			time.Sleep(100 * time.Millisecond) // for who would compare what has been read by now
			if x.fake.taken() != manyPages {
				return fmt.Errorf("the indexer has %d pages while the scan goes on", x.fake.taken())
			}
		}
		return nil
	})
	results, err := x.p.Push(t.Context(), PushOptions{})
	check(t, err)
	if r := results[0]; r.Sent != 0 || r.Deleted != 1 || grown < manyPages-2 || x.fake.taken() != manyPages-1 {
		t.Errorf("%+v; the indexer has %d pages", r, x.fake.taken())
	}
}

// TestARequestOfAnotherSeriesIsNotSpunOn while a first push waits for more of its scan.
func TestARequestOfAnotherSeriesIsNotSpunOn(t *testing.T) {
	t.Parallel()
	s := &session{asking: asking{requests: map[string]*oiv1.ContentRequest{"another": {}}}}
	next := make(chan struct{})
	time.AfterFunc(askedPause/2, func() { close(next) })
	began := time.Now()
	check(t, s.idleUntil(t.Context(), "docs", next))
	if took := time.Since(began); took < askedPause/2 {
		t.Errorf("it waited for %v", took)
	}
	s.asking.requests["docs"] = &oiv1.ContentRequest{}
	check(t, s.idleUntil(t.Context(), "docs", make(chan struct{})))
}
