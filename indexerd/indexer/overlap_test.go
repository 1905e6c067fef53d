package indexer

import (
	"errors"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestRevocationsOfOneSeriesEachEnd has a whole revocation come while the pages
// of a partial one are being deleted.
func TestRevocationsOfOneSeriesEachEnd(t *testing.T) {
	t.Parallel()
	for n := range int64(6) {
		r := newRigWith(t, stopBehind(n))
		p := r.example()
		s := p.series("docs-1", site, nil)
		p.session(s).push(s, append(puts("words", urls(site+"old/", 3)...), puts("words", urls(site+"new/", 2)...)...)...)
		stood := s.root()
		part := p.revocation(s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), grants.DispositionDelete))
		p.revoke(part)
		r.x.tend(t.Context())
		if n >= 5 {
			continue // it has ended already
		}
		whole := p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
		if a := p.revoke(whole); a.Pending != 1 {
			t.Errorf("stopped behind step %d: %d pending", n, a.Pending)
		}
		r.goOn()
		first, second := s.acked(part, p.settled(part), stood), s.acked(whole, p.settled(whole), stood)
		if len(first) != 2 || len(second) != 2 {
			t.Errorf("stopped behind step %d: acknowledged %q and %q", n, first, second)
		}
		rec, _, _ := r.stateOf(s)
		if rec.Pages != 0 || rec.PayloadBytes != 0 || rec.Deletions != 0 || !rec.State.IsZero() {
			t.Errorf("stopped behind step %d: left %d pages, %d octets, %d deletions, state %s", n, rec.Pages, rec.PayloadBytes, rec.Deletions, rec.State)
		}
		if _, err := r.x.keys.aead(p.local.Name(), s.name, 0, false); !errors.Is(err, ErrNoDataKey) {
			t.Errorf("stopped behind step %d: the first data key: %v", n, err)
		}
	}
}

// TestRevokedOlderGrantClosesWhatItStillHolds revokes the grant that the state
// is held under, and not the renewal that has not taken it over.
func TestRevokedOlderGrantClosesWhatItStillHolds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	c.close()
	older, newer := s.pair, s.grant(2, nil)
	s.pair = newer
	c = s.p.session(s)
	rev := s.p.revocation(older.Grant.Revoke(grants.DispositionStop))
	s.pair = older
	if got, want := s.acked(rev, s.p.revoke(rev), s.root()), []string{"revoke-ack/stopped 2"}; !slices.Equal(got, want) {
		t.Errorf("acknowledged %q, want %q", got, want)
	}
	page := urls(site, 1)[0]
	if err := r.readable(s, page); !errors.Is(err, grants.ErrRevoked) {
		t.Errorf("the page is read: %v", err)
	}
	if a := c.deliver(s.parcel(puts("words", site+"x")...).pack()); a.Refused.GetReason() != string(grants.ErrRevoked) {
		t.Errorf("a batch under the older grant: %v", a.Refused)
	}
	s.pair = newer
	s.rebound(c.rebind(s), 0) // the session goes on: its own grant stands
	if err := r.readable(s, page); err != nil {
		t.Error(err)
	}
}
