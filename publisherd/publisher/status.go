package publisher

import (
	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Status is what `publisherd status --json` prints.
type Status struct {
	Identity    envelope.Name      `json:"identity"`
	Collections []CollectionStatus `json:"collections"`
	Indexers    []IndexerStatus    `json:"indexers"`
}

// A CollectionStatus is where one journal stands.
type CollectionStatus struct {
	Name         string `json:"name"`
	JournalEpoch uint64 `json:"journal_epoch"`
	Revision     uint64 `json:"revision"`
	Pages        uint64 `json:"pages"`
}

// An IndexerStatus is where one agreement stands. State is "in-force",
// "expired" or "not-yet-valid"; backlog counts revisions that were not offered.
type IndexerStatus struct {
	Identity       envelope.Name `json:"identity"`
	Collection     string        `json:"collection"`
	Series         string        `json:"series"`
	State          string        `json:"state"`
	GrantID        envelope.Hash `json:"grant_id"`
	ExpiresAt      envelope.Time `json:"expires_at"`
	Backlog        uint64        `json:"backlog"`
	Pages          uint64        `json:"pages"`
	Pending        bool          `json:"pending"` // a batch awaits its receipt
	LastReceipt    string        `json:"last_receipt"`
	LastCheckpoint uint64        `json:"last_checkpoint"` // tree size
}

// Status reads where everything stands.
func (p *Publisher) Status() (Status, error) {
	s := Status{Identity: p.local.Name(), Collections: []CollectionStatus{}, Indexers: []IndexerStatus{}}
	sources, err := Sources(p.dir)
	if err != nil {
		return s, err
	}
	heads := make(map[string]head)
	for _, src := range sources {
		h, err := journal{p.store, src.Name}.head(p.store)
		if err != nil {
			return s, err
		}
		if h.Revision == 0 {
			h.Epoch = 0 // the journal has not begun
		}
		heads[src.Name] = h
		s.Collections = append(s.Collections, CollectionStatus{src.Name, h.Epoch, h.Revision, h.Pages})
	}
	rels, err := Relationships(p.dir)
	if err != nil {
		return s, err
	}
	for _, r := range rels {
		line, err := p.indexerStatus(r, heads[r.Collection])
		if err != nil {
			return s, err
		}
		s.Indexers = append(s.Indexers, line)
	}
	return s, nil
}

func (p *Publisher) indexerStatus(r *Relationship, h head) (IndexerStatus, error) {
	a := agreement{p.store, r}
	c, err := a.cursor(p.store)
	if err != nil {
		return IndexerStatus{}, err
	}
	pending, err := a.pending(p.store)
	if err != nil {
		return IndexerStatus{}, err
	}
	tree, _, err := p.logTree(r.Indexer)
	if err != nil {
		return IndexerStatus{}, err
	}
	g := r.Pair.Grant.Object
	line := IndexerStatus{
		Identity: r.Indexer, Collection: r.Collection, Series: r.Series, State: "in-force", GrantID: g.ID, ExpiresAt: envelope.At(g.ExpiresAt),
		Backlog: h.Revision - min(c.Seen, h.Revision), Pages: c.Pages, Pending: pending != nil, LastCheckpoint: tree.Size,
	}
	if !c.Receipt.IsZero() {
		line.LastReceipt = c.Receipt.String()
	}
	switch now := p.now(); {
	case !now.Before(g.ExpiresAt):
		line.State = "expired"
	case g.Fresh(now) != nil:
		line.State = "not-yet-valid"
	}
	return line, nil
}
