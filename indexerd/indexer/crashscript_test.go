package indexer

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// The two series of a script: docs is renewed to a narrower scope, and blog is
// revoked, whole or in part, with all that was held.
const (
	docs = "docs-1"
	blog = "blog-1"

	narrow  = site + "a/"
	revoked = blogs + "old/"
	spared  = blogs + "new/"
)

type action int

const (
	deliverBatch action = iota
	renewGrant          // and open a session under it
	rebindState
	revokeGrant
	settleDeletion // wait until it is acknowledged
)

// A step is one thing that the publisher asks for, and is answered.
type step struct {
	action  action
	series  string
	changes []change
}

// A script is what a publisher does: the same for the same number.
type script struct {
	steps  []step
	urls   []string
	whole  bool // the revocation reaches all of the series
	revoke int  // which step it is
}

// A scripter makes a script up.
type scripter struct {
	script
	rng   *rand.Rand
	known map[string]bool // pages of the state
	pages int
}

func newScript(number uint64) script {
	w := &scripter{rng: rand.New(rand.NewPCG(number, 11)), known: make(map[string]bool)}
	w.whole = w.rng.IntN(2) == 0
	w.batch(docs, narrow, site+"b/")
	w.batch(blog, revoked, spared)
	for range 2 + w.rng.IntN(4) {
		if w.rng.IntN(2) == 0 {
			w.batch(docs, narrow, site+"b/")
		} else {
			w.batch(blog, revoked, spared)
		}
	}
	blocks := []func(){w.renewal, w.revocation}
	w.rng.Shuffle(2, func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	for _, block := range blocks {
		block()
		w.batch(docs, narrow)
	}
	if !w.whole {
		w.batch(blog, spared)
	}
	return w.script
}

func (w *scripter) add(s step) { w.steps = append(w.steps, s) }

func (w *scripter) renewal() {
	w.add(step{action: renewGrant, series: docs})
	w.add(step{action: rebindState, series: docs})
}

func (w *scripter) revocation() {
	w.revoke = len(w.steps)
	w.add(step{action: revokeGrant, series: blog})
	w.batch(docs, narrow)
	w.add(step{action: settleDeletion, series: blog})
}

// batch adds one of new, changed, deleted and malformed pages below prefixes.
func (w *scripter) batch(series string, prefixes ...string) {
	var known []string
	for _, u := range slices.Sorted(maps.Keys(w.known)) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(u, p) }) {
			known = append(known, u)
		}
	}
	w.rng.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	s := step{series: series}
	for range 1 + w.rng.IntN(8) {
		what := w.rng.IntN(10)
		w.pages++
		c := change{url: fmt.Sprintf("%spage-%04d", prefixes[w.rng.IntN(len(prefixes))], w.pages)}
		if what >= 5 && len(known) > 0 {
			c.url, known = known[0], known[1:]
		}
		switch {
		case what == 9:
			c.payload = fmt.Appendf(nil, "no page %d", w.pages)
		case what < 7 || !w.known[c.url]:
			c.text = fmt.Sprint("words ", w.pages, strings.Repeat(" and more", w.rng.IntN(200)))
		}
		if c.text == "" && c.payload == nil {
			delete(w.known, c.url)
		} else {
			w.known[c.url] = true
		}
		w.urls = append(w.urls, c.url)
		s.changes = append(s.changes, c)
	}
	w.add(s)
}

// narrowed is the series without the pages for which out holds.
func (s *series) narrowed(out func(url string) bool) series {
	n := *s
	n.pages = maps.Clone(s.pages)
	maps.DeleteFunc(n.pages, func(url string, _ page) bool { return out(url) })
	return n
}

// reboundTo is the series once its grant has taken its state over.
func (s *series) reboundTo() series {
	return s.narrowed(func(url string) bool { return s.pair.Grant.Body.Scope.Match(url) != nil })
}

// settled is the series once what rev reaches is deleted.
func (s *series) settled(rev *grants.Revocation) series {
	return s.narrowed(func(url string) bool { return rev.ReachesPage(s.pair.Grant, url) })
}

// outcome is all that a script leads to, whatever came in between.
func (c *crashRun) outcome() string {
	var b bytes.Buffer
	for _, name := range []string{docs, blog} {
		rec, _, _ := c.r.stateOf(c.series[name])
		fmt.Fprintf(&b, "%s: revision %d, state %s, %d pages of %d octets, %d refused, %d deletions, generation %d, rows %v\n",
			name, rec.Revision, rec.State, rec.Pages, rec.PayloadBytes, rec.Refused, rec.Deletions, rec.DataKey, c.rowsOf(&rec))
	}
	entries := words(c.r.log())
	slices.Sort(entries) // a deletion ends whenever it does
	fmt.Fprintf(&b, "%q", entries)
	return b.String()
}
