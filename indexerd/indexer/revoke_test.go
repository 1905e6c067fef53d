package indexer

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// acked evaluates every acknowledgement as a publisher does, and gives them as
// "type count".
func (s *series) acked(rev *grants.Revocation, a *oiv1.Acknowledgements, stood envelope.Hash) []string {
	t, r := s.p.r.t, s.p.r
	t.Helper()
	if a.Refused != nil {
		t.Fatalf("the revocation is refused: %v", a.Refused)
	}
	g := s.pair.Grant
	var all []string
	for _, one := range a.Acknowledged {
		var path [][32]byte
		for _, h := range one.Inclusion.Hashes {
			path = append(path, [32]byte(h))
		}
		done, err := evaluate.Acknowledgement(evaluate.AckAnswer{
			Acknowledgement: one.Acknowledgement, Entry: one.Entry, Inclusion: path, Checkpoint: one.Checkpoint, Note: one.Note,
		}, evaluate.ExpectedAck{
			Agreed: evaluate.Agreed{
				Publisher: s.p.local.Name(), Indexer: r.card.Identity, Keys: r.card, LogVKey: r.card.Log.VKey, LogOrigin: r.card.Log.Origin,
				GrantID: g.Object.ID, PolicyHash: g.Body.PolicyHash, ScopeHash: g.ScopeHash, GrantExpiresAt: g.Object.ExpiresAt,
				Purposes: g.Body.Purposes.Strings(), CollectionRef: s.key.CollectionRef("docs"), Subject: s.subject(),
			},
			Grant: g, Revocation: rev, Now: r.now(),
			Standings: []evaluate.Standing{{JournalEpoch: s.epoch, Cursor: s.revision, State: s.key.StateCommitment(s.epoch, s.revision, stood)}},
		})
		if err != nil {
			t.Fatalf("series %s: %v", one.Series, err)
		}
		all = append(all, words([]translog.Entry{done.EntryBody})...)
	}
	return all
}

func TestRevocationStopsEverything(t *testing.T) {
	t.Parallel()
	for _, d := range []grants.Disposition{grants.DispositionStop, grants.DispositionRetention, grants.DispositionDelete} {
		t.Run(string(d), func(t *testing.T) {
			r := newRig(t)
			s, c := r.example().held(3)
			other := s.p.series("blog-1", blogs, nil)
			rev := s.p.revocation(s.pair.Grant.Revoke(d))
			want := []string{"revoke-ack/stopped 3"}
			if d == grants.DispositionDelete {
				want = append(want, "delete-ack/revoked 3")
			}
			s.p.revoke(rev)
			if err := r.readable(s, urls(site, 1)[0]); !errors.Is(err, grants.ErrRevoked) {
				t.Errorf("the page is read: %v", err)
			}
			if got := s.acked(rev, s.p.settled(rev), s.root()); !slices.Equal(got, want) {
				t.Errorf("acknowledged %q, want %q", got, want)
			}
			// The session had no other grant; it may be told of the deletion before it ends.
			c.deaf = true
			if _, err := c.recv(); err == nil {
				t.Error("the session goes on")
			}
			c = s.p.greeted()
			refused := c.announce(c.announcement(s)).Refusals
			if len(refused) != 1 || refused[0].Reason != string(grants.ErrRevoked) {
				t.Errorf("the grant is announced again: %v", refused)
			}
			// Other series are as they were.
			s.p.session(other).push(other, puts("words", urls(blogs, 2)...)...)
			if err := r.readable(other, urls(blogs, 1)[0]); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRevocationAgainIsAnsweredByTheSameOctets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(3)
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	first := s.p.settled(rev)
	size := r.x.tlog.Released().Tree.Size
	r.forward(time.Hour)
	r.close()
	r.open()
	if again := s.p.revoke(rev); !proto.Equal(first, again) {
		t.Error("the second answer is another one")
	}
	if n := r.x.tlog.Released().Tree.Size; n != size {
		t.Errorf("the log grew from %d to %d entries", size, n)
	}
}

func TestRelationshipEndsInEverySeries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	docs, blog := p.series("docs-1", site, nil), p.series("blog-1", blogs, nil)
	c := p.session(docs, blog)
	c.push(docs, puts("words", urls(site, 2)...)...)
	c.push(blog, puts("words", urls(blogs, 3)...)...)
	rev := p.revocation(grants.RevokeAll(p.local.Name(), grants.DispositionDelete))
	a := p.settled(rev)
	if len(a.Acknowledged) != 4 {
		t.Fatalf("%d acknowledgements, want two a series", len(a.Acknowledged))
	}
	for _, s := range []*series{docs, blog} {
		own := &oiv1.Acknowledgements{}
		for _, one := range a.Acknowledged {
			if one.Series == s.name {
				own.Acknowledged = append(own.Acknowledged, one)
			}
		}
		if got := s.acked(rev, own, s.root()); len(got) != 2 {
			t.Errorf("%s: acknowledged %q", s.name, got)
		}
	}
	// A grant of the same epoch that comes later is reached; a higher one stands.
	late := p.series("more-1", "https://example.com/more/", nil)
	c = p.greeted()
	if f := c.announce(c.announcement(late)).Refusals; len(f) != 1 || f[0].Reason != string(grants.ErrRevoked) {
		t.Errorf("a later grant of the epoch: %v", f)
	}
	p.changeKeys(p.dir, false)
	anew := p.series("anew-1", site, func(d *grants.Draft) { d.Epoch = 2 })
	p.session(anew).push(anew, puts("words", urls(site, 1)...)...)
}

func TestRevocationThatCameFirstStopsTheGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	a := p.revoke(p.revocation(s.pair.Grant.Revoke(grants.DispositionStop)))
	if a.Refused != nil || len(a.Acknowledged) != 0 || a.Pending != 0 {
		t.Errorf("answered %v", a)
	}
	c := p.greeted()
	if f := c.announce(c.announcement(s)).Refusals; len(f) != 1 || f[0].Reason != string(grants.ErrRevoked) {
		t.Errorf("announced: %v", f)
	}
	s.pair = s.grant(2, nil)
	p.session(s).push(s, puts("words", urls(site, 1)...)...)
}

func TestRevocationIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(2)
	stranger := r.publisher("spiffe://stranger.example/publisher")
	other := r.publisher("spiffe://other.example/publisher", "https://other.example")
	whole := s.pair.Grant.Revoke(grants.DispositionDelete)
	in := func(b grants.RevocationBody, name envelope.Name) grants.RevocationBody {
		b.Publisher = name
		return b
	}
	sign := func(b grants.RevocationBody, stamp grants.Stamp, by *tester) []byte {
		return must[*grants.Revocation](t)(grants.SignRevocation(b, stamp, by.local.Envelope)).Object.Raw
	}
	stamp := grants.Stamp{Indexer: r.card.Identity, Epoch: 1, Sequence: 1, At: r.now()}
	elsewhere, ahead := stamp, stamp
	elsewhere.Indexer, ahead.At = "spiffe://elsewhere.example/indexer", r.now().Add(time.Hour)
	for _, tt := range []struct {
		name string
		raw  []byte
		want grants.Reason
	}{
		{"one by a publisher that is not trusted", sign(in(whole, stranger.local.Name()), stamp, stranger), grants.ErrUnknownPeer},
		{"one in the name of another", sign(whole, stamp, other), grants.ErrSignature},
		{"one in another's own name, of a grant that is not its", sign(in(whole, other.local.Name()), stamp, other), grants.ErrIssuer},
		{"one for another indexer", sign(whole, elsewhere, s.p), grants.ErrAudience},
		{"one that was signed in the future", sign(whole, ahead, s.p), grants.ErrNotYetValid},
		{"a grant", s.pair.Grant.Object.Raw, grants.ErrMalformed},
		{"nothing", nil, grants.ErrMalformed},
		{"octets", []byte("{}"), grants.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := must[*oiv1.Acknowledgements](t)(r.x.answerRevocation(t.Context(), &oiv1.SignedObject{Object: tt.raw}, ""))
			if a.Refused.GetReason() != string(tt.want) {
				t.Errorf("refused for %q (%s), want %q", a.Refused.GetReason(), a.Refused.GetDetail(), tt.want)
			}
			w := httptest.NewRecorder()
			r.x.Public().ServeHTTP(w, httptest.NewRequest("POST", "/revocation", bytes.NewReader(tt.raw)))
			var e publicError
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Reason != tt.want || w.Code < 400 || w.Code > 499 {
				t.Errorf("over HTTP: %d %s", w.Code, w.Body)
			}
		})
	}
	if err := r.readable(s, urls(site, 1)[0]); err != nil {
		t.Error(err)
	}
}

// TestAcknowledgementsLeadOnFromWhatWasSeen asks as one who saw the log before the
// revocation, as one who saw it later, and as one whose log it is not.
func TestAcknowledgementsLeadOnFromWhatWasSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(3)
	early := r.x.tlog.Released().Tree
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	s.p.settled(rev)
	late := r.x.tlog.Released().Tree
	if early.Size == 0 || late.Size < early.Size+2 {
		t.Fatalf("the log had %d entries, and has %d", early.Size, late.Size)
	}
	for _, seen := range []translog.Tree{early, late} {
		for _, one := range must[*oiv1.Acknowledgements](t)(r.x.wireAcknowledgements(rev.Object.ID, seen.Size)).Acknowledged {
			own := must[translog.Tree](t)(translog.OpenNote(one.Note, r.card.Log.VKey))
			var path [][32]byte
			for _, h := range one.Consistency {
				path = append(path, [32]byte(h))
			}
			a, b := own, seen
			if a.Size > b.Size {
				a, b = b, a
			}
			if err := translog.VerifyConsistency(a.Size, b.Size, path, a.Root, b.Root); err != nil {
				t.Errorf("from %d to %d: %v", a.Size, b.Size, err)
			}
		}
	}
	for _, seen := range []uint64{0, late.Size + 1, 1 << 63} {
		for _, one := range must[*oiv1.Acknowledgements](t)(r.x.wireAcknowledgements(rev.Object.ID, seen)).Acknowledged {
			if len(one.Consistency) != 0 {
				t.Errorf("a proof from a tree of %d entries", seen)
			}
		}
	}
}

func TestRevocationByPost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(2)
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	post := func(body []byte) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.x.Public().ServeHTTP(w, httptest.NewRequest("POST", "/revocation", bytes.NewReader(body)))
		return w
	}
	w := post(rev.Object.Raw)
	var a publicAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK || a.RevocationID != rev.Object.ID || len(a.Acknowledged) == 0 {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	var body translog.Acknowledgement
	if _, err := envelope.Open(a.Acknowledged[0], &body, envelope.Expecting(envelope.Acknowledgement, r.card, r.now())); err != nil {
		t.Errorf("acknowledgement: %v", err)
	}
	if w := post(make([]byte, envelope.MaxSize+1)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", w.Code)
	}
	code := 0
	for i := 0; i < 2*postsAtOnce && code != http.StatusTooManyRequests; i++ {
		code = post(nil).Code
	}
	if code != http.StatusTooManyRequests {
		t.Errorf("%d posts at once: %d", 2*postsAtOnce, code)
	}
}

func TestRevocationInTheSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(3)
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	// It comes between the pieces of a batch, and does not wait for them.
	b := s.parcel(puts("words", site+"new")...).pack()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: b.frame[:10]}}})
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Revocation{Revocation: &oiv1.SignedObject{Object: rev.Object.Raw}}})
	first := c.next().GetAcknowledgements()
	if first == nil || len(first.Acknowledged) == 0 {
		t.Fatalf("answered %v", first)
	}
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: b.frame[10:]}}})
	// What is left to come: the batch's refusal, and the deletion, unasked.
	var refused string
	var last *oiv1.Acknowledgements
	for {
		f, err := c.recv()
		if err != nil {
			break
		}
		if a := f.GetBatchResult(); a != nil {
			refused = a.Refused.GetReason()
		}
		if a := f.GetAcknowledgements(); a != nil {
			last = a
		}
	}
	if refused != string(grants.ErrRevoked) {
		t.Errorf("the batch is refused for %q", refused)
	}
	if last == nil || last.Pending != 0 {
		t.Fatalf("last told %v", last)
	}
	want := []string{"revoke-ack/stopped 3", "delete-ack/revoked 3"}
	if got := s.acked(rev, last, s.root()); !slices.Equal(got, want) {
		t.Errorf("acknowledged %q, want %q", got, want)
	}
}

func TestRevocationInPlaceOfAnAnnouncement(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, old := r.example().held(2)
	old.close()
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop))
	c := s.p.greeted()
	frame := &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Revocation{Revocation: &oiv1.SignedObject{Object: rev.Object.Raw}}}
	for range 2 {
		c.send(frame)
		if got := s.acked(rev, c.next().GetAcknowledgements(), s.root()); len(got) != 1 {
			t.Errorf("acknowledged %q", got)
		}
	}
	b := c.deliver(s.parcel(puts("words", site+"new")...).pack())
	if b.Refused.GetReason() != string(grants.ErrNoGrant) {
		t.Errorf("a batch in it: %v", b.Refused)
	}
}
