package publisher

import (
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// feed is the feed that the series presents; nil unless its grant is for one.
func (r *Relationship) feed() *grants.Feed {
	if r.Pair.Grant.Body.Scope.Type != grants.InFeed {
		return nil
	}
	return r.Feed
}

// listed names the list that the scope in force is for; zero if prefixes say
// all.
func (r *Relationship) listed() grants.Listed {
	if f := r.feed(); f != nil {
		return f.Listed()
	}
	return r.Pair.Grant.Body.Scope.Set()
}

// Frame is what a new list of the series is read for: the prefixes in force, or
// others in their place.
func (r *Relationship) Frame(prefixes []string) (grants.Scope, error) {
	frame := r.Pair.Grant.Body.Scope.Frame()
	if len(prefixes) == 0 {
		return frame, nil
	}
	s, err := grants.PrefixScope(prefixes...)
	s.Query = frame.Query
	return s, err
}

// takeList keeps the list of a new scope and, for a feed, signs the series' next
// one. It comes before the series' file is written, which is what counts.
// before is the root of the list that was in force.
func (r *Relationship) takeList(dir string, l *List, before envelope.Hash, now time.Time, local *identity.Local) error {
	if l == nil {
		if r.Pair.Grant.Body.Scope.Type == grants.InFeed && r.Feed == nil {
			return &Refused{Reason: grants.ErrScope, Detail: "a grant for a feed needs its list"}
		}
		return nil
	}
	if l.Scope.Type == grants.InFeed || len(l.Scope.Digests) == 0 {
		if err := l.write(dir, r.Series, before); err != nil {
			return err
		}
	}
	if l.Scope.Type != grants.InFeed {
		return nil
	}
	stamp := grants.Stamp{Epoch: local.Epoch(envelope.UseEnvelope), Sequence: 1, At: now}
	if r.Feed != nil {
		stamp.Sequence = r.Feed.Object.Sequence + 1
	}
	feed, err := grants.SignFeed(l.listed(), r.Series, local.Name(), stamp, local.Envelope)
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	r.Feed = feed
	return nil
}

// NewFeed signs the next feed of a series over another list, and takes it in the
// place of the one in force. The grant stays as it is: pages that the new feed
// does not list leave the index with the next push, and those that only it
// lists are sent.
func NewFeed(dir, id string, l *List, now time.Time) (*Relationship, []grants.Warning, error) {
	local, err := identity.Load(dir, now)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := lockGrants(dir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	rel, err := FindGrant(dir, id)
	if err != nil {
		return nil, nil, err
	}
	if rel.feed() == nil {
		return nil, nil, &Refused{Reason: grants.ErrScopeType, Detail: fmt.Sprintf("the grant is for a %s, not for a feed; grant renew changes that", rel.Pair.Grant.Body.Scope.Type)}
	}
	if l.listed() == rel.listed() {
		return rel, l.warnings(), nil // it would say the same
	}
	if err := rel.takeList(dir, l, rel.listed().Root, now, local); err != nil {
		return nil, nil, err
	}
	return rel, l.warnings(), rel.write(dir)
}

// A place is where a page stands in the list of its scope; nil where none is to
// be shown.
type place struct {
	index  uint64
	hashes [][32]byte
}

// octets is about how long a place is on the wire.
func (p *place) octets() int {
	if p == nil {
		return 0
	}
	return 34*len(p.hashes) + 12
}

// members decides which pages under the prefixes are in a scope.
type members struct {
	scope grants.Scope
	list  *grants.List // nil where the scope names none by its root
}

// openMembers reads the list of the scope in force, if it has one.
func (r *Relationship) openMembers(dir string) (*members, error) {
	m := &members{scope: r.Pair.Grant.Body.Scope}
	l := r.listed()
	if l.Root.IsZero() || len(m.scope.Digests) > 0 {
		return m, nil
	}
	var err error
	m.list, err = readListed(dir, r.Series, m.scope.Type, l)
	return m, err
}

// lookup reports whether a page whose URL is in scope may be offered with that
// content, and what shows it.
func (m *members) lookup(url string, digest envelope.Hash) (*place, bool) {
	if m.list == nil {
		return nil, m.scope.Holds(url, digest) == nil
	}
	item := digest[:]
	if m.scope.Type == grants.InFeed {
		item = []byte(url)
	}
	index, path, ok := m.list.Path(item)
	return &place{index, path}, ok
}

// relist looks at every page anew when the list that pages are chosen by is
// another than at the last push: in a new journal epoch, in which only what
// differs is sent, and what has left is deleted.
func (a agreement) relist(c cursor) (cursor, error) {
	root := a.rel.listed().Root
	if c.Listed == root {
		return c, nil
	}
	c.Listed, c.Seen = root, 0
	if c.JournalEpoch != 0 {
		if err := c.renumber(); err != nil {
			return c, err
		}
	}
	return c, a.setCursor(c)
}
