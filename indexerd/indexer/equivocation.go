package indexer

import (
	"errors"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/equivocation"
)

// holding is v for an object that may be held already: then it counts under the
// record of its epoch even if its key was lost since. One that comes for the
// first time is signed by no lost key, whatever time it bears.
func (x *Indexer) holding(v grants.Verifier, id envelope.Hash) grants.Verifier {
	if _, err := x.store.Get(objectKey(id)); err == nil {
		v.Keys = x.trust.Known()
	}
	return v
}

// revocationKeys are the keys that may have signed a revocation of publisher:
// one that was taken in before a key was lost is answered again.
func (x *Indexer) revocationKeys(publisher envelope.Name, id envelope.Hash) envelope.KeySource {
	if _, err := x.store.Get(revocationKey(publisher, id)); err == nil {
		return x.trust.Known()
	}
	return x.trust.KeysOf(publisher)
}

// signedObjects are what an offer brings, each with a true signature.
func (o offer) signedObjects() []*envelope.Object {
	all := []*envelope.Object{o.pair.Grant.Object, o.pair.Policy.Object}
	if o.feed != nil {
		all = append(all, o.feed.Object)
	}
	return all
}

// keepEquivocations looks among the offers of an announcement that was refused,
// and among what is held of their series, for two objects of one place, and
// keeps both.
func (s *session) keepEquivocations(offers []offer) {
	met := make(map[equivocation.Place]*envelope.Object)
	for _, o := range offers {
		held, err := s.x.heldOf(s.peer.Card.Identity, o.pair.Grant.Body.Series)
		if err != nil {
			s.x.log.Error("look for an equivocation", "publisher", s.peer.Card.Identity, "error", err)
			return
		}
		for _, object := range append(held, o.signedObjects()...) {
			at, ok := equivocation.PlaceOf(object)
			if !ok {
				continue
			}
			if other := met[at]; other != nil && other.ID != object.ID {
				s.x.keepEquivocation(other, object)
			}
			met[at] = object
		}
	}
}

// keepEquivocation keeps two objects that equivocate, and says so once.
func (x *Indexer) keepEquivocation(a, b *envelope.Object) {
	kept, err := equivocation.In(x.cfg.Dir).Keep(a, b)
	switch {
	case errors.Is(err, equivocation.ErrNone):
	case err != nil:
		x.log.Error("equivocation not kept", "error", err)
	case kept != nil:
		x.log.Error("equivocation", "signer", kept.Signer, "type", string(kept.Type), "series", kept.Series,
			"epoch", kept.Epoch, "sequence", kept.Sequence, "path", kept.Path)
	}
}

// heldOf are the newest objects of a series, as they are held.
func (x *Indexer) heldOf(publisher envelope.Name, series string) ([]*envelope.Object, error) {
	rec, err := readSeries(x.store, publisher, series)
	if err != nil || rec == nil {
		return nil, err
	}
	var held []*envelope.Object
	for _, p := range []envelope.Position{rec.Grant, rec.Policy, rec.Feed} {
		raw, err := x.store.Get(objectKey(p.ID))
		if errors.Is(err, durable.ErrNotFound) {
			continue // a series without a feed
		}
		if err != nil {
			return nil, err
		}
		o, err := envelope.Parse(raw)
		if err != nil {
			return nil, err
		}
		held = append(held, o)
	}
	return held, nil
}
