package indexer

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestTwoSeriesWithOneLeafKeyAreRefused: in the log they would be one collection
// whose cursor leaps, as if the indexer had lied.
func TestTwoSeriesWithOneLeafKeyAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	first, second := p.series("docs-1", site, nil), p.series("blogs-1", blogs, nil)
	second.key = first.key
	second.pair = second.grant(1, nil)
	c := p.greeted()
	if f := c.announce(c.announcement(first, second)).Refusals; len(f) != 1 || f[0].Reason != string(grants.ErrMalformed) {
		t.Errorf("announced together: %v", f)
	}
	c.close()
	p.session(first).close()
	c = p.greeted()
	if f := c.announce(c.announcement(second)).Refusals; len(f) != 1 || f[0].Reason != string(grants.ErrMalformed) {
		t.Errorf("announced after the first: %v", f)
	}
}
