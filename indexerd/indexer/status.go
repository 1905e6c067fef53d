package indexer

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Status is what `indexerd status --json` prints.
type Status struct {
	Identity     envelope.Name `json:"identity"`
	LogOrigin    string        `json:"log_origin"`
	TreeSize     uint64        `json:"tree_size"`
	Root         envelope.Hash `json:"root"`
	Pages        uint64        `json:"pages"`
	Publishers   int           `json:"publishers"`
	Sessions     int           `json:"sessions"`
	PayloadBytes uint64        `json:"payload_bytes"`
	DiskBytes    uint64        `json:"disk_bytes"`
	Disk         DiskStatus    `json:"disk"`
}

// Status reads where everything stands.
func (x *Indexer) Status() (Status, error) {
	tree := x.tlog.Released().Tree
	s := Status{
		Identity: x.local.Name(), LogOrigin: x.local.Card.Log.Origin, TreeSize: tree.Size, Root: tree.Root, Sessions: x.sessions.count(),
		Disk: x.diskStatus(),
	}
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return s, err
	}
	publishers := make(map[envelope.Name]bool)
	for _, rec := range recs {
		publishers[rec.Publisher] = true
		s.Pages += rec.Pages
		s.PayloadBytes += rec.PayloadBytes
	}
	s.Publishers = len(publishers)
	m, err := x.store.Metrics()
	s.DiskBytes = m.DiskBytes
	return s, err
}

// An Agreement is one line of `indexerd agreements`: what a publisher allows,
// in the words that it signed.
type Agreement struct {
	Publisher  envelope.Name `json:"publisher"`
	Series     string        `json:"series"`
	Collection string        `json:"collection"`
	GrantID    envelope.Hash `json:"grant_id"`
	ExpiresAt  envelope.Time `json:"expires_at"`
	Purposes   []string      `json:"purposes"`
	Revision   uint64        `json:"revision"`
	Pages      uint64        `json:"pages"`
	State      string        `json:"state"` // in force, expired, revoked, deleting or deleted
	Words      []string      `json:"words"`
}

// standing is an agreement's State.
func (r *seriesRecord) standing(rd durable.Reader, newest grants.Pair, now time.Time) (string, error) {
	err := inForce(rd, newest, now)
	switch {
	case r.Deletions > 0:
		return "deleting", nil
	case err == nil:
		return "in force", nil
	case errors.Is(err, grants.ErrRevoked) && r.Revoked != nil && r.Revoked.Deleted:
		return "deleted", nil
	case errors.Is(err, grants.ErrRevoked):
		return "revoked", nil
	case errors.Is(err, grants.ErrExpired):
		return "expired", nil
	}
	return "", err
}

// Agreements lists every series with its grant in words.
func (x *Indexer) Agreements() ([]Agreement, error) {
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return nil, err
	}
	all := make([]Agreement, 0, len(recs))
	for _, rec := range recs {
		pair, err := readPair(x.store, rec)
		if err != nil {
			return nil, err
		}
		standing, err := rec.standing(x.store, pair, x.cfg.Now())
		if err != nil {
			return nil, err
		}
		all = append(all, Agreement{
			Publisher: rec.Publisher, Series: rec.Series, Collection: rec.Collection, GrantID: rec.Grant.ID,
			ExpiresAt: envelope.At(pair.ExpiresAt()), Purposes: pair.Grant.Body.Purposes.Strings(),
			Revision: rec.Revision, Pages: rec.Pages, State: standing, Words: grants.Describe(pair),
		})
	}
	return all, nil
}

// segmentNumber is the number that ends a key.
func segmentNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }
