package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// fakeAsks is what a fake indexer needs to ask for pages.
type fakeAsks struct {
	signals map[string]*oiv1.Signal // not delivered
	most    int                     // pages of one request; 0: all
	number  uint64                  // of the last answer in the journal epoch
	open    *oiv1.ContentRequest
	lastID  uint64
	ended   []*oiv1.ContentAnswer

	freshLie  func(*oiv1.FreshnessAck) // nil: none
	asksFirst []*oiv1.ContentRequest   // in place of the next requests
	lost      bool                     // hangs up in place of the next acknowledgement
	deafToEnd bool                     // hangs up at the next end of an answer
}

// signalled keeps signals, and acknowledges them or hangs up.
func (f *fakeIndexer) signalled(q *oiv1.Freshness) (*oiv1.IndexerFrame, error) {
	here := q.JournalEpoch == f.held.JournalEpoch
	if here && q.From != f.held.Revision || !here && q.From != 0 || q.From >= q.Through {
		f.t.Errorf("signals of revisions %d to %d of %d, the indexer stands at %d of %d", q.From, q.Through, q.JournalEpoch, f.held.Revision, f.held.JournalEpoch)
	}
	if root := rootOf(f.t, f.pages); !bytes.Equal(q.StateRoot, root[:]) {
		f.t.Errorf("signals on state %x, held is %s", q.StateRoot, root)
	}
	if !here || f.signals == nil {
		f.signals = make(map[string]*oiv1.Signal)
	}
	if !here {
		f.number = 0
	}
	for _, w := range q.Signals {
		f.signals[w.Url] = w
	}
	f.held.JournalEpoch, f.held.Revision = q.JournalEpoch, q.Through
	root := rootOf(f.t, f.pages)
	f.held.StateRoot = root[:]
	if f.lost {
		f.lost = false
		return nil, errHungUp
	}
	ack := &oiv1.FreshnessAck{Series: q.Series, JournalEpoch: q.JournalEpoch, Through: q.Through, Wanted: uint64(len(f.signals))}
	if f.freshLie != nil {
		f.freshLie(ack)
	}
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_FreshnessAck{FreshnessAck: ack}}, nil
}

// follows is a request, behind what may be followed by one.
func (f *fakeIndexer) follows(out *oiv1.IndexerFrame) *oiv1.IndexerFrame {
	f.mu.Lock()
	defer f.mu.Unlock()
	if out.GetFreshnessAck() == nil && out.GetAnnounceResult() == nil && out.GetContentRequest() == nil {
		return nil
	}
	return f.request()
}

// request asks for what is wanted, in the order of URLs, if nothing is open.
func (f *fakeIndexer) request() *oiv1.IndexerFrame {
	f.lastID++
	var q *oiv1.ContentRequest
	switch {
	case len(f.asksFirst) > 0:
		q, f.asksFirst = f.asksFirst[0], f.asksFirst[1:]
	case f.open != nil || len(f.signals) == 0:
		return nil
	default:
		q = &oiv1.ContentRequest{Series: "docs-1", Id: f.lastID, Urls: slices.Sorted(maps.Keys(f.signals))}
		if f.most > 0 && len(q.Urls) > f.most {
			q.Left = uint64(len(q.Urls) - f.most)
			q.Urls = q.Urls[:f.most]
		}
	}
	f.open = q
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_ContentRequest{ContentRequest: q}}
}

// answers ends a request, and makes the next.
func (f *fakeIndexer) answers(a *oiv1.ContentAnswer) (*oiv1.IndexerFrame, error) {
	f.ended = append(f.ended, a)
	if f.open == nil || a.Id != f.open.Id {
		f.t.Errorf("an answer to request %d, open is %v", a.Id, f.open)
		return nil, nil
	}
	for _, r := range a.Refusals {
		delete(f.signals, f.open.Urls[r.Page])
	}
	if f.open = nil; f.deafToEnd {
		f.deafToEnd = false
		return nil, errHungUp
	}
	if a.Refused != nil {
		clear(f.signals)
	}
	return f.request(), nil
}

// base is the revision from which a batch's items count; the numbers of answers
// grow by one.
func (f *fakeIndexer) base(m translog.Manifest) uint64 {
	if m.Request == 0 {
		return m.From
	}
	if f.number++; m.Request != f.number || m.From != m.Through || m.From != f.held.Revision {
		f.t.Errorf("answer %d at revisions %d to %d, want %d at %d", m.Request, m.From, m.Through, f.number, f.held.Revision)
	}
	return 0
}

// came notes what a batch has brought.
func (f *fakeIndexer) came(m translog.Manifest, pages []stage.Page) {
	for _, p := range pages {
		if m.Request != 0 && p.Op == translog.OpPut && (f.open == nil || !slices.Contains(f.open.Urls, p.URL)) {
			f.t.Errorf("%s came unasked", p.URL)
		}
		delete(f.signals, p.URL)
	}
}

// mode stores a grant of the series with another mode.
func (x *fixture) mode(sequence uint64, mode grants.Mode) {
	x.t.Helper()
	pair := x.s.Grant(x.t, sequence, func(d *grants.Draft) { d.Mode = mode })
	x.fake.pairs[pair.Grant.Object.ID] = pair
	x.rel.Pair = pair
	check(x.t, x.rel.write(x.p.dir))
}

// settled checks that both sides stand where the site does.
func (x *fixture) settled(pages int) {
	x.t.Helper()
	h, err := x.p.journal("docs").head(x.p.store)
	check(x.t, err)
	c := x.cursor()
	if len(x.fake.pages) != pages || c.Pages != uint64(pages) || c.State != rootOf(x.t, x.fake.pages) || c.Seen != h.Revision {
		x.t.Errorf("the site has %d pages, the indexer %d; head %d, cursor %+v", pages, len(x.fake.pages), h.Revision, c)
	}
	if n := x.receipts(); n != len(x.fake.answered) {
		x.t.Errorf("%d receipts of %d", n, len(x.fake.answered))
	}
}

func TestARequestGrantSignalsAndSendsWhatIsAskedFor(t *testing.T) {
	x := newFixture(t)
	x.mode(2, grants.ModeRequest)
	x.fake.most = 2
	for i := range 7 {
		x.write(fmt.Sprint("p", i), "first")
	}
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Signalled != 7 || r.Asked != 7 || r.Sent != 7 || r.Waiting != 0 || len(r.Receipts) != 4 {
		t.Errorf("%+v", r)
	}
	x.settled(7)
	results, err = x.push()
	check(t, err)
	if r := results[0]; r.Signalled != 0 || r.Asked != 0 || len(r.Receipts) != 0 {
		t.Errorf("nothing changed: %+v", r)
	}
	x.write("p1", "second")
	check(t, os.Remove(filepath.Join(x.site, "p2.html")))
	results, err = x.push()
	check(t, err)
	if r := results[0]; r.Signalled != 1 || r.Sent != 1 || r.Deleted != 1 {
		t.Errorf("an edit and a deletion: %+v", r)
	}
	x.settled(6)
	s, err := x.p.Status()
	check(t, err)
	if l := s.Indexers[0]; l.Mode != grants.ModeRequest || l.Signalled != 8 || l.Asked != 8 || l.Delivered != 8 || l.Backlog != 0 {
		t.Errorf("status %+v", l)
	}
}

func TestAForgedAcknowledgementMovesNothing(t *testing.T) {
	for name, lie := range map[string]func(*oiv1.FreshnessAck){
		"beyond what was sent":     func(a *oiv1.FreshnessAck) { a.Through++ },
		"of less than was sent":    func(a *oiv1.FreshnessAck) { a.Through-- },
		"of another journal epoch": func(a *oiv1.FreshnessAck) { a.JournalEpoch++ },
		"of another series":        func(a *oiv1.FreshnessAck) { a.Series = "other" },
	} {
		x := newFixture(t)
		x.mode(2, grants.ModeRequest)
		x.write("a", "first")
		x.fake.freshLie = lie
		if _, err := x.push(); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: push = %v", name, err)
		}
		if c := x.cursor(); c.Acked != 0 || c.Seen != 0 {
			t.Errorf("%s: the cursor is %+v", name, c)
		}
	}
}

func TestALostAcknowledgementIsCaughtUp(t *testing.T) {
	x := newFixture(t)
	x.mode(2, grants.ModeRequest)
	for i := range 5 {
		x.write(fmt.Sprint("p", i), "first")
	}
	x.fake.lost = true
	if _, err := x.push(); err == nil {
		t.Fatal("a push whose acknowledgement was lost succeeded")
	}
	epoch := x.fake.held.JournalEpoch
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Signalled != 2 || r.Sent != 5 || x.fake.held.JournalEpoch != epoch {
		t.Errorf("%+v", r)
	}
	x.settled(5)
	x.fake.held.Revision += 7 // more than was ever signalled
	x.write("p1", "second")
	_, err = x.push()
	check(t, err)
	if x.fake.held.JournalEpoch == epoch {
		t.Error("an indexer that says that it was signalled more was believed")
	}
	x.settled(5)
}

// TestANewEpochIsNotLeftForTheOneBefore: a session that ends behind a wider grant, and
// before anything was signalled under it, once led back to the old journal epoch, and
// what is new in the scope was never offered.
func TestANewEpochIsNotLeftForTheOneBefore(t *testing.T) {
	x := newFixture(t)
	x.mode(2, grants.ModeRequest)
	x.write("p", "first")
	_, err := x.push()
	check(t, err)
	a, c := agreement{x.p.store, x.rel}, x.cursor()
	s := &session{held: map[string]*oiv1.CollectionState{x.rel.Series: proto.Clone(&x.fake.held).(*oiv1.CollectionState)}}
	check(t, c.renumber())
	want := c
	if c, err = s.catchUp(a, c); err != nil || c != want {
		t.Errorf("caught up to %+v, %v, want %+v", c, err, want)
	}
}

func TestARequestIsAnsweredInsideTheGrantAlone(t *testing.T) {
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf("https://example.com/doc/%d", i)
	}
	const a = "https://example.com/doc/a.html"
	for _, tt := range []struct {
		name  string
		mode  grants.Mode
		urls  []string
		whole grants.Reason
		each  []grants.Reason
	}{
		{"pages of others, and pages that there are not", grants.ModeBoth,
			[]string{"https://elsewhere.example/", "https://example.com/private", "https://example.com/doc/none", "no URL", a}, "",
			[]grants.Reason{grants.ErrScope, grants.ErrScope, grants.ErrNotHeld, grants.ErrScope}},
		{"a page twice", grants.ModeBoth, []string{a, a}, grants.ErrMalformed, nil},
		{"no page", grants.ModeBoth, nil, grants.ErrMalformed, nil},
		{"a hundred thousand pages", grants.ModeBoth, many, grants.ErrOversize, nil},
		{"a page under a grant of mode push", grants.ModePush, []string{a}, grants.ErrPushOnly, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.mode(2, tt.mode)
			x.write("a", "first")
			_, err := x.push()
			check(t, err)
			before := x.receipts()
			x.fake.asksFirst = []*oiv1.ContentRequest{{Series: "docs-1", Id: 77, Urls: tt.urls}}
			x.write("b", "first") // so that the push has to wait for an answer
			_, err = x.push()
			check(t, err)
			if len(x.fake.ended) != 1 {
				t.Fatalf("%d requests are answered", len(x.fake.ended))
			}
			end := x.fake.ended[0]
			var each []grants.Reason
			for _, r := range end.Refusals {
				each = append(each, grants.Reason(r.Reason))
			}
			if end.Id != 77 || end.Refused.GetReason() != string(tt.whole) || !slices.Equal(each, tt.each) {
				t.Errorf("answered %v", end)
			}
			if sent := x.receipts() - before - 1; sent != min(len(tt.each), 1) {
				t.Errorf("%d batches came of it", sent)
			}
			x.settled(2)
		})
	}
}

func TestARequestOutOfPlaceEndsTheSession(t *testing.T) {
	ask := func(series string, id uint64) *oiv1.ContentRequest {
		return &oiv1.ContentRequest{Series: series, Id: id, Urls: []string{"https://example.com/doc/a.html"}}
	}
	for name, asks := range map[string][]*oiv1.ContentRequest{
		"of a series that was not announced": {ask("other", 1)},
		"before the last one is answered":    {ask("docs-1", 1), ask("docs-1", 2)},
		"without a number":                   {ask("docs-1", 0)},
	} {
		x := newFixture(t)
		x.write("a", "first")
		x.fake.asksFirst = asks
		if _, err := x.push(); !errors.Is(err, ErrProtocol) {
			t.Errorf("a request %s: push = %v", name, err)
		}
	}
}

func TestAnotherModeOffersWhatWasOnlySignalled(t *testing.T) {
	x := newFixture(t)
	x.mode(2, grants.ModeRequest)
	x.fake.asksFirst = []*oiv1.ContentRequest{{Series: "docs-1", Id: 1, Urls: []string{"https://example.com/doc/none"}}}
	x.write("a", "first")
	x.write("b", "first")
	x.fake.most = 1
	x.fake.deafToEnd = true
	_, err := x.push() // which is cut, or has just ended
	if err != nil && !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	clear(x.fake.signals)
	x.mode(3, grants.ModePush)
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 2 || r.Signalled != 0 {
		t.Errorf("%+v", r)
	}
	x.settled(2)
	x.mode(4, grants.ModeRequest)
	x.write("a", "second")
	results, err = x.push()
	check(t, err)
	if r := results[0]; r.Signalled != 1 || r.Sent != 1 {
		t.Errorf("back again: %+v", r)
	}
	x.settled(2)
}

// TestRequestsAreAnsweredOnceThroughCuts plays edits, deletions and pushes whose
// sessions are cut at each place where something may be lost: the acknowledgement
// of signals, that of a batch, the end of an answer. The fake indexer finds a
// request number, a cursor or a state that is not the next; in the end both sides
// stand where the site does.
func TestRequestsAreAnsweredOnceThroughCuts(t *testing.T) {
	rounds := 0
	rapid.Check(t, func(rt *rapid.T) {
		if rounds++; rounds > 8 && !rt.Failed() {
			return // each goes over real sessions
		}
		x := newFixture(t)
		x.mode(2, grants.ModeRequest)
		pages := make(map[string]bool)
		for step := range rapid.IntRange(2, 6).Draw(rt, "steps") {
			for range rapid.IntRange(0, 4).Draw(rt, "edits") {
				name := fmt.Sprint("p", rapid.IntRange(0, 5).Draw(rt, "page"))
				if pages[name] && rapid.IntRange(0, 2).Draw(rt, "gone") == 0 {
					check(t, os.Remove(filepath.Join(x.site, name+".html")))
					delete(pages, name)
				} else {
					x.write(name, fmt.Sprint("words of ", step))
					pages[name] = true
				}
			}
			x.fake.mu.Lock()
			x.fake.most = rapid.IntRange(0, 3).Draw(rt, "most")
			switch rapid.IntRange(0, 4).Draw(rt, "cut") {
			case 0:
				x.fake.lost = true
			case 1:
				x.fake.hangUp = true
			case 2:
				x.fake.deafToEnd = true
			}
			x.fake.mu.Unlock()
			_, err := x.p.Push(t.Context(), PushOptions{AllowMassDelete: true})
			if err != nil && !errors.Is(err, ErrUnavailable) {
				rt.Fatal(err)
			}
		}
		x.fake.mu.Lock()
		x.fake.lost, x.fake.hangUp, x.fake.deafToEnd = false, false, false
		x.fake.mu.Unlock()
		_, err := x.p.Push(t.Context(), PushOptions{AllowMassDelete: true})
		check(t, err)
		x.settled(len(pages))
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}
