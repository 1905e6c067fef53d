package publisher

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// fakeProbes is what a fake indexer needs to be asked for pages.
type fakeProbes struct {
	payloads map[string][]byte
	probeLie func(*oiv1.ProbeAnswer) // nil: none
	probed   []string
}

// probe answers from the payload that was sent last.
func (f *fakeIndexer) probe(q *oiv1.Probe) *oiv1.IndexerFrame {
	f.probed = append(f.probed, q.Url)
	a := &oiv1.ProbeAnswer{Nonce: q.Nonce, Refused: string(grants.ErrNotHeld)}
	if payload, ok := f.payloads[q.Url]; ok {
		proof := sha256.Sum256(slices.Concat([]byte("uzpif-oi/probe/v1\x00"), q.Nonce, payload))
		a.Proof, a.Refused = proof[:], ""
	}
	if f.probeLie != nil {
		f.probeLie(a)
	}
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_ProbeAnswer{ProbeAnswer: a}}
}

func TestAnHonestIndexerShowsWhatItHolds(t *testing.T) {
	x := newFixture(t)
	for i := range 20 {
		x.write(fmt.Sprint("p", i), "first")
	}
	for range 3 {
		results, err := x.push()
		check(t, err)
		x.s.Now = x.s.Now.Add(probeRest)
		if results[0].Probes != firstProbes || len(results[0].Unshown) != 0 {
			t.Errorf("%+v", results[0])
		}
	}
	if x.fake.batches != 1 {
		t.Errorf("%d batches", x.fake.batches)
	}
}

// TestEachPageIsAsLikelyToBeProbed draws from a fixed source.
func TestEachPageIsAsLikelyToBeProbed(t *testing.T) {
	x := newFixture(t)
	const pages, draws = 40, 4000
	for i := range pages {
		x.write(fmt.Sprint("p", i), "first")
	}
	_, err := x.push()
	check(t, err)
	x.p.random = rand.NewChaCha8([32]byte{1})
	drawn := make(map[[32]byte]int)
	for range draws {
		h, ok, err := x.p.draw(agreement{x.p.store, x.rel}.tree(), x.p.store)
		check(t, err)
		if !ok {
			t.Fatal("no page was drawn")
		}
		drawn[h]++
	}
	for h, n := range drawn {
		if n < draws/pages/2 || n > 2*draws/pages {
			t.Errorf("page %x was drawn %d times of %d", h[:4], n, draws)
		}
	}
	if len(drawn) != pages {
		t.Errorf("%d pages were drawn of %d", len(drawn), pages)
	}
}

// TestTheDrawOfAProbeIsPassedIn makes two publishers draw alike.
func TestTheDrawOfAProbeIsPassedIn(t *testing.T) {
	var drawn [2][]string
	for i := range drawn {
		x := newFixture(t)
		for n := range 20 {
			x.write(fmt.Sprint("p", n), "first")
		}
		x.p.random = rand.NewChaCha8([32]byte{1})
		_, err := x.push()
		check(t, err)
		drawn[i] = x.fake.probed
	}
	if len(drawn[0]) != firstProbes || !slices.Equal(drawn[0], drawn[1]) {
		t.Errorf("drawn %q", drawn)
	}
}

// TestAPageThatIsNotShownIsSentAgain loses the payloads of an indexer that still
// says that it has them.
func TestAPageThatIsNotShownIsSentAgain(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	_, err := x.push()
	check(t, err)
	before := x.cursor()
	clear(x.fake.payloads)
	if results, err := x.push(); err != nil || results[0].Probes != 0 {
		t.Errorf("soon after the last: %+v, %v", results, err)
	}
	x.s.Now = x.s.Now.Add(probeRest)
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 1 || len(r.Unshown) != 1 || r.Probes != 2 || len(r.Receipts) != 1 {
		t.Errorf("%+v", r)
	}
	if c := x.cursor(); c.State != before.State || c.JournalEpoch == before.JournalEpoch || c.Reconciling || x.receipts() != 2 {
		t.Errorf("cursor %+v, before %+v", c, before)
	}
	alarm, err := x.p.alarm(x.rel)
	check(t, err)
	if alarm == nil || alarm.Reason != "probe" {
		t.Errorf("alarm %+v", alarm)
	}
	_, err = x.push()
	check(t, err)
	if alarm, err := x.p.alarm(x.rel); alarm != nil || err != nil {
		t.Errorf("alarm %+v after all went well: %v", alarm, err)
	}
}

func TestWrongAnswersToProbesStopTheAgreement(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lie   func(*oiv1.ProbeAnswer)
		want  error
		alarm string
	}{
		{"a proof of something else", func(a *oiv1.ProbeAnswer) { a.Proof[0] ^= 1 }, ErrProbe, "probe"},
		{"a proof that is cut short", func(a *oiv1.ProbeAnswer) { a.Proof = a.Proof[:31] }, ErrProbe, "probe"},
		{"the nonce in place of a proof", func(a *oiv1.ProbeAnswer) { a.Proof = a.Nonce }, ErrProbe, "probe"},
		{"a page that is said not to be held", func(a *oiv1.ProbeAnswer) { a.Proof, a.Refused = nil, "not-held" }, ErrProbe, "probe"},
		{"a proof beside a refusal", func(a *oiv1.ProbeAnswer) { a.Refused = "\x1b[2J" }, ErrProbe, "probe"},
		{"an answer to another probe", func(a *oiv1.ProbeAnswer) { a.Nonce = make([]byte, 32) }, ErrProtocol, "protocol"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.write("a", "first")
			x.fake.probeLie = tt.lie
			results, err := x.push()
			if !errors.Is(err, tt.want) || !judge(err).alarm || bytes.ContainsRune([]byte(err.Error()), '\x1b') {
				t.Errorf("push = %v, want %v", err, tt.want)
			}
			if results[0].Probes > maxProbes {
				t.Errorf("%d probes", results[0].Probes)
			}
			if alarm, err := x.p.alarm(x.rel); err != nil || alarm == nil || alarm.Reason != tt.alarm {
				t.Errorf("alarm %+v: %v", alarm, err)
			}
		})
	}
}

func TestPagesThatNeedNotBeHeldAreNotAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(x *fixture)
	}{
		{"one that was excluded", func(x *fixture) {
			x.reviseAcked(func(p *ackedPage) { p.Decision = "exclude" })
		}},
		{"one that may not be kept any longer", func(x *fixture) {
			x.s.Now = x.s.Now.Add(40 * 24 * time.Hour) // of 30
		}},
		{"one that the source has in other words now", func(x *fixture) { x.write("a", "second") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.write("a", "first")
			_, err := x.push()
			check(t, err)
			tt.change(x)
			col, err := x.p.collection("docs")
			check(t, err)
			s := &session{p: x.p, rels: []*Relationship{x.rel}}
			if page, err := s.choose(t.Context(), agreement{x.p.store, x.rel}, col); page != nil || err != nil {
				t.Errorf("asks for %+v: %v", page, err)
			}
		})
	}
}

// reviseAcked changes what is kept of the one page.
func (x *fixture) reviseAcked(change func(*ackedPage)) {
	x.t.Helper()
	h := urlHash("https://example.com/doc/a.html")
	a := agreement{x.p.store, x.rel}
	row, ok, err := a.lookupAcked(x.p.store, h)
	check(x.t, err)
	if !ok {
		x.t.Fatal("the page was not acknowledged")
	}
	change(&row)
	b := x.p.store.NewBatch()
	defer b.Close()
	check(x.t, b.Set(ackedKey(x.rel.Series, h), row.append(nil)))
	check(x.t, b.Commit())
}

// TestASessionAsksWithinItsBound stays for a month.
func TestASessionAsksWithinItsBound(t *testing.T) {
	x := newFixture(t)
	s := &session{p: x.p, rels: []*Relationship{x.rel, {Series: "docs-2"}}}
	s.probing.begun = make(map[string]bool)
	asked := 0
	for range 60 {
		for _, r := range s.rels {
			n := s.due(r.Series)
			s.probing.begun[r.Series] = true
			asked += n
			if n > 0 {
				s.probing.asked, s.probing.last = s.probing.asked+n, x.p.now()
			}
		}
		x.s.Now = x.s.Now.Add(12 * time.Hour)
	}
	if asked != maxProbes-1 { // the last is for a page that is sent again
		t.Errorf("%d probes", asked)
	}
	if _, err := io.ReadFull(x.p.chance(), make([]byte, 8)); err != nil {
		t.Error(err)
	}
}

// keep is what an honest indexer does with a payload.
func (f *fakeIndexer) keep(url string, payload []byte) {
	if f.payloads == nil {
		f.payloads = make(map[string][]byte)
	}
	f.payloads[url] = bytes.Clone(payload)
}
