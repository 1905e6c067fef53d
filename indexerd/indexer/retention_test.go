package indexer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// twoDays grants for 30 days, and lets copies be kept for two.
func twoDays(d *grants.Draft) {
	d.Lifetime, d.Constraints.RetentionDays = 30*24*time.Hour, 2
}

// keptTwoDays is held with a retention of two days.
func (p *tester) keptTwoDays(n int) (*series, *client) {
	p.r.t.Helper()
	s := p.series("docs-1", site, twoDays)
	c := p.session(s)
	c.push(s, puts("words", urls(site, n)...)...)
	return s, c
}

// retained tends until nothing more goes.
func (r *rig) retained() {
	r.t.Helper()
	for range 20 {
		before := r.x.tlog.Released().Tree.Size
		r.x.tend(r.t.Context())
		open, more := 0, false
		for _, err := range r.x.store.Scan([]byte{'Q'}, []byte{'Q' + 1}) {
			if err != nil {
				r.t.Fatal(err)
			}
			open++
		}
		more = r.x.tlog.Released().Tree.Size != before
		if open == 0 && !more {
			return
		}
	}
	r.t.Error("retention does not end")
}

// ended gives the entries that say that pages went at the end of their retention.
func (r *rig) ended() (all []translog.Entry) {
	for _, e := range r.log() {
		if e.Status == translog.Retention {
			all = append(all, e)
		}
	}
	return all
}

// segments counts the sealed frames of a series.
func (r *rig) segments(s *series) (n int) {
	r.t.Helper()
	rec, _, _ := r.stateOf(s)
	lo := sidKey('G', rec.SID)
	for _, err := range r.x.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	return n
}

func TestPagesGoAtTheEndOfTheirRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().keptTwoDays(30)
	c.close()
	first, later := urls(site, 30)[20], urls(site, 30)[0]
	r.forward(24 * time.Hour)
	c = s.p.session(s)
	c.push(s, puts("newer", urls(site, 4)...)...)
	r.forward(24*time.Hour - time.Second)
	if err := r.readable(s, first); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
	r.forward(time.Second)
	if err := r.readable(s, first); !errors.Is(err, grants.ErrRetention) {
		t.Errorf("at the second of its end: %v", err)
	}
	if err := r.readable(s, later); err != nil {
		t.Errorf("a page that was updated since: %v", err)
	}
	r.retained()
	r.retained()
	all := r.ended()
	if len(all) != 1 || all[0].Objects.Count != 26 || !all[0].BatchID.IsZero() || all[0].From != all[0].Through {
		t.Fatalf("the log says %+v", all)
	}
	if want := s.tombstones(urls(site, 30)[4:]); all[0].Objects != translog.SetOf(want) {
		t.Errorf("the entry is over %v, want %v", all[0].Objects, translog.SetOf(want))
	}
	rec, _, _ := r.stateOf(s)
	if rec.Pages != 4 || rec.State != s.root() {
		t.Errorf("%d pages are held, the state is %s, want %s", rec.Pages, rec.State, s.root())
	}
	if n := r.segments(s); n != 1 {
		t.Errorf("%d segments are left, want that of the update", n)
	}
	status := must[Status](t)(r.x.Status())
	if status.Pages != 4 || status.PayloadBytes != rec.PayloadBytes {
		t.Errorf("the status counts %d pages of %d octets", status.Pages, status.PayloadBytes)
	}
	r.sound("after a purge")
	// The publisher need not know: what it holds is the state. A deletion of a
	// page that went is refused as not held, and a new version is taken in anew.
	answer := c.push(s, change{url: first}, change{url: urls(site, 30)[21], text: "again"})
	if d := answer.Committed.Decisions; !bytes.Equal(d, []byte{byte(oiv1.Decision_DECISION_EXCLUDE), byte(oiv1.Decision_DECISION_INCLUDE)}) {
		t.Errorf("decided %v", d)
	}
	if f := answer.Committed.Refusals; len(f) != 1 || f[0].Reason != string(grants.ErrNotHeld) {
		t.Errorf("refused %v", f)
	}
	if err := r.readable(s, urls(site, 30)[21]); err != nil {
		t.Errorf("the page that came again: %v", err)
	}
	r.sound("after pages came again")
	backup := must[*Manifest](t)(r.x.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"), "test"))
	if backup.Pages != 5 {
		t.Errorf("the backup has %d pages, want 5", backup.Pages)
	}
}

func TestAPurgeThatNothingTellsOfIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().keptTwoDays(2)
	r.forward(48 * time.Hour)
	r.retained()
	rec, _, _ := r.stateOf(s)
	lo := sidKey('P', rec.SID)
	b := r.x.store.NewBatch()
	defer b.Close()
	if err := errors.Join(b.DeleteRange(lo, durable.PrefixEnd(lo)), b.Commit()); err != nil {
		t.Fatal(err)
	}
	c := &checker{r: r.x.store, store: r.x.store, keys: r.x.keys, decoder: r.x.decoder, large: r.x.large, limits: r.x.cfg.Limits, card: r.x.local.Card, window: 100}
	report, err := c.run(t.Context(), nil, FsckOptions{NoMark: true})
	if err != nil || len(report.Findings) != 1 || report.Findings[0].Kind != findSeries {
		t.Errorf("findings %v, %v", report.Findings, err)
	}
}

// tombstones are the leaves of an entry over the deletion of pages.
func (s *series) tombstones(all []string) (leaves [][32]byte) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b string) int {
		x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
		return bytes.Compare(x[:], y[:])
	})
	for _, u := range all {
		leaves = append(leaves, s.key.Leaf(translog.OpTombstone, s.epoch, s.pages[u].revision, u, [32]byte{}).Hash())
	}
	return leaves
}

func TestARebindBeginsRetentionAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().keptTwoDays(3)
	c.close()
	r.forward(36 * time.Hour)
	s.pair = s.grant(2, twoDays)
	c = s.p.session(s)
	page := urls(site, 1)[0]
	r.forward(12*time.Hour - time.Second)
	if answer := c.rebind(s); answer.Committed == nil {
		t.Fatalf("refused %v", answer.Refused)
	}
	r.forward(48*time.Hour - time.Second)
	r.retained()
	if err := r.readable(s, page); err != nil || len(r.ended()) != 0 {
		t.Errorf("a second before two days from the rebind: %v, %v", err, r.ended())
	}
	r.forward(time.Second)
	r.retained()
	if all := r.ended(); len(all) != 1 || all[0].Objects.Count != 3 || all[0].GrantID != s.pair.Grant.Object.ID {
		t.Errorf("the log says %+v", all)
	}
	if err := r.readable(s, page); !errors.Is(err, grants.ErrRetention) {
		t.Error(err)
	}
	r.sound("after the end")
}

func TestAShorterRetentionCountsAtOnceAndALongerOneFromTheRebind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		days uint64
		left uint64 // of three pages, after 30 hours
	}{
		{"a day is over", 1, 0},
		{"nothing may be kept", 0, 0},
		{"four days do not lengthen the two before they take the pages over", 4, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			s, c := r.example().keptTwoDays(3)
			c.close()
			r.forward(30 * time.Hour)
			s.pair = s.grant(2, func(d *grants.Draft) {
				d.Terms.Retention = &grants.RetentionTerms{CachedCopyDays: &tt.days}
			})
			s.p.session(s)
			r.retained()
			if rec, _, _ := r.stateOf(s); rec.Pages != tt.left {
				t.Errorf("%d pages are held, want %d", rec.Pages, tt.left)
			}
			r.forward(18 * time.Hour)
			if err := r.readable(s, urls(site, 1)[0]); !errors.Is(err, grants.ErrRetention) {
				t.Errorf("after two days: %v", err)
			}
		})
	}
}

// TestPurgeResumes ends the indexer between any two steps of a purge, and finds
// the same behind it.
func TestPurgeResumes(t *testing.T) {
	t.Parallel()
	for n := range int64(5) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRigWith(t, func() error { return nil })
			s, c := r.example().keptTwoDays(25)
			c.push(s, puts("more", urls(site+"more/", 15)...)...)
			c.close()
			r.before = stopBehind(n)
			r.close()
			r.open()
			r.forward(48 * time.Hour)
			r.x.tend(t.Context())
			if err := r.readable(s, urls(site, 1)[0]); !errors.Is(err, grants.ErrRetention) {
				t.Errorf("while it is under way: %v", err)
			}
			r.sound("stopped on the way")
			r.goOn()
			r.retained()
			all := r.ended()
			if len(all) != 1 || all[0].Objects != translog.SetOf(s.tombstones(slices.Concat(urls(site, 25), urls(site+"more/", 15)))) {
				t.Errorf("the log says %+v", all)
			}
			if rec, _, _ := r.stateOf(s); rec.Pages != 0 || rec.PayloadBytes != 0 || rec.State != s.root() || r.segments(s) != 0 {
				t.Errorf("%d pages of %d octets, %d segments are left, the state is %s, want %s", rec.Pages, rec.PayloadBytes, r.segments(s), rec.State, s.root())
			}
			r.sound("gone on")
		})
	}
}

// stored reports whether any segment of a series holds a payload.
func (r *rig) stored(s *series, payload []byte) bool {
	r.t.Helper()
	rec, _, _ := r.stateOf(s)
	lo := sidKey('G', rec.SID)
	for kv, err := range r.x.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			r.t.Fatal(err)
		}
		frame := must[[]byte](r.t)(r.x.frame(r.x.store, &rec, &catalogueRow{Segment: segmentNumber(kv.Key)}))
		if bytes.Contains(frame, payload) {
			return true
		}
	}
	return false
}

func TestWhatNothingNamesIsGoneWithinADay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().keptTwoDays(6)
	c.push(s, change{url: urls(site, 6)[0], text: "newer"}, change{url: urls(site, 6)[1]})
	r.forward(23 * time.Hour)
	r.retained()
	before := r.segments(s)
	superseded := payloadOf(urls(site, 1)[0], "words at "+urls(site, 1)[0])
	if !r.stored(s, superseded) {
		t.Error("it is gone before a day is over")
	}
	r.forward(time.Hour)
	size := r.x.tlog.Released().Tree.Size
	r.retained()
	if r.stored(s, superseded) {
		t.Error("what was superseded is still there")
	}
	rec, _, _ := r.stateOf(s)
	if rec.Pages != 5 || rec.State != s.root() {
		t.Errorf("%d pages are held under %s, want 5 under %s", rec.Pages, rec.State, s.root())
	}
	for number := range uint64(10) {
		var row heldRow
		if ok, err := durable.ReadJSON(r.x.store, heldKey(rec.SID, number), &row); err != nil || ok && row.Dead != 0 {
			t.Errorf("segment %d: %+v, %v", number, row, err)
		}
	}
	for _, u := range append(urls(site, 6)[2:], urls(site, 1)[0]) {
		if err := r.readable(s, u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	if n := r.x.tlog.Released().Tree.Size; n != size || before != 2 || r.segments(s) != 2 {
		t.Errorf("the log grew from %d to %d, segments were %d and are %d", size, n, before, r.segments(s))
	}
	r.sound("after a sweep")
	r.forward(24 * time.Hour) // the sweep did not lengthen the retention
	if r.retained(); r.segments(s) != 0 {
		t.Errorf("%d segments are left", r.segments(s))
	}
}

// TestAClockSetBackBringsNoPageBack has the clock jump, the log sign something
// then, and the clock be set right.
func TestAClockSetBackBringsNoPageBack(t *testing.T) {
	t.Parallel()
	for _, tended := range []bool{true, false} {
		r := newRigWith(t, stopBehind(map[bool]int64{true: 99}[tended]))
		s, c := r.example().keptTwoDays(2)
		other := s.p.series("blog-1", blogs, twoDays)
		c.close()
		c = s.p.session(s, other)
		r.forward(49 * time.Hour)
		c.push(other, puts("a blog", urls(blogs, 1)...)...)
		if tended {
			r.retained()
		}
		r.forward(-48 * time.Hour)
		if err := r.readable(s, urls(site, 1)[0]); !errors.Is(err, grants.ErrRetention) {
			t.Errorf("tended %t: %v", tended, err)
		}
		r.x.tend(t.Context())
		if n := map[bool]int{true: 1}[tended]; len(r.ended()) != n {
			t.Errorf("tended %t: the log says %v", tended, words(r.ended()))
		}
	}
}
