package indexer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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

// A course is a publisher's random course, with what follows of it: the model knows
// grants, pages and times, and nothing of the indexer.
type course struct {
	r     *rig
	p     *tester
	s     *series
	bound grants.Pair // under which the pages are held, as far as there are any
	taken map[string]int64
	since int64 // of the last rebind
	revs  []*grants.Revocation
	ended bool // revoked whole: nothing more is done
	drawn *rapid.T
	seq   uint64
}

var courseURLs = append(urls(site+"a/", 3), urls(site+"b/", 3)...)

func (c *course) draft(d *grants.Draft) {
	all := grants.Purposes{grants.Archive, grants.RAGRetrieve, grants.SearchIndex}
	d.Purposes = nil
	for _, p := range all {
		if rapid.Bool().Draw(c.drawn, "granted") {
			d.Purposes = append(d.Purposes, p)
		}
	}
	if len(d.Purposes) == 0 {
		d.Purposes = grants.Purposes{grants.SearchIndex}
	}
	d.Lifetime = time.Duration(rapid.IntRange(1, 72).Draw(c.drawn, "hours")) * time.Hour
	d.Constraints.RetentionDays = rapid.Uint64Range(1, 3).Draw(c.drawn, "days")
	if rapid.Bool().Draw(c.drawn, "redistribution") {
		d.Terms.Redistribution = grants.Allowed
	}
	if c.seq > 1 && rapid.IntRange(0, 3).Draw(c.drawn, "narrow") == 0 {
		d.Scope = must[grants.Scope](c.r.t)(grants.PrefixScope(site + "a/"))
	}
}

// fresh reports whether nothing keeps the newest grant from being announced.
func (c *course) fresh() bool {
	return !c.ended && c.s.pair.Fresh(c.r.now()) == nil && len(c.reaching(c.s.pair.Grant)) == 0
}

func (c *course) reaching(g *grants.Grant) (all []*grants.Revocation) {
	for _, rev := range c.revs {
		if rev.ReachesWhole(g) {
			all = append(all, rev)
		}
	}
	return all
}

// allowed is the model's word on a page.
func (c *course) allowed(url string, l listener) bool {
	at, ok := c.taken[url]
	if !ok {
		return false
	}
	days := uint64(1 << 20)
	for _, p := range []grants.Pair{c.bound, c.s.pair} {
		if p.Check(url, c.r.now()) != nil || p.Permits(l.purpose, c.r.now()) != nil || l.thirdParty && p.Policy.Body.Redistribution != grants.Allowed {
			return false
		}
		for _, rev := range c.revs {
			if rev.ReachesPage(p.Grant, url) {
				return false
			}
		}
		days = min(days, p.Retention().CachedCopyDays)
	}
	return c.r.now().Unix() < max(at, c.since)+int64(days)*secondsPerDay
}

// push offers some pages, and takes others back.
func (c *course) push() {
	if !c.fresh() || c.bound.Grant != nil && c.bound.Grant.Object.ID != c.s.pair.Grant.Object.ID {
		return
	}
	var all []change
	for _, u := range courseURLs {
		gone := len(c.s.pages) > 0 && rapid.IntRange(0, 3).Draw(c.drawn, "delete") == 0
		switch _, there := c.s.pages[u]; {
		case gone && there:
			all = append(all, change{url: u})
			delete(c.taken, u)
		case !gone && c.s.pair.Grant.Body.Scope.Match(u) == nil && !c.revoked(u) && rapid.Bool().Draw(c.drawn, "put"):
			all = append(all, change{url: u, text: fmt.Sprint("words ", rand.Int())})
			c.taken[u] = c.r.now().Unix()
		}
	}
	if len(all) == 0 {
		return
	}
	client := c.p.session(c.s)
	client.push(c.s, all...)
	client.close()
	c.bound = c.s.pair
}

func (c *course) revoked(url string) bool {
	return slices.ContainsFunc(c.revs, func(rev *grants.Revocation) bool { return rev.ReachesPage(c.s.pair.Grant, url) })
}

// renew issues another grant, and may have it take the pages over.
func (c *course) renew() {
	if c.ended {
		return
	}
	c.seq++
	c.s.pair = c.s.grant(c.seq, c.draft)
	client := c.p.session(c.s)
	defer client.close()
	if c.bound.Grant == nil {
		c.bound = grants.Pair{}
		return
	}
	if rapid.Bool().Draw(c.drawn, "rebind") {
		c.rebind(client)
	}
}

// rebind has the newest grant take the pages over.
func (c *course) rebind(client *client) {
	if a := client.rebind(c.s); a.Refused != nil {
		c.r.t.Fatalf("the rebind is refused: %v", a.Refused)
	}
	for u := range c.s.pages {
		if c.s.pair.Grant.Body.Scope.Match(u) != nil {
			delete(c.s.pages, u)
			delete(c.taken, u)
		}
	}
	c.bound, c.since = c.s.pair, c.r.now().Unix()
}

// revoke withdraws all of it, or a part.
func (c *course) revoke() {
	if c.ended || c.bound.Grant == nil || c.bound.Grant.Object.ID != c.s.pair.Grant.Object.ID {
		return
	}
	d := rapid.SampledFrom([]grants.Disposition{grants.DispositionStop, grants.DispositionDelete}).Draw(c.drawn, "disposition")
	body := c.s.pair.Grant.Revoke(d)
	whole := rapid.Bool().Draw(c.drawn, "whole")
	if !whole {
		body = c.s.pair.Grant.RevokeScope(must[grants.Scope](c.r.t)(grants.PrefixScope(site+"b/")), d)
	}
	rev := c.p.revocation(body)
	c.p.settled(rev)
	c.revs, c.ended = append(c.revs, rev), whole
	if !whole && d == grants.DispositionDelete {
		for u := range c.s.pages {
			if rev.ReachesPage(c.s.pair.Grant, u) {
				delete(c.s.pages, u)
				delete(c.taken, u)
			}
		}
	}
}

// matches compares what a keeper has of the course's publisher with the model.
func (c *course) matches(k *keeper) error {
	want := make(map[keptPage]envelope.Hash)
	for u := range c.taken {
		if c.allowed(u, k.l) {
			want[keptPage{c.p.local.Name(), c.s.name, urlHash(u)}] = c.s.pages[u].digest
		}
	}
	got := maps.Clone(k.pages)
	maps.DeleteFunc(got, func(p keptPage, _ envelope.Hash) bool { return p.publisher != c.p.local.Name() })
	if !maps.Equal(got, want) {
		return fmt.Errorf("%s for %s has %d pages, the model %d: %v, %v", k.l.name, k.l.purpose, len(got), len(want), got, want)
	}
	return nil
}

// TestAFeedTellsWhatItsPurposeAllows plays random courses of grants, renewals,
// narrowed scopes, pages, deletions, revocations and time to consumers that read now
// and then, and are cut off anywhere.
func TestAFeedTellsWhatItsPurposeAllows(t *testing.T) {
	var r *rig
	n := 0
	rapid.Check(t, func(drawn *rapid.T) {
		if n++; n%10 == 1 { // certificates do not last for all of them
			r = newRig(t)
		}
		p := r.publisherFor(n)
		c := &course{r: r, p: p, taken: make(map[string]int64), drawn: drawn, seq: 1}
		c.s = p.series("docs-1", site, c.draft)
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
			switch rapid.IntRange(0, 5).Draw(drawn, "step") {
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
