package indexer

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

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
	ended bool  // nothing more is done by the publisher
	lists bool  // grants name content by its digest
	feeds bool  // grants name the pages of a signed feed
	top   int64 // what the clock had shown before it was set back; 0: it was not
	drawn *rapid.T
	seq   uint64
	fed   uint64 // feeds that were signed
}

var courseURLs = append(urls(site+"a/", 3), urls(site+"b/", 3)...)

// course begins one, under grants of one kind.
func (r *rig) course(p *tester, drawn *rapid.T) *course {
	kind := rapid.IntRange(0, 3).Draw(drawn, "scope")
	c := &course{r: r, p: p, taken: make(map[string]int64), drawn: drawn, seq: 1, lists: kind == 0, feeds: kind == 1}
	c.s = p.series("docs-1", site, c.draft)
	return c
}

// now is the time by which the model decides: a clock that is set back gives nothing
// back.
func (c *course) now() time.Time { return time.Unix(max(c.r.clock.Load(), c.top), 0).UTC() }

// textOf is one of the texts that a page may have where grants name content.
func textOf(n int) string { return fmt.Sprintf("words %d", n) }

func digestOf(url, text string) envelope.Hash { return sha256.Sum256(payloadOf(url, text)) }

// list draws a scope of some of the texts of all pages.
func (c *course) list(prefix string) grants.Scope {
	digests := []envelope.Hash{digestOf(courseURLs[0], textOf(0))}
	for _, u := range courseURLs {
		for n := range 2 {
			if rapid.IntRange(0, 2).Draw(c.drawn, "listed") > 0 {
				digests = append(digests, digestOf(u, textOf(n)))
			}
		}
	}
	return must[grants.Scope](c.r.t)(grants.HashScope(Ascending(digests), prefix))
}

// names reports whether a grant names a page with its content.
func names(p grants.Pair, url string, digest envelope.Hash) bool {
	scope := p.Grant.Body.Scope
	return scope.Match(url) == nil && (scope.Type != grants.HashSet || slices.Contains(scope.Digests, digest))
}

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
	prefix := site
	if c.seq > 1 && rapid.IntRange(0, 3).Draw(c.drawn, "narrow") == 0 {
		prefix = site + "a/"
	}
	switch {
	case c.lists:
		d.Scope = c.list(prefix)
	case c.feeds:
		d.Scope = must[grants.Scope](c.r.t)(grants.FeedScope(prefix))
	default:
		d.Scope = must[grants.Scope](c.r.t)(grants.PrefixScope(prefix))
	}
}

// session announces the newest grant; with a feed, if it needs one, that is newer than
// the one before, and lists what is held, what is to come, and some more.
func (c *course) session(coming ...change) (*client, *grants.List) {
	if !c.feeds {
		return c.p.session(c.s), nil
	}
	listed := map[string]bool{site + "always": true}
	for u := range c.s.pages {
		listed[u] = true
	}
	for _, u := range courseURLs {
		if rapid.Bool().Draw(c.drawn, "in the feed") {
			listed[u] = true
		}
	}
	for _, ch := range coming {
		listed[ch.url] = true
	}
	c.fed++
	l := listOf(slices.Collect(maps.Keys(listed))...)
	return c.p.feedSession(c.s, c.s.feed(l, c.fed)), l
}

// fresh reports whether nothing keeps the newest grant from being announced.
func (c *course) fresh() bool {
	return !c.ended && c.s.pair.Fresh(c.now()) == nil && len(c.reaching(c.s.pair.Grant)) == 0
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
	for _, p := range []grants.Pair{c.bound, c.s.pair} {
		if p.Fresh(c.now()) != nil || !names(p, url, c.s.pages[url].digest) || p.Permits(l.purpose, c.now()) != nil || l.thirdParty && p.Policy.Body.Redistribution != grants.Allowed {
			return false
		}
		for _, rev := range c.revs {
			if rev.ReachesPage(p.Grant, url) {
				return false
			}
		}
	}
	return !c.overdue(at)
}

// overdue reports whether a page's time is over that was taken at a time.
func (c *course) overdue(at int64) bool {
	days := min(c.bound.Retention().CachedCopyDays, c.s.pair.Retention().CachedCopyDays)
	return c.now().Unix() >= max(at, c.since)+int64(days)*secondsPerDay
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
		case !gone && !c.revoked(u) && rapid.Bool().Draw(c.drawn, "put"):
			text := fmt.Sprint("words ", rand.Int())
			if c.lists {
				text = textOf(rapid.IntRange(0, 1).Draw(c.drawn, "text"))
			}
			if names(c.s.pair, u, digestOf(u, text)) {
				all = append(all, change{url: u, text: text})
				c.taken[u] = c.now().Unix()
			}
		}
	}
	if len(all) == 0 {
		return
	}
	client, listed := c.session(all...)
	if listed == nil {
		client.push(c.s, all...)
	} else {
		client.taken(c.s.parcel(all...).pathed(listed, byURL))
	}
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
	if c.bound.Grant != nil {
		c.settle() // by the grant that is replaced, which may have cut the time short
	}
	c.seq++
	c.s.pair = c.s.grant(c.seq, c.draft)
	client, _ := c.session()
	defer client.close()
	if c.bound.Grant == nil {
		c.bound = grants.Pair{}
		return
	}
	if rapid.Bool().Draw(c.drawn, "rebind") {
		c.rebind(client)
	}
}

// settle waits until those pages are gone whose time is over: a longer time, that is
// granted later, is for what is there.
func (c *course) settle() {
	c.r.retained()
	for u, at := range c.taken {
		if c.overdue(at) {
			delete(c.taken, u)
		}
	}
}

// rebind has the newest grant take the pages over.
func (c *course) rebind(client *client) {
	c.settle()
	if a := client.rebind(c.s); a.Refused != nil {
		c.r.t.Fatalf("the rebind is refused: %v", a.Refused)
	}
	for u := range c.s.pages {
		if !names(c.s.pair, u, c.s.pages[u].digest) {
			delete(c.s.pages, u)
			delete(c.taken, u)
		}
	}
	c.bound, c.since = c.s.pair, c.now().Unix()
}

// revoke withdraws all of it, or a part.
func (c *course) revoke() {
	if c.ended || c.bound.Grant == nil || c.bound.Grant.Object.ID != c.s.pair.Grant.Object.ID {
		return
	}
	d := rapid.SampledFrom([]grants.Disposition{grants.DispositionStop, grants.DispositionRetention, grants.DispositionDelete}).Draw(c.drawn, "disposition")
	body := c.s.pair.Grant.Revoke(d)
	whole := rapid.Bool().Draw(c.drawn, "whole")
	if !whole {
		body = c.s.pair.Grant.RevokeScope(must[grants.Scope](c.r.t)(grants.PrefixScope(site+"b/")), d)
	}
	rev := c.p.revocation(body)
	if d == grants.DispositionRetention {
		c.p.revoke(rev) // what is stopped goes at the end of its time, whenever that is
	} else {
		c.p.settled(rev)
	}
	c.revs, c.ended = append(c.revs, rev), whole || d == grants.DispositionRetention
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

// setBack sets the clock back for a while. What had ended stays so, for every reader and
// by every exit, and what is told meanwhile is as true as before.
func (c *course) setBack(keepers []*keeper) {
	c.r.retained() // what has ended is in the log: from then on no clock counts
	c.top = c.r.clock.Load()
	back := time.Duration(rapid.IntRange(1, 40).Draw(c.drawn, "back")) * time.Hour
	c.r.forward(-back)
	for _, k := range keepers {
		k.read(-1)
	}
	c.r.x.tend(c.r.t.Context())
	if err := c.leaves(); err != nil {
		c.drawn.Fatalf("while the clock is %v behind: %v", back, err)
	}
	c.r.forward(back)
	c.top = 0
}
