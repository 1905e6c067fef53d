package evaluate

import (
	"fmt"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// ring is a key source over identity cards, newest first, so that what a later
// card says of a key counts.
type ring []*identity.Card

func (r ring) LookupKey(id envelope.Hash) (envelope.KeyRecord, bool) {
	for _, c := range r {
		if k, ok := c.LookupKey(id); ok {
			return k, true
		}
	}
	return envelope.KeyRecord{}, false
}

// newRing refuses a public key that two identities list.
func newRing(cards []*identity.Card) (ring, error) {
	r := ring(slices.Clone(cards))
	slices.SortStableFunc(r, func(a, b *identity.Card) int { return b.Object.Position().Compare(a.Object.Position()) })
	for _, c := range r {
		for _, k := range c.Keys {
			if known, _ := r.LookupKey(k.PublicKey.ID()); known.Identity != c.Identity {
				return nil, fmt.Errorf("one public key stands in the cards of %s and of %s", known.Identity, c.Identity)
			}
		}
	}
	return r, nil
}

// of is the cards of one identity in one role.
func (r ring) of(name envelope.Name, role identity.Role) ring {
	var own ring
	for _, c := range r {
		if c.Identity == name && c.Role == role {
			own = append(own, c)
		}
	}
	return own
}

// log is the log that a card of the ring names by origin.
func (r ring) log(origin string) (*identity.Log, bool) {
	for _, c := range r {
		if c.Log != nil && c.Log.Origin == origin {
			return c.Log, true
		}
	}
	return nil, false
}

// contradicts reports whether c is another card than one of r's, at the same
// place in the same identity's history.
func (r ring) contradicts(c *identity.Card) bool {
	return slices.ContainsFunc(r, func(known *identity.Card) bool {
		a, b := known.Object.Position(), c.Object.Position()
		return known.Identity == c.Identity && a.Compare(b) == 0 && a.ID != b.ID
	})
}

// lost finds a signature of o by a key that its owner has reported lost.
func (r ring) lost(o *envelope.Object) (envelope.Hash, bool) {
	for _, s := range o.Signatures {
		if k, ok := r.LookupKey(s.KeyID); ok && k.Lost {
			return s.KeyID, true
		}
	}
	return envelope.Hash{}, false
}

// remarkLost says what rests on a lost key. The log has a key of its own, so what
// stands in it was there when it was signed.
func (v *verification) remarkLost() {
	if id, lost := v.indexerKeys.lost(v.entry.Object); lost {
		v.remark("The key %s, by which %s signed the entry, was reported lost since: whoever has it can make such signatures, and set their time back. What speaks for this one is the log, which has another key.", id, v.indexer)
	}
	if id, lost := v.publisherKeys.lost(v.pair.Grant.Object); lost {
		v.remark("The key %s, by which %s signed the grant, was reported lost since: whoever has it can make such signatures, and set their time back.", id, v.publisher)
	}
}
