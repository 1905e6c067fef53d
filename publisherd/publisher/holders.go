package publisher

import (
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// maxHolders bounds what is kept of one answer.
const maxHolders = 4000

// A HoldersStatus is to whom an indexer said that it handed pages of a series.
type HoldersStatus struct {
	AskedAt envelope.Time  `json:"asked_at"`
	Holders []HolderStatus `json:"holders"`
}

// A HolderStatus is one of them, in the indexer's words.
type HolderStatus struct {
	Consumer   string        `json:"consumer"`
	Purpose    string        `json:"purpose"`
	ThirdParty bool          `json:"third_party"`
	Since      envelope.Time `json:"since"`
	Last       envelope.Time `json:"last"`
	Open       bool          `json:"open"`     // it may still read pages
	ToPurge    uint32        `json:"to_purge"` // deletions that it has not confirmed
	PurgedAt   envelope.Time `json:"purged_at,omitzero"`
}

// PageHolders is who may have been handed one page, as the indexers say.
type PageHolders struct {
	URL     string        `json:"url"`
	AskedAt envelope.Time `json:"asked_at"`
	Asked   int           `json:"asked"` // agreements under which the page was ever acknowledged
	Holders []PageHolder  `json:"holders"`
}

// A PageHolder is one of them. State is "held" while the page may be read, "to-purge" if
// it was to be dropped and nothing says that it was, "purged" if its holder says so.
type PageHolder struct {
	Indexer    envelope.Name `json:"indexer"`
	Collection string        `json:"collection"`
	State      string        `json:"state"`
	HolderStatus
}

func holdersKey(r *Relationship) []byte {
	return rowKey('L', string(r.Indexer), 'h', []byte(r.Series))
}

func (p *Publisher) writeHolders(r *Relationship, h HoldersStatus) (err error) {
	b := p.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := durable.WriteJSON(b, holdersKey(r), h); err != nil {
		return err
	}
	return b.Commit()
}

// holders is what the indexer of an agreement said last, nil if it was never asked.
func (p *Publisher) holders(r *Relationship) (*HoldersStatus, error) {
	h := new(HoldersStatus)
	if ok, err := durable.ReadJSON(p.store, holdersKey(r), h); err != nil || !ok {
		return nil, err
	}
	return h, nil
}

// at is a time from the wire; 0 is none.
func at(seconds int64) envelope.Time {
	if seconds <= 0 || seconds > 1<<40 {
		return envelope.Time{}
	}
	return envelope.At(time.Unix(seconds, 0))
}
