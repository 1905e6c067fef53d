package lint

import (
	"crypto/sha256"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Bounds of what is remembered of one grant or collection. Beyond them a rule
// says nothing, rather than something that may be wrong.
const (
	maxStops  = 1000 // revocations of a grant
	maxPast   = 64   // journal epochs of a collection that have ended
	maxRecent = 16   // batches of a collection
)

// A Checker holds what the entries up to one say of grants and collections. One
// goroutine owns it.
type Checker struct {
	// Continues: the log goes on from another, so that what stands in that one is
	// not known: where pages and cursors begin, and what was revoked.
	Continues   bool                         `json:"continues,omitzero"`
	Grants      map[envelope.Hash]*grantSeen `json:"grants"`
	Collections map[string]*collection       `json:"collections"`
	Issued      envelope.Time                `json:"issued_at,omitzero"` // of the last entry
	Epoch       uint64                       `json:"epoch,omitzero"`

	// Signed, if it is set, is when a checkpoint was issued that covers none of the
	// entries to come. It is not written with the rest.
	Signed envelope.Time `json:"-"`

	byRef map[envelope.Hash][]*collection
	// byBatch is whose batch each of Recent is.
	byBatch map[envelope.Hash]*collection
	broke   func(index uint64, rule Rule, format string, args ...any)
}

// A grantSeen is what entries under one grant say of it.
type grantSeen struct {
	Collection string                  `json:"collection"`
	Expires    envelope.Time           `json:"expires_at"`
	Policy     envelope.Hash           `json:"policy"`
	Purposes   envelope.Hash           `json:"purposes"`       // hashed
	Scope      envelope.Hash           `json:"scope,omitzero"` // zero while only revocations named one
	Ended      uint64                  `json:"ended,omitzero"` // 1 + the entry that says so
	Left       uint64                  `json:"left,omitzero"`  // 1 + the entry by which another took over
	Stops      map[envelope.Hash]*stop `json:"stops,omitempty"`
	Unsure     bool                    `json:"unsure,omitzero"` // there were more revocations
}

// A stop is a revocation that was acknowledged under a grant.
type stop struct {
	Scope   envelope.Hash `json:"scope"`
	Index   uint64        `json:"index"`
	Deleted bool          `json:"deleted,omitzero"`
}

// A collection is one series, by the names that the log has for it.
type collection struct {
	// Open: what was there before its first entry is not known. Shared: it has
	// another subject too, under which it may move.
	// Free: all of it was deleted after a revocation, so that it is held under no
	// grant.
	Open    bool   `json:"open,omitzero"`
	Shared  bool   `json:"shared,omitzero"`
	Free    bool   `json:"free,omitzero"`
	Known   bool   `json:"known,omitzero"` // where it stands
	Epoch   uint64 `json:"epoch"`
	Through uint64 `json:"through"`
	// Asked is the number of the last answer to a request in this journal epoch,
	// and Asks that there ever was one: what was only signalled moves the cursor
	// too, and is in no log.
	Asked  uint64          `json:"asked,omitzero"`
	Asks   bool            `json:"asks,omitzero"`
	Past   []uint64        `json:"past,omitempty"`
	Grant  envelope.Hash   `json:"grant,omitzero"` // under which it was held last
	Batch  batch           `json:"batch,omitzero"`
	Recent []envelope.Hash `json:"recent,omitempty"`
	Count  count           `json:"count"`
}

// A batch is the one that came last.
type batch struct {
	ID    envelope.Hash `json:"id"`
	Index uint64        `json:"index"` // of its last entry
	Rank  int           `json:"rank"`
	From  uint64        `json:"from"`
	Pages uint64        `json:"pages,omitzero"` // of its entries so far
	Ask   uint64        `json:"ask,omitzero"`   // the request that it answers
	State envelope.Hash `json:"state"`
	Grant envelope.Hash `json:"grant"`
}

// NewChecker knows nothing yet.
func NewChecker(continues bool) *Checker {
	return &Checker{Continues: continues, Grants: make(map[envelope.Hash]*grantSeen), Collections: make(map[string]*collection)}
}

// Take judges the next entry.
func (c *Checker) Take(o *envelope.Object, e *translog.Entry) {
	index := o.Sequence
	if issued := envelope.At(o.IssuedAt); issued.Before(c.Issued.Time) {
		c.broke(index, Time, "issued at %s, the entry before it at %s", issued, c.Issued)
	} else {
		c.Issued = issued
	}
	if o.IssuedAt.Before(c.Signed.Add(-envelope.Skew)) {
		c.broke(index, Time, "issued at %s, and a checkpoint without it at %s", envelope.At(o.IssuedAt), c.Signed)
	}
	if o.Epoch < c.Epoch {
		c.broke(index, KeyEpoch, "epoch %d, the entry before it has %d", o.Epoch, c.Epoch)
	}
	c.Epoch = max(c.Epoch, o.Epoch)
	name := string(o.Subject) + " " + e.CollectionRef.String()
	s := c.Collections[name]
	if s == nil {
		s = &collection{Open: c.Continues}
		c.Collections[name] = s
		c.share(e.CollectionRef, s)
	}
	g := c.terms(index, name, e)
	c.consent(o, e, g)
	c.bind(index, e, s)
	c.cursor(index, e, s)
	if !s.Open {
		c.pages(index, e, &s.Count)
	}
	c.revocation(index, e, g, s)
	c.release(e, g, s)
}

// share remembers who bears the name of a collection. A renewed grant may show,
// or hide, whose it is, and then one collection stands under two subjects: what
// entries under the one say of the other cannot be told, and is not judged.
func (c *Checker) share(ref envelope.Hash, s *collection) {
	if c.byRef == nil {
		c.byRef = make(map[envelope.Hash][]*collection)
		for name, old := range c.Collections {
			at := strings.LastIndexByte(name, ' ') + 1
			if h, err := envelope.ParseHash(name[at:]); err == nil {
				c.byRef[h] = append(c.byRef[h], old)
			}
		}
	} else {
		c.byRef[ref] = append(c.byRef[ref], s)
	}
	if all := c.byRef[ref]; len(all) > 1 {
		for _, one := range all {
			one.Open, one.Shared = true, true
		}
		c.byRef[ref] = all[:2] // who comes later is told by two
	}
}

// terms compares what the entry says of its grant with what others said.
func (c *Checker) terms(index uint64, name string, e *translog.Entry) *grantSeen {
	purposes := envelope.Hash(sha256.Sum256([]byte(strings.Join(e.Purposes, "\x00"))))
	g := c.Grants[e.GrantID]
	if g == nil {
		g = &grantSeen{Collection: name, Expires: e.GrantExpiresAt, Policy: e.PolicyHash, Purposes: purposes}
		c.Grants[e.GrantID] = g
	}
	changed := ""
	switch {
	case g.Collection != name:
		changed = "subject or collection"
	case !g.Expires.Equal(e.GrantExpiresAt.Time):
		changed = "expiry"
	case g.Policy != e.PolicyHash:
		changed = "policy"
	case g.Purposes != purposes:
		changed = "purposes"
	case e.RevocationID.IsZero() && !g.Scope.IsZero() && g.Scope != e.ScopeHash:
		changed = "scope"
	}
	if changed != "" {
		c.broke(index, Terms, "another %s of grant %s than before", changed, e.GrantID)
	}
	if e.RevocationID.IsZero() && g.Scope.IsZero() {
		g.Scope = e.ScopeHash
	}
	return g
}

// accepts reports whether the entry takes pages in, or a state over.
func accepts(e *translog.Entry) bool {
	return e.Decision == translog.Include || e.Decision == translog.Update
}

// consent judges whether the grant still allowed what the entry decided.
func (c *Checker) consent(o *envelope.Object, e *translog.Entry, g *grantSeen) {
	index := o.Sequence
	switch {
	case accepts(e) && !o.IssuedAt.Before(g.Expires.Time):
		c.broke(index, Expired, "%s/%s at %s, under a grant that ended at %s", e.Decision, e.Status, envelope.At(o.IssuedAt), g.Expires)
	case accepts(e) && g.Ended > 0:
		c.broke(index, Expired, "%s/%s under a grant that had expired, as entry %d says", e.Decision, e.Status, g.Ended-1)
	}
	if e.Status == translog.GrantExpired && g.Ended == 0 {
		g.Ended = index + 1
	}
	if e.Decision == translog.DeleteAck || e.Decision == translog.RevokeAck || e.Status == translog.OutOfScope || e.Status == translog.GrantExpired {
		return
	}
	// A revocation of the whole grant names the scope that all its entries name.
	for id, s := range g.Stops {
		if s.Scope == e.ScopeHash {
			c.broke(index, Revoked, "%s/%s under a grant all of which was revoked, as entry %d says of revocation %s", e.Decision, e.Status, s.Index, id)
			return
		}
	}
}

// bind follows which grant the collection is held under.
func (c *Checker) bind(index uint64, e *translog.Entry, s *collection) {
	if e.BatchID.IsZero() && e.Status != translog.Rebound || e.GrantID == s.Grant {
		return
	}
	if g := c.Grants[e.GrantID]; g.Left > 0 {
		c.broke(index, Superseded, "%s/%s under grant %s, which entry %d had taken the collection over from", e.Decision, e.Status, e.GrantID, g.Left-1)
		return
	}
	if old := c.Grants[s.Grant]; old != nil {
		if !e.BatchID.IsZero() && e.JournalEpoch == s.Epoch && !s.Free && !s.Open && !s.Shared {
			c.broke(index, Rebind, "a batch under grant %s, of a collection that grant %s holds and no rebind took over", e.GrantID, s.Grant)
		}
		old.Left = index + 1
	}
	s.Grant, s.Free = e.GrantID, false
}

// release follows whether a deletion leaves a collection that no grant holds. It
// stands under the newest grant, which need not be the one that holds it.
func (c *Checker) release(e *translog.Entry, g *grantSeen, s *collection) {
	if e.Status == translog.Revoked && (e.GrantID != s.Grant || g.Scope.IsZero() || g.Scope == e.ScopeHash) {
		s.Free = true
	}
}

// revocation follows what was revoked under a grant.
func (c *Checker) revocation(index uint64, e *translog.Entry, g *grantSeen, in *collection) {
	s := g.Stops[e.RevocationID]
	switch {
	case e.Status == translog.Stopped && s != nil:
		c.broke(index, RevokeTwice, "revocation %s was acknowledged before, by entry %d", e.RevocationID, s.Index)
	case e.Status == translog.Stopped && len(g.Stops) >= maxStops:
		g.Unsure = true
	case e.Status == translog.Stopped:
		if g.Stops == nil {
			g.Stops = make(map[envelope.Hash]*stop)
		}
		g.Stops[e.RevocationID] = &stop{Scope: e.ScopeHash, Index: index}
	case e.Status != translog.Revoked:
	case s == nil && !g.Unsure && !in.Open:
		c.broke(index, Unrevoked, "a deletion after revocation %s, which no revoke-ack under this grant names", e.RevocationID)
	case s == nil:
	case s.Deleted:
		c.broke(index, RevokeTwice, "the deletion after revocation %s was acknowledged before", e.RevocationID)
	case s.Scope != e.ScopeHash:
		c.broke(index, Terms, "the deletion is of another scope than entry %d says that revocation %s is of", s.Index, e.RevocationID)
	default:
		s.Deleted = true
	}
}
