package publisher

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/equivocation"
)

// keepContradictions compares what an indexer signed in an answer that did not
// hold with what it signed in every answer that did, and keeps the pairs of one
// place. It reads all receipts, once for each new bad answer, and holds one at a time.
func (p *Publisher) keepContradictions(indexer envelope.Name, answered [][]byte) error {
	met := make(map[equivocation.Place]*envelope.Object)
	for _, raw := range answered {
		o, at, ok := p.authenticFrom(indexer, raw)
		if !ok {
			continue // an object that nobody can be blamed for is in the alarm alone
		}
		if err := p.keepEquivocation(met[at], o); err != nil {
			return err
		}
		met[at] = o
	}
	if len(met) == 0 {
		return nil
	}
	for a, err := range p.receiptRows() {
		if err == nil && a.Indexer == indexer {
			err = p.contradictions(met, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// contradictions keeps what a stored answer has at the places of others.
func (p *Publisher) contradictions(met map[equivocation.Place]*envelope.Object, a *storedAnswer) error {
	ans, err := a.answer()
	if err != nil {
		return err
	}
	for _, raw := range append(ans.Entries, ans.Checkpoint) {
		o, err := envelope.Parse(raw)
		if err != nil {
			return err
		}
		at, ok := equivocation.PlaceOf(o)
		if !ok {
			continue
		}
		if err := p.keepEquivocation(met[at], o); err != nil {
			return err
		}
	}
	return nil
}

// authenticFrom opens an object that the indexer signed.
func (p *Publisher) authenticFrom(indexer envelope.Name, raw []byte) (*envelope.Object, equivocation.Place, bool) {
	o, err := envelope.Parse(raw)
	if err != nil || o.Signer != indexer {
		return nil, equivocation.Place{}, false
	}
	if _, err := envelope.Authenticate(raw, new(jsontext.Value), envelope.Expecting(o.Type, p.trust.Known(), p.now())); err != nil {
		return nil, equivocation.Place{}, false
	}
	at, ok := equivocation.PlaceOf(o)
	return o, at, ok
}

// keepEquivocation keeps two objects of one place, and says so once. a may be nil.
func (p *Publisher) keepEquivocation(a, b *envelope.Object) error {
	if a == nil || a.ID == b.ID {
		return nil
	}
	kept, err := equivocation.In(p.dir).Keep(a, b)
	if errors.Is(err, equivocation.ErrNone) {
		return nil // two signatures of one tree
	}
	if kept != nil {
		p.log.Error("equivocation", "signer", kept.Signer, "type", string(kept.Type), "log", kept.LogOrigin,
			"sequence", kept.Sequence, "path", kept.Path)
	}
	return err
}
