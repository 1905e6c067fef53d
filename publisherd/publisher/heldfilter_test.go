package publisher

import (
	"fmt"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestAFilterOfTheStateLacksNothingThatIsHeld(t *testing.T) {
	x := newFixture(t)
	a := agreement{x.p.store, x.rel}
	const held, more = 5000, heldFilterFrom
	page := func(i int) [32]byte { return urlHash(fmt.Sprint("https://example.com/doc/", i)) }
	var items []state.Item
	for i := range held {
		items = append(items, state.Item{URLHash: page(i), Digest: [32]byte{1}})
	}
	check(t, a.addState(items))
	f, err := newHeldFilter(a.store, a.tree(), more)
	check(t, err)
	for i := range held {
		if h := page(i); f.lacks(&h) {
			t.Fatalf("page %d is held, and not in the filter", i)
		}
	}
	wrong := 0
	for i := held; i < held+more; i++ {
		h := page(i)
		if !f.lacks(&h) {
			wrong++
		}
		f.add(&h)
		if f.lacks(&h) {
			t.Fatalf("page %d was added, and is not in the filter", i)
		}
	}
	if wrong > more/50 {
		t.Errorf("%d of %d pages that are not held look as if they were", wrong, more)
	}
	if f, err := newHeldFilter(a.store, a.tree(), more-1); f != nil || err != nil {
		t.Errorf("a filter of %d words for a push that looks at few pages: %v", len(f), err)
	}
	if h := page(0); heldFilter(nil).lacks(&h) {
		t.Error("no filter knows of a page")
	}
}

// What goes out of the state without a batch takes its base along: a page that the
// state does not have is taken for one without a base.
func TestNoBaseOutlivesItsPage(t *testing.T) {
	x := newFixture(t)
	x.write("a", prose(3000, 1))
	x.write("b", prose(3000, 2))
	_, err := x.push()
	check(t, err)
	a := agreement{x.p.store, x.rel}
	_, both, _ := basesOf(t, a)
	check(t, a.addState([]state.Item{{URLHash: urlHash(docs + "a.html"), Deleted: true}, {URLHash: urlHash(docs + "none.html"), Deleted: true}}))
	rows, octets, counted := basesOf(t, a)
	if rows != 1 || octets >= both || octets != counted {
		t.Errorf("%d bases of %d octets, counted as %d, after the state lost one of two pages with %d", rows, octets, counted, both)
	}
	check(t, a.clear())
	if rows, _, counted := basesOf(t, a); rows != 0 || counted != 0 {
		t.Errorf("%d bases, counted as %d octets, without a state", rows, counted)
	}
}

// The plan of a batch is used again for its receipt, and not if the state is another
// by then.
func TestAPlanIsUsedAgainOnTheSameStateAlone(t *testing.T) {
	x := newFixture(t)
	a := agreement{x.p.store, x.rel}
	p := pendingBatch{Items: []offered{{URL: docs + "a.html", Digest: envelope.Hash{1}, Op: translog.OpPut}}}
	var err error
	p.plan, err = a.plan(a.store, p.Items)
	check(t, err)
	again, err := a.planOf(a.store, p)
	check(t, err)
	if again != p.plan {
		t.Error("the plan is worked out twice")
	}
	check(t, a.addState([]state.Item{{URLHash: urlHash(docs + "b.html"), Digest: [32]byte{2}}}))
	anew, err := a.planOf(a.store, p)
	check(t, err)
	if anew == p.plan || anew.Root() == p.plan.Root() || anew.Count() != 2 {
		t.Errorf("a plan of %d pages, upon a state with one", anew.Count())
	}
}
