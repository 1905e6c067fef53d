package indexer

import (
	"encoding/binary"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
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
	Wanted       uint64        `json:"wanted"`    // pages that are to be asked for
	Asked        uint64        `json:"asked"`     // pages asked for and not answered
	Signalled    uint64        `json:"signalled"` // pages, ever
	Delivered    uint64        `json:"delivered"` // pages that came for the asking, ever

	Certificate identity.CertificateStatus `json:"certificate"`
	Trust       identity.TrustStatus       `json:"trust"`
}

// Status reads where everything stands.
func (x *Indexer) Status() (Status, error) {
	tree := x.tlog.Released().Tree
	s := Status{
		Identity: x.local.Name(), LogOrigin: x.local.Card.Log.Origin, TreeSize: tree.Size, Root: tree.Root, Sessions: x.sessions.count(),
		Disk: x.diskStatus(), Certificate: x.local.Status(x.cfg.Now()), Trust: x.trust.Status(),
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
		s.Wanted += rec.Wanted
		s.Asked += x.sessions.underWay(rec)
		s.Signalled += rec.Signalled
		s.Delivered += rec.Delivered
	}
	s.Publishers = len(publishers)
	m, err := x.store.Metrics()
	s.DiskBytes = m.DiskBytes
	return s, err
}

// segmentNumber is the number that ends a key.
func segmentNumber(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }
