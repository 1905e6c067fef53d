package translog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/transparency-dev/merkle/rfc6962"
)

// A LeafMaker makes the leaves of many pages under one leaf key. It keys its MAC once
// and makes every leaf in the same memory, where LeafKey.Leaf does both anew; what
// comes of it is the same. It is for one goroutine.
type LeafMaker struct {
	mac, plain hash.Hash
	in         []byte // what is hashed next
	sum        [sha256.Size]byte
}

// Maker begins a LeafMaker.
func (k LeafKey) Maker() *LeafMaker {
	return &LeafMaker{mac: hmac.New(sha256.New, k[:]), plain: sha256.New()}
}

// Salts is LeafKey.Salts.
func (m *LeafMaker) Salts(journalEpoch, revision uint64, urlHash [32]byte) (su, sc [32]byte) {
	return m.salt('u', journalEpoch, revision, urlHash), m.salt('c', journalEpoch, revision, urlHash)
}

func (m *LeafMaker) salt(kind byte, journalEpoch, revision uint64, urlHash [32]byte) [32]byte {
	m.in = append(append(m.in[:0], "uzpif-oi/leaf-salt/v1"...), 0, kind)
	m.in = binary.BigEndian.AppendUint64(m.in, journalEpoch)
	m.in = binary.BigEndian.AppendUint64(m.in, revision)
	m.in = append(m.in, urlHash[:]...)
	return m.digest(m.mac)
}

// Leaf is LeafKey.Leaf.
func (m *LeafMaker) Leaf(op Op, journalEpoch, revision uint64, url string, digest [32]byte) Leaf {
	m.in = append(m.in[:0], url...)
	urlHash := m.digest(m.plain)
	su := m.salt('u', journalEpoch, revision, urlHash)
	l := Leaf{Op: op, Revision: revision, Object: ObjectPart(su, url)}
	if op != OpTombstone {
		l.Content = ContentPart(m.salt('c', journalEpoch, revision, urlHash), digest)
	}
	return l
}

// Hash is Leaf.Hash of such a leaf.
func (m *LeafMaker) Hash(op Op, journalEpoch, revision uint64, url string, digest [32]byte) [32]byte {
	l := m.Leaf(op, journalEpoch, revision, url, digest)
	m.in = l.append(append(m.in[:0], rfc6962.RFC6962LeafHashPrefix))
	return m.digest(m.plain)
}

// digest is h of what is in m.in.
func (m *LeafMaker) digest(h hash.Hash) [32]byte {
	h.Reset()
	h.Write(m.in)
	h.Sum(m.sum[:0])
	return m.sum
}
