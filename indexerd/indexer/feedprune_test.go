package indexer

import (
	"errors"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// changes counts the changes that the feed holds.
func (r *rig) changes() (n int) {
	r.t.Helper()
	for _, err := range r.x.store.Scan(feedKey(0), feedKey(1)) {
		if err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	return n
}

// TestForgottenTombstonesBeginAnew lets a consumer come back on the last day on which
// a deletion is told, and on the next.
func TestForgottenTombstonesBeginAnew(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(4)
	k := r.keeper("spiffe://search.example/a", grants.SearchIndex, false)
	k.read(-1)
	c.push(s, change{url: urls(site, 4)[2]})
	c.close()
	cursor := k.cursor
	if len(k.pages) != 4 || r.changes() != 5 {
		t.Fatalf("%d pages, %d changes", len(k.pages), r.changes())
	}
	// A grant of a day has ended by then, which stops the series; the page that went
	// before is told all the same.
	for _, tt := range []struct {
		name    string
		forward time.Duration
		refused bool
		changes int
	}{
		{"after 90 days it is told", 90 * 24 * time.Hour, false, 5},
		{"an hour later it is forgotten", pruneEvery, true, 4}, // not the ends of the others, which came later
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.forward(tt.forward)
			r.retained()
			sub := r.x.subscription(t.Context(), k.l, func(*FeedItem) error { return nil })
			if err := sub.run(cursor, false); errors.Is(err, grants.ErrCursor) != tt.refused {
				t.Errorf("run = %v", err)
			}
			if n := r.changes(); n != tt.changes {
				t.Errorf("%d changes are left, want %d", n, tt.changes)
			}
		})
	}
	k.read(-1)
	if len(k.pages) != 0 {
		t.Errorf("kept: %v", k.pages)
	}
}

// TestADeletedSeriesLeavesOneChange: whatever it had, its end says it all.
func TestADeletedSeriesLeavesOneChange(t *testing.T) {
	r := newRigWith(t, func() error { return nil }) // steps of 15 rows
	s, c := r.example().held(40)
	c.close()
	k := r.keeper("spiffe://search.example/a", grants.SearchIndex, false)
	k.read(30)
	s.p.settled(s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete)))
	if n := r.changes(); n != 1 {
		t.Errorf("%d changes are left, want that of the series", n)
	}
	rec, _, _ := r.stateOf(s)
	for _, lo := range [][]byte{feedSID(1, rec.SID), feedSID(4, rec.SID)} {
		for kv, err := range r.x.store.Scan(lo, durable.PrefixEnd(lo)) {
			t.Errorf("row %x is left, %v", kv.Key, err)
		}
	}
	k.read(-1)
	if len(k.pages) != 0 {
		t.Errorf("kept: %v", k.pages)
	}
	h := must[[]Holder](t)(r.x.Holders(s.p.local.Name(), nil))
	if len(h) != 1 || h[0].Open || h[0].ToPurge != 1 || h[0].Consumer != k.l.name {
		t.Errorf("holders %+v", h)
	}
	if _, err := r.x.purged(k.l, k.cursor); err != nil {
		t.Fatal(err)
	}
	if h = must[[]Holder](t)(r.x.Holders("", nil)); len(h) != 1 || h[0].ToPurge != 0 {
		t.Errorf("holders behind the purge %+v", h)
	}
}

// TestACursorGoesOnInsideASeries cuts a consumer off at each page of a series that a
// renewal tells anew.
func TestACursorGoesOnInsideASeries(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(walkStep + 9)
	k := r.keeper("spiffe://search.example/a", grants.SearchIndex, false)
	k.read(-1)
	c.close()
	s.pair = s.grant(2, func(d *grants.Draft) { d.Constraints.RetentionDays = 3 })
	c = s.p.session(s)
	c.rebind(s)
	told := make(map[string]int)
	k.check = func(it *FeedItem) {
		told[it.Page.URL]++
		if want := r.now().Add(3 * 24 * time.Hour); !it.Page.Terms.CopyUntil.Equal(want) {
			t.Errorf("copies of %s until %s, want %s", it.Page.URL, it.Page.Terms.CopyUntil, want)
		}
	}
	for i := 0; len(told) < len(s.pages) && i < 200; i++ {
		k.read(7)
	}
	k.read(-1)
	for u := range s.pages {
		if told[u] != 1 {
			t.Errorf("%s is told %d times", u, told[u])
		}
	}
}
