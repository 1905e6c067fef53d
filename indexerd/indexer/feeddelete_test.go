package indexer

import (
	"fmt"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestAFeedMissesNoPageThatADeletionLeaves reads the feed between any two steps of the
// deletion of some pages of a series. What stays is sealed anew meanwhile, and what it
// was sealed under destroyed: that is told of no page as its end, and no page is passed over.
func TestAFeedMissesNoPageThatADeletionLeaves(t *testing.T) {
	t.Parallel()
	step, on := make(chan struct{}), make(chan struct{})
	r := newLargeRig(t, func(r *rig) {
		r.before = func() error {
			step <- struct{}{}
			<-on
			return nil
		}
	})
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	kept := append(urls(site+"new/", 5), site+"new/large")
	c.push(s, append(puts("words", urls(site+"old/", 20)...), puts("words", kept[:5]...)...)...)
	c.pushAlone(s, largePage(kept[5], 20<<10, 1))
	c.pushAlone(s, largePage(site+"old/large", 20<<10, 2))

	all := r.keeper("spiffe://search.example/all", grants.SearchIndex, false)
	all.read(-1)
	if len(all.pages) != 27 {
		t.Fatalf("%d pages are told before", len(all.pages))
	}
	rev := p.revocation(s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), grants.DispositionDelete))
	p.revoke(rev)
	look := func(when string) {
		// One comes anew, one stands at the head, one was cut off and goes on.
		late := r.keeper("spiffe://search.example/late", grants.SearchIndex, false)
		late.read(3)
		for _, k := range []*keeper{late, all} {
			k.read(-1)
			for _, u := range kept {
				if _, ok := k.pages[keptPage{p.local.Name(), s.name, urlHash(u)}]; !ok {
					t.Errorf("%s: %s misses %s", when, k.l.name, u)
				}
			}
			if len(k.pages) != len(kept) {
				t.Errorf("%s: %s has %d pages, want %d", when, k.l.name, len(k.pages), len(kept))
			}
		}
	}
	// Nobody asks after it meanwhile: each question would show the readers what there is.
	pending := func() bool {
		_, left, err := r.x.acknowledgements(rev.Object.ID)
		return err != nil || left > 0
	}
	n := 0
	for pending() {
		select {
		case <-step:
			n++
			look(fmt.Sprintf("before step %d", n))
			on <- struct{}{}
		case <-time.After(10 * time.Millisecond):
		}
	}
	look("behind it")
	if n < 8 {
		t.Errorf("it had %d steps", n)
	}
}
