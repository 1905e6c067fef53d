package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A keeper is a listener with what it keeps: what the feed told it, and no more.
type keeper struct {
	r      *rig
	l      listener
	cursor []byte
	pages  map[keptPage]envelope.Hash // digests
	// check is called with each put, at the moment at which it is told.
	check func(it *FeedItem)
}

type keptPage struct {
	publisher envelope.Name
	series    string
	url       envelope.Hash
}

func (r *rig) keeper(name envelope.Name, purpose grants.Purpose, thirdParty bool) *keeper {
	return &keeper{r: r, l: listener{name: name, purpose: purpose, thirdParty: thirdParty}, pages: make(map[keptPage]envelope.Hash)}
}

// apply is all that a consumer has to do.
func (k *keeper) apply(it *FeedItem) {
	key := keptPage{it.Publisher, it.Series, it.URLHash}
	switch it.Op {
	case FeedPut:
		if k.check != nil {
			k.check(it)
		}
		k.pages[key] = it.Page.Digest
	case FeedDelete:
		delete(k.pages, key)
	case FeedStop:
		maps.DeleteFunc(k.pages, func(p keptPage, _ envelope.Hash) bool { return p.publisher == it.Publisher && p.series == it.Series })
	case FeedReset:
		clear(k.pages)
	}
	if it.Cursor != nil {
		k.cursor = slices.Clone(it.Cursor)
	}
}

// read reads up to the head, or is cut off behind some items: what it was told last
// it then forgets, with the cursor, every other time.
func (k *keeper) read(limit int) {
	k.r.t.Helper()
	n := 0
	s := k.r.x.subscription(context.Background(), k.l, func(it *FeedItem) error {
		if n++; limit >= 0 && n > limit {
			return errStopped
		}
		k.apply(it)
		return nil
	})
	if err := k.r.x.feed.join(s); err != nil {
		k.r.t.Fatal(err)
	}
	err := s.run(k.cursor, false)
	k.r.x.feed.leave(s)
	if errors.Is(err, grants.ErrCursor) {
		k.cursor = nil
		k.read(limit)
		return
	}
	if err != nil && !errors.Is(err, errStopped) {
		k.r.t.Fatal(err)
	}
}

// TestAFeedTellsWhatItsPurposeAllows plays random courses of grants for prefixes, for the
// pages of signed feeds and for listed content, renewals, narrowed scopes, pages, deletions, revocations of every
// disposition and time, which may be set back, to consumers that read now and then, and
// are cut off anywhere. What exports of every format and the gateway let out is held against
// the model as well.
func TestAFeedTellsWhatItsPurposeAllows(t *testing.T) {
	var r *rig
	n := 0
	rapid.Check(t, func(drawn *rapid.T) {
		if n++; n%10 == 1 { // certificates do not last for all of them
			r = newRig(t)
		}
		p := r.publisherFor(n)
		c := r.course(p, drawn)
		keepers := []*keeper{
			r.keeper(envelope.Name(fmt.Sprintf("spiffe://search.example/a%d", n)), grants.SearchIndex, false),
			r.keeper(envelope.Name(fmt.Sprintf("spiffe://search.example/b%d", n)), grants.RAGRetrieve, false),
			r.keeper(envelope.Name(fmt.Sprintf("spiffe://other.example/c%d", n)), grants.SearchIndex, true),
		}
		for _, k := range keepers {
			k.check = func(it *FeedItem) {
				if it.Publisher == p.local.Name() && !c.allowed(it.Page.URL, k.l) {
					t.Errorf("%s is told %s for %s", k.l.name, it.Page.URL, k.l.purpose)
				}
			}
		}
		c.push()
		for range rapid.IntRange(2, 8).Draw(drawn, "steps") {
			switch rapid.IntRange(0, 6).Draw(drawn, "step") {
			case 0, 1:
				c.push()
			case 2:
				c.renew()
			case 3:
				c.revoke()
			case 4:
				r.forward(time.Duration(rapid.IntRange(1, 40).Draw(drawn, "forward")) * time.Hour)
			case 5:
				r.x.tend(t.Context())
			case 6:
				c.setBack(keepers)
			}
			k := rapid.SampledFrom(keepers).Draw(drawn, "reader")
			k.read(rapid.IntRange(-1, 12).Draw(drawn, "items"))
			if rapid.IntRange(0, 15).Draw(drawn, "leave") == 0 {
				if err := c.leaves(); err != nil {
					drawn.Fatal(err)
				}
			}
		}
		r.retained()
		if n%4 == 0 { // exports make much durable
			if err := c.leaves(); err != nil {
				drawn.Fatal(err)
			}
		}
		for _, k := range keepers {
			k.read(-1)
			if err := c.matches(k); err != nil {
				drawn.Fatal(err)
			}
		}
	})
}

// publisherFor is a publisher of its own, for the same pages: the one before has no
// origin any more.
func (r *rig) publisherFor(n int) *tester {
	r.t.Helper()
	if n%10 != 1 {
		old := envelope.Name(fmt.Sprintf("spiffe://example.com/publisher-%d", n-1))
		if held, ok := r.x.trust.Lookup(old); ok {
			must[*identity.Peer](r.t)(r.x.trust.Add(held.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{}, Now: r.now()}))
		}
	}
	return r.publisher(envelope.Name(fmt.Sprintf("spiffe://example.com/publisher-%d", n)), "https://example.com")
}
