package indexer

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func byRequest(d *grants.Draft) { d.Mode = grants.ModeRequest }

// newAskingRig is a rig that asks as it is told.
func newAskingRig(t testing.TB, q Requests) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), requests: q}
	r.create()
	r.open()
	t.Cleanup(r.close)
	return r
}

// A source is a publisher that signals pages, by the words that they have.
type source struct {
	*series
	told    map[string]uint64 // revisions
	words   map[string]string
	request uint64
}

func (p *tester) source(prefix string) *source {
	s := p.series("docs-1", prefix, byRequest)
	return &source{series: s, told: make(map[string]uint64), words: make(map[string]string)}
}

// signals is the frame that says that pages have new words.
func (s *source) signals(words string, pages ...string) *oiv1.Freshness {
	root := s.root()
	f := &oiv1.Freshness{
		Series: s.name, JournalEpoch: s.epoch, From: s.revision, Through: s.revision + max(1, uint64(len(pages))), StateRoot: root[:],
	}
	for i, u := range pages {
		digest := sha256.Sum256(payloadOf(u, words))
		f.Signals = append(f.Signals, &oiv1.Signal{RevisionDelta: 1, Url: u, Digest: digest[:]})
		s.told[u], s.words[u] = s.revision+uint64(i)+1, words
	}
	return f
}

func (c *client) tell(f *oiv1.Freshness) *oiv1.FreshnessAck {
	c.p.r.t.Helper()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Freshness{Freshness: f}})
	for {
		f := c.next()
		if f.GetContentRequest() == nil {
			return f.GetFreshnessAck()
		}
		c.early = append(c.early, f.GetContentRequest())
	}
}

// told signals pages, which has to be acknowledged.
func (s *source) tell(c *client, words string, pages ...string) {
	s.p.r.t.Helper()
	f := s.signals(words, pages...)
	if ack := c.tell(f); ack.Refused != nil || ack.Through != f.Through {
		s.p.r.t.Fatalf("acknowledged %v", ack)
	}
	s.revision = f.Through
}

// asked is the next request.
func (c *client) asked() *oiv1.ContentRequest {
	c.p.r.t.Helper()
	if len(c.early) > 0 {
		q := c.early[0]
		c.early = c.early[1:]
		return q
	}
	f := c.next()
	if f.GetContentRequest() == nil {
		c.p.r.t.Fatalf("no request but %v", f)
	}
	return f.GetContentRequest()
}

// answer is a batch with pages, by ascending revision; those of gone go.
func (s *source) answer(id uint64, pages []string, gone ...string) *parcel {
	pages = slices.Clone(pages)
	slices.SortFunc(pages, func(a, b string) int { return int(s.told[a]) - int(s.told[b]) })
	var changes []change
	for _, u := range pages {
		changes = append(changes, change{url: u, text: s.words[u]})
	}
	for _, u := range gone {
		changes = append(changes, change{url: u})
	}
	b := s.parcel(changes...)
	before := uint64(0)
	for i, c := range changes {
		revision := s.told[c.url]
		it, digest := b.items.Items[i], [32]byte{}
		if it.Op == oiv1.Op_OP_PUT {
			digest = sha256.Sum256(payloadOf(c.url, c.text))
		}
		it.RevisionDelta = revision - before
		before = revision
		b.leaves[i] = s.key.Leaf(translog.Op(it.Op), s.epoch, revision, c.url, digest).Hash()
	}
	b.body.Offered, b.body.Request = translog.SetOf(b.leaves), s.request+1
	b.body.Through, b.header.Sequence = s.revision, s.revision
	b.pack()
	b.batch.Request = id
	return b
}

// deliver sends an answer that has to be applied.
func (s *source) deliver(c *client, b *parcel) {
	s.p.r.t.Helper()
	if r := c.deliver(b); r.Refused != nil {
		s.p.r.t.Fatalf("the answer is refused: %v", r.Refused)
	}
	s.pages = b.after
	s.request++
}

// done ends a request.
func (c *client) done(q *oiv1.ContentRequest, refusals ...*oiv1.ContentRefusal) {
	c.p.r.t.Helper()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ContentAnswer{ContentAnswer: &oiv1.ContentAnswer{Series: q.Series, Id: q.Id, Refusals: refusals}}})
}

// record is the series as it is stored.
func (r *rig) record(s *series) seriesRecord {
	rec, _, _ := r.stateOf(s)
	return rec
}

func TestWhatIsSignalledIsAskedForAndOutlivesARestart(t *testing.T) {
	t.Parallel()
	r := newAskingRig(t, Requests{Rate: -1})
	p := r.example()
	s := p.source(site)
	pages := urls(site, 3)
	s.tell(p.session(s.series), "words", pages...)
	r.close()
	r.requests = Requests{}
	r.open()
	c := p.greeted()
	state := c.announce(c.announcement(s.series)).Collections[0]
	if state.Revision != 3 || state.Wanted != 3 || len(state.Receipt) != 0 {
		t.Errorf("after the restart: %v", state)
	}
	q := c.asked()
	if want := []string{pages[2], pages[1], pages[0]}; !slices.Equal(q.Urls, want) || q.Left != 0 {
		t.Errorf("asked for %v, left %d", q.Urls, q.Left)
	}
	s.deliver(c, s.answer(q.Id, pages))
	c.done(q)
	for _, u := range pages {
		if err := r.readable(s.series, u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
	rec := r.record(s.series)
	if rec.Wanted != 0 || rec.Delivered != 3 || rec.Request != 1 || rec.Revision != 3 {
		t.Errorf("the record is %+v", rec)
	}
	if e := r.log(); len(e) != 1 || e[0].Request != 1 || e[0].From != 3 || e[0].Through != 3 {
		t.Errorf("the log has %+v", e)
	}
	r.sound("an answer is held")
}

func TestUnaskedContentIsRefusedAndDeletionsAreNot(t *testing.T) {
	t.Parallel()
	r := newAskingRig(t, Requests{Pages: 2})
	p := r.example()
	s := p.source(site)
	c := p.session(s.series)
	pages := urls(site, 4)
	s.tell(c, "words", pages...)
	q := c.asked() // the two newest
	for _, tt := range []struct {
		name  string
		batch func() *parcel
		want  grants.Reason
	}{
		{"a push", func() *parcel { return s.parcel(puts("words", pages[0])...).pack() }, grants.ErrUnasked},
		{"a page that was signalled and not asked for", func() *parcel { return s.answer(q.Id, pages[:1]) }, grants.ErrUnasked},
		{"a page that was asked for, under another request's id", func() *parcel { return s.answer(q.Id+1, q.Urls) }, grants.ErrUnasked},
		{"an answer that says a push's word", func() *parcel {
			b := s.parcel(puts("words", pages[0])...).pack()
			b.batch.Request = q.Id
			return b
		}, grants.ErrMalformed},
		{"an answer without a page", func() *parcel { return s.answer(q.Id, nil) }, grants.ErrMalformed},
		{"a request number that is left out", func() *parcel { return s.spoilt(q, func(b *parcel) { b.body.Request = 2 }) }, grants.ErrConflict},
		{"an answer at a revision to come", func() *parcel {
			return s.spoilt(q, func(b *parcel) { b.body.From, b.body.Through, b.header.Sequence = 5, 5, 5 })
		}, grants.ErrConflict},
		{"an answer at a revision that has passed", func() *parcel {
			return s.spoilt(q, func(b *parcel) { b.body.From, b.body.Through, b.header.Sequence = 3, 3, 3 })
		}, grants.ErrMalformed},
		{"an answer in a journal epoch to come", func() *parcel { return s.spoilt(q, func(b *parcel) { b.body.JournalEpoch++ }) }, grants.ErrMalformed},
	} {
		before := fmt.Sprint(r.stateOf(s.series))
		b := tt.batch()
		if got := c.deliver(b).Refused; got.GetReason() != string(tt.want) {
			t.Errorf("%s is refused as %v, want %s", tt.name, got, tt.want)
		}
		if after := fmt.Sprint(r.stateOf(s.series)); after != before {
			t.Errorf("%s moved\n%s to\n%s", tt.name, before, after)
		}
	}
	b := s.answer(q.Id, q.Urls)
	s.deliver(c, b)
	if again := c.deliver(b); again.Refused != nil {
		t.Errorf("the same answer again: %v", again.Refused)
	}
	s.request--
	if other := c.deliver(s.answer(q.Id, q.Urls[:1])).Refused; other.GetReason() != string(grants.ErrConflict) {
		t.Errorf("another answer under the number of the last one: %v", other)
	}
	s.request++
	if other := c.deliver(s.answer(q.Id, q.Urls[:1])).Refused; other.GetReason() != string(grants.ErrUnasked) {
		t.Errorf("a page that has come, again: %v", other)
	}
	s.revision, s.told[q.Urls[0]] = s.revision+1, s.revision+1
	f := s.signals("words")
	f.From, f.Through = s.revision-1, s.revision
	if ack := c.tell(f); ack.Refused != nil {
		t.Fatal(ack.Refused)
	}
	s.deliver(c, s.answer(0, nil, q.Urls[0]))
	if err := r.readable(s.series, q.Urls[0]); err == nil {
		t.Error("a page is readable whose deletion came unasked")
	}
}

// spoilt is an answer with something wrong.
func (s *source) spoilt(q *oiv1.ContentRequest, spoil func(*parcel)) *parcel {
	b := s.answer(q.Id, q.Urls)
	spoil(b)
	id := b.batch.Request
	b.pack()
	b.batch.Request = id
	return b
}

func TestForgedSignalsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newAskingRig(t, Requests{Rate: -1})
	p := r.example()
	s := p.source(site)
	c := p.session(s.series)
	pages := urls(site, 3)
	s.tell(c, "words", pages[:2]...)
	many := urls(site, maxSignals+1)
	for _, tt := range []struct {
		name  string
		spoil func(f *oiv1.Freshness)
		want  grants.Reason
	}{
		{"signals that leave revisions out", func(f *oiv1.Freshness) { f.From, f.Through = 9, 10 }, grants.ErrConflict},
		{"signals that came before", func(f *oiv1.Freshness) { f.From, f.Through = 0, 1 }, grants.ErrConflict},
		{"signals that end before they begin", func(f *oiv1.Freshness) { f.Through = f.From }, grants.ErrMalformed},
		{"a journal epoch from its middle", func(f *oiv1.Freshness) { f.JournalEpoch++ }, grants.ErrConflict},
		{"journal epoch 0", func(f *oiv1.Freshness) { f.JournalEpoch = 0 }, grants.ErrMalformed},
		{"another state", func(f *oiv1.Freshness) { f.StateRoot = make([]byte, 31) }, grants.ErrMalformed},
		{"a state that is not held", func(f *oiv1.Freshness) { f.StateRoot = append(make([]byte, 31), 1) }, grants.ErrState},
		{"a page outside the scope", func(f *oiv1.Freshness) { f.Signals[0].Url = "https://example.com/elsewhere" }, grants.ErrScope},
		{"a URL in another form", func(f *oiv1.Freshness) { f.Signals[0].Url += "/../x" }, grants.ErrMalformed},
		{"a page twice", func(f *oiv1.Freshness) {
			f.Through++
			f.Signals = append(f.Signals, f.Signals[0])
		}, grants.ErrMalformed},
		{"a revision beyond the last", func(f *oiv1.Freshness) { f.Signals[0].RevisionDelta = 2 }, grants.ErrMalformed},
		{"a digest that is cut short", func(f *oiv1.Freshness) { f.Signals[0].Digest = f.Signals[0].Digest[:31] }, grants.ErrMalformed},
		{"one signal too many", func(f *oiv1.Freshness) { *f = *s.signals("words", many...) }, grants.ErrOversize},
		{"a series that was not announced", func(f *oiv1.Freshness) { f.Series = "other" }, grants.ErrNoGrant},
	} {
		f := s.signals("words", pages[2])
		tt.spoil(f)
		before := fmt.Sprint(r.stateOf(s.series))
		if ack := c.tell(f); ack.Refused.GetReason() != string(tt.want) || ack.Through != 0 {
			t.Errorf("%s: acknowledged %v, want %s", tt.name, ack, tt.want)
		}
		if after := fmt.Sprint(r.stateOf(s.series)); after != before {
			t.Errorf("%s moved\n%s to\n%s", tt.name, before, after)
		}
	}
	push := p.series("push-1", blogs, func(d *grants.Draft) { d.Mode = grants.ModePush })
	other := &source{series: push, told: make(map[string]uint64), words: make(map[string]string)}
	c = p.session(push)
	if ack := c.tell(other.signals("words", blogs+"a")); ack.Refused.GetReason() != string(grants.ErrUnasked) {
		t.Errorf("signals under a grant of mode push: %v", ack)
	}
}

func TestRequestsKeepToOrderAndBounds(t *testing.T) {
	t.Parallel()
	for _, oldest := range []bool{false, true} {
		r := newAskingRig(t, Requests{Pages: 2, Oldest: oldest, Backlog: 5})
		p := r.example()
		s := p.source(site)
		c := p.session(s.series)
		pages := urls(site, 7)
		s.tell(c, "words", pages...)
		want := []string{pages[6], pages[5], pages[4], pages[3], pages[2]}
		if oldest {
			want = pages[:5]
		}
		var got []string
		for len(got) < len(want) {
			q := c.asked()
			if len(q.Urls) > 2 || int(q.Left) != len(want)-len(got)-len(q.Urls) {
				t.Fatalf("asked for %d at once, %d left", len(q.Urls), q.Left)
			}
			got = append(got, q.Urls...)
			s.deliver(c, s.answer(q.Id, q.Urls))
			c.done(q)
		}
		if !slices.Equal(got, want) {
			t.Errorf("oldest %v: asked for %v, want %v", oldest, got, want)
		}
		if rec := r.record(s.series); rec.Dropped != 2 || rec.Wanted != 0 {
			t.Errorf("dropped %d, wanted %d", rec.Dropped, rec.Wanted)
		}
	}
}

func TestARequestThatBringsNothingIsTakenBack(t *testing.T) {
	t.Parallel()
	r := newAskingRig(t, Requests{Timeout: time.Second})
	p := r.example()
	s := p.source(site)
	c := p.session(s.series)
	s.tell(c, "words", site+"a")
	q := c.asked()
	cancel := c.next().GetContentCancel()
	if cancel.GetId() != q.Id || cancel.GetSeries() != q.Series {
		t.Fatalf("cancelled %v, asked %v", cancel, q)
	}
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ContentAnswer{ContentAnswer: &oiv1.ContentAnswer{
		Series: q.Series, Id: q.Id, Refused: &oiv1.Fault{Reason: string(grants.ErrCancelled)},
	}}})
	if again := c.asked(); again.Id == q.Id || !slices.Equal(again.Urls, q.Urls) {
		t.Errorf("asked again by %v", again)
	}
	c.next() // it is taken back too, and nobody answers
	if f, err := c.recv(); err != nil || f.GetFault().GetReason() != string(grants.ErrMalformed) {
		t.Errorf("a session that answers nothing is told %v, %v", f, err)
	}
	if f, err := c.recv(); err == nil {
		t.Errorf("a session that answers nothing goes on with %v", f)
	}
}

func TestWhatIsRefusedIsDroppedAndWhatIsRevokedIsForgotten(t *testing.T) {
	t.Parallel()
	r := newAskingRig(t, Requests{})
	p := r.example()
	s := p.source(site)
	c := p.session(s.series)
	pages := urls(site, 3)
	s.tell(c, "words", pages...)
	q := c.asked()
	c.done(q, &oiv1.ContentRefusal{Page: 0, Reason: string(grants.ErrNotHeld)}, &oiv1.ContentRefusal{Page: 1, Reason: string(grants.ErrLimit)})
	r.eventually("the refused page leaves the queue", func() bool { return r.record(s.series).Wanted == 2 })
	c.deaf = true
	p.revoke(p.revocation(s.pair.Grant.Revoke(grants.DispositionStop)))
	rec := r.record(s.series)
	for _, space := range []byte("Yy") {
		lo := sidKey(space, rec.SID)
		for kv, err := range r.x.store.Scan(lo, durable.PrefixEnd(lo)) {
			t.Errorf("a row %q is left: %v", kv.Key, err)
		}
	}
	if rec.Wanted != 0 {
		t.Errorf("%d pages are wanted after the revocation", rec.Wanted)
	}
}

func TestAnAnswerToNothingEndsTheSession(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(a *oiv1.ContentAnswer)
	}{
		{"another id", func(a *oiv1.ContentAnswer) { a.Id++ }},
		{"another series", func(a *oiv1.ContentAnswer) { a.Series = "other" }},
		{"a refusal of a page that was not asked for", func(a *oiv1.ContentAnswer) { a.Refusals = []*oiv1.ContentRefusal{{Page: 1, Reason: "not-held"}} }},
		{"a refusal without a reason", func(a *oiv1.ContentAnswer) { a.Refusals = []*oiv1.ContentRefusal{{}} }},
	} {
		r := newAskingRig(t, Requests{})
		p := r.example()
		s := p.source(site)
		c := p.session(s.series)
		s.tell(c, "words", site+"a")
		q := c.asked()
		a := &oiv1.ContentAnswer{Series: q.Series, Id: q.Id}
		tt.spoil(a)
		c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ContentAnswer{ContentAnswer: a}})
		if f, err := c.recv(); err != nil || f.GetFault().GetReason() != string(grants.ErrMalformed) {
			t.Errorf("%s is answered by %v, %v", tt.name, f, err)
		}
		if rec := r.record(s.series); rec.Wanted != 1 {
			t.Errorf("%s: %d wanted", tt.name, rec.Wanted)
		}
	}
}
