package indexer

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// rebound evaluates the answer to a rebind as a publisher does.
func (s *series) rebound(a *oiv1.BatchResult, left uint64) {
	t, r := s.p.r.t, s.p.r
	t.Helper()
	if a.GetCommitted() == nil {
		t.Fatalf("the rebind is refused: %v", a.GetRefused())
	}
	g, c := s.pair.Grant, a.Committed
	answer := evaluate.Answer{Receipt: c.Receipt, Entries: c.Entries, Checkpoint: c.Checkpoint, Note: c.Note}
	for _, p := range c.Inclusion {
		var path [][32]byte
		for _, h := range p.Hashes {
			path = append(path, [32]byte(h))
		}
		answer.Inclusion = append(answer.Inclusion, path)
	}
	_, err := evaluate.Rebind(answer, evaluate.ExpectedRebind{
		Agreed: evaluate.Agreed{
			Publisher: s.p.local.Name(), Indexer: r.card.Identity, Keys: r.card, LogVKey: r.card.Log.VKey, LogOrigin: r.card.Log.Origin,
			GrantID: g.Object.ID, PolicyHash: g.Body.PolicyHash, ScopeHash: g.ScopeHash, GrantExpiresAt: g.Object.ExpiresAt,
			Purposes: g.Body.Purposes.Strings(), CollectionRef: s.key.CollectionRef("docs"), Subject: s.subject(),
		},
		JournalEpoch: s.epoch, Cursor: s.revision, Left: left, Pages: uint64(len(s.pages)),
		StateCommitment: s.key.StateCommitment(s.epoch, s.revision, s.root()), Asked: r.now(), Sent: r.now(), Now: r.now(),
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRebindTakesTheStateOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(4)
	first := s.pair
	c.close()
	s.pair = s.grant(2, nil)
	c = s.p.greeted()
	held := c.announce(c.announcement(s)).Collections
	if id := first.Grant.Object.ID; len(held) != 1 || envelope.Hash(held[0].BoundGrant) != id {
		t.Errorf("the state is held under %x, want %s", held[0].BoundGrant, id)
	}
	// Until then the older grant admits batches, and the newer one none.
	newer := s.pair
	if a := c.deliver(s.parcel(puts("words", site+"x")...).pack()); a.Refused.GetReason() != string(grants.ErrState) {
		t.Errorf("a batch under the newer grant: %v", a.Refused)
	}
	s.pair = first
	c.push(s, puts("words", site+"under-the-older")...)
	s.pair = newer
	a := c.rebind(s)
	s.rebound(a, 0)
	s.pair = first
	if a := c.deliver(s.parcel(puts("words", site+"x")...).pack()); a.Refused.GetReason() != string(grants.ErrSuperseded) {
		t.Errorf("a batch under the older grant behind it: %v", a.Refused)
	}
	s.pair = newer
	again := c.rebind(s)
	if !proto.Equal(a.Committed, again.Committed) {
		t.Error("the second answer is another one")
	}
	c.push(s, puts("words", site+"under-the-newer")...)
	if again := c.rebind(s); !proto.Equal(a.Committed, again.Committed) {
		t.Error("the answer behind a batch is another one")
	}
	want := []string{"include/accepted 4", "include/accepted 1", "update/rebound 5", "include/accepted 1"}
	if got := words(r.log()); !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

func TestRebindNarrowsTheState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	c.push(s, append(puts("words", urls(site+"in/", 2)...), puts("words", urls(site+"out/", 3)...)...)...)
	c.close()
	s.pair = s.grant(2, func(d *grants.Draft) { d.Scope = must[grants.Scope](t)(grants.PrefixScope(site + "in/")) })
	c = p.session(s)
	// The newer grant narrows every exit before anything is taken over.
	if err := r.readable(s, site+"out/page-0001"); !errors.Is(err, grants.ErrScope) {
		t.Errorf("a page outside: %v", err)
	}
	a := c.rebind(s)
	for _, u := range urls(site+"out/", 3) {
		delete(s.pages, u)
	}
	s.rebound(a, 3)
	rec, _, _ := r.stateOf(s)
	if rec.Pages != 2 || rec.State != s.root() {
		t.Errorf("%d pages, state %s", rec.Pages, rec.State)
	}
	if err := r.readable(s, site+"in/page-0001"); err != nil {
		t.Error(err)
	}
	c.push(s, puts("words", site+"in/new")...)
}

func TestRebindIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		before func(*series)
		change func(*oiv1.Rebind)
		want   grants.Reason
	}{
		{"at another state", nil, func(f *oiv1.Rebind) { f.StateRoot[0]++ }, grants.ErrState},
		{"at another revision", nil, func(f *oiv1.Rebind) { f.Revision++ }, grants.ErrState},
		{"in another journal epoch", nil, func(f *oiv1.Rebind) { f.JournalEpoch++ }, grants.ErrState},
		{"to a grant that was not announced", nil, func(f *oiv1.Rebind) { f.GrantId[0]++ }, grants.ErrNoGrant},
		{"of a series that was not announced", nil, func(f *oiv1.Rebind) { f.Series = "blog-1" }, grants.ErrNoGrant},
		{"with half a root", nil, func(f *oiv1.Rebind) { f.StateRoot = f.StateRoot[:16] }, grants.ErrMalformed},
		{"after everything was deleted", func(s *series) {
			s.p.settled(s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete)))
		}, func(*oiv1.Rebind) {}, grants.ErrRevoked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			s, c := r.example().held(2)
			if tt.before != nil {
				tt.before(s)
			}
			c.close()
			s.pair = s.grant(2, nil)
			c = s.p.session(s)
			before, size, rows := r.stateOf(s)
			id, root := s.pair.Grant.Object.ID, s.root()
			f := &oiv1.Rebind{Series: s.name, GrantId: id[:], JournalEpoch: s.epoch, Revision: s.revision, StateRoot: root[:]}
			tt.change(f)
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Rebind{Rebind: f}})
			if a := c.next().GetBatchResult(); a.GetRefused().GetReason() != string(tt.want) {
				t.Errorf("refused for %q (%s), want %q", a.GetRefused().GetReason(), a.GetRefused().GetDetail(), tt.want)
			}
			if after, n, m := r.stateOf(s); after.State != before.State || after.Bound != before.Bound || n != size || m != rows {
				t.Error("the refused rebind left traces")
			}
		})
	}
}

func TestStoppedStateMayBeTakenOverByALaterGrant(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(2)
	s.p.revoke(s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop)))
	s.pair = s.grant(2, nil)
	c := s.p.session(s)
	page := urls(site, 1)[0]
	if err := r.readable(s, page); !errors.Is(err, grants.ErrRevoked) {
		t.Errorf("before the rebind: %v", err)
	}
	s.rebound(c.rebind(s), 0)
	if err := r.readable(s, page); err != nil {
		t.Errorf("behind it: %v", err)
	}
}

func TestSeriesBeginsAnewBehindItsDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(2)
	s.p.settled(s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete)))
	s.pair, s.pages = s.grant(2, nil), make(map[string]page)
	c := s.p.session(s)
	c.push(s, puts("new words", urls(site, 3)...)...)
	if err := r.readable(s, urls(site, 3)[2]); err != nil {
		t.Error(err)
	}
	got := words(r.log())
	want := []string{"include/accepted 2", "revoke-ack/stopped 2", "delete-ack/revoked 2", "include/accepted 3"}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
	if last := r.log()[3]; last.Decision != translog.Include || last.GrantID != s.pair.Grant.Object.ID {
		t.Errorf("the last entry is under grant %s", last.GrantID)
	}
}
