package indexer

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestRetentionAfterARevocation has pages go at the end of their time though
// consent was withdrawn, and be acknowledged then.
func TestRetentionAfterARevocation(t *testing.T) {
	t.Parallel()
	old := must[grants.Scope](t)(grants.PrefixScope(site + "old/"))
	for _, whole := range []bool{true, false} {
		r := newRig(t)
		p := r.example()
		s := p.series("docs-1", site, twoDays)
		c := p.session(s)
		c.push(s, append(puts("words", urls(site+"old/", 3)...), puts("words", urls(site+"new/", 2)...)...)...)
		body, stopped := s.pair.Grant.Revoke(grants.DispositionRetention), uint64(5)
		if !whole {
			body, stopped = s.pair.Grant.RevokeScope(old, grants.DispositionRetention), 3
		}
		stood := s.root()
		rev := p.revocation(body)
		if got, want := s.acked(rev, p.revoke(rev), stood), []string{fmt.Sprintf("revoke-ack/stopped %d", stopped)}; !slices.Equal(got, want) {
			t.Errorf("whole %t: acknowledged %q, want %q", whole, got, want)
		}
		if err := r.readable(s, site+"old/page-0001"); !errors.Is(err, grants.ErrRevoked) {
			t.Errorf("whole %t: a page is read: %v", whole, err)
		}
		r.retained()
		if rec, _, _ := r.stateOf(s); rec.Pages != 5 || rec.Deletions != 0 {
			t.Errorf("whole %t: %d pages, %d deletions", whole, rec.Pages, rec.Deletions)
		}
		r.close() // it waits, also over a restart
		r.open()
		r.forward(48 * time.Hour)
		r.retained()
		r.retained()
		a := p.settled(rev)
		if got, want := s.acked(rev, a, stood), []string{fmt.Sprintf("revoke-ack/stopped %d", stopped), fmt.Sprintf("delete-ack/revoked %d", stopped)}; !slices.Equal(got, want) {
			t.Errorf("whole %t: acknowledged %q, want %q", whole, got, want)
		}
		for _, u := range urls(site+"old/", 3) {
			delete(s.pages, u)
		}
		if whole {
			clear(s.pages)
		}
		if rec, _, _ := r.stateOf(s); rec.Pages != 0 || rec.Deletions != 0 || rec.State != s.root() {
			t.Errorf("whole %t: %d pages, %d deletions, state %s, want %s", whole, rec.Pages, rec.Deletions, rec.State, s.root())
		}
		r.sound("after the deletion")
	}
}

func TestANewGrantEndsTheWaitingOfADeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().keptTwoDays(3)
	c.close()
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionRetention))
	s.p.revoke(rev)
	s.pair = s.grant(2, twoDays)
	c = s.p.session(s)
	r.forward(24 * time.Hour)
	if answer := c.rebind(s); answer.Committed == nil {
		t.Fatalf("refused %v", answer.Refused)
	}
	r.forward(25 * time.Hour)
	r.retained()
	if err := r.readable(s, urls(site, 1)[0]); err != nil {
		t.Errorf("taken over by a new grant: %v", err)
	}
	r.forward(24 * time.Hour)
	r.retained()
	if a := s.p.revoke(rev); len(a.Acknowledged) != 1 || a.Pending != 0 {
		t.Errorf("acknowledged %v", a)
	}
	r.sound("at the end")
}
