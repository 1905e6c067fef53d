package indexer

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestARevokedGrantIsOfNoMoreUse shows it again and again once it is revoked:
// in the session that was open, in a new one, and when the indexer was
// restarted in between. It is refused each time by the same reason, and no row
// of the store changes. (Connections are never resumed: TestNothingIsResumed.)
func TestARevokedGrantIsOfNoMoreUse(t *testing.T) {
	t.Parallel()
	r := quietRig(t)
	p := r.example()
	s, other := p.series("docs-1", site, nil), p.series("blog-1", blogs, nil)
	c := p.session(s, other) // which the other series keeps open
	c.push(s, puts("words", urls(site, 2)...)...)
	p.settled(p.revocation(s.pair.Grant.Revoke(grants.DispositionStop)))
	c.deaf = true
	before := r.everything()

	if got := c.deliver(s.parcel(puts("more words", site+"new")...).pack()).Refused.GetReason(); got != string(grants.ErrRevoked) {
		t.Errorf("in the same session: refused for %q", got)
	}
	r.unchanged(before)
	if got := s.reasonFor(s.pair.Grant.Object.Raw); got != grants.ErrRevoked {
		t.Errorf("in a new session: refused for %q", string(got))
	}
	r.unchanged(before)
	r.close()
	r.open()
	before = r.everything() // a start may note its time
	if got := s.reasonFor(s.pair.Grant.Object.Raw); got != grants.ErrRevoked {
		t.Errorf("after a restart: refused for %q", string(got))
	}
	if r.readable(s, urls(site, 1)[0]) == nil {
		t.Error("after a restart the page is read")
	}
	r.unchanged(before)
}

// TestAStrangersRevocationChangesNothing brings revocations of a grant by those
// who do not own it, each under its own identity and over its own connection.
func TestAStrangersRevocationChangesNothing(t *testing.T) {
	t.Parallel()
	r := quietRig(t)
	s, _ := r.example().held(2)
	other := r.publisher("spiffe://example.net/publisher", "https://example.net")
	before := r.everything()
	whole := s.pair.Grant.Revoke(grants.DispositionDelete)
	inItsName := other.revocation(whole)
	whole.Publisher = other.local.Name()
	inTheirOwn := other.revocation(whole)
	for _, tt := range []struct {
		name string
		rev  *grants.Revocation
		want grants.Reason
	}{
		{"in the owner's name, by another's key", inItsName, grants.ErrSignature},
		{"of the owner's grant, in another's name", inTheirOwn, grants.ErrIssuer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := other.revoke(tt.rev)
			if got := a.Refused.GetReason(); got != string(tt.want) || len(a.Acknowledged) > 0 {
				t.Errorf("refused for %q, with %d acknowledgements", got, len(a.Acknowledged))
			}
			r.unchanged(before)
			for _, u := range urls(site, 2) {
				if err := r.readable(s, u); err != nil {
					t.Errorf("%s: %v", u, err)
				}
			}
		})
	}
}
