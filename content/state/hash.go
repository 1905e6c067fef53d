package state

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// bucketSize is the most leaves that a subtree has without being a node.
const bucketSize = 16

// tag begins every hash of the tree; an octet that tells the kind follows.
const tag = "uzpif-oi/state/v1\x00"

const (
	kindLeaf   = 1
	kindBucket = 2
	kindNode   = 3
)

// A leaf is what the tree hashes of a page. Among changes a zero hash stands
// for a removal; no page has it.
type leaf struct{ h, hash [32]byte }

func (l *leaf) removal() bool { return l.hash == [32]byte{} }

// A Child is a subtree as its parent sees it. The zero Child is the empty one.
type Child struct {
	Count uint64 // leaves
	Hash  envelope.Hash
}

// children are the subtrees of a node, by nibble.
type children [16]Child

func (c *children) count() (n uint64) {
	for i := range c {
		n += c[i].Count
	}
	return n
}

func leafHash(h, digest *[32]byte, format uint8) [32]byte {
	var m [len(tag) + 1 + 32 + 32 + 1]byte
	n := copy(m[:], tag)
	m[n] = kindLeaf
	copy(m[n+1:], h[:])
	copy(m[n+33:], digest[:])
	m[n+65] = format
	return sha256.Sum256(m[:])
}

// bucket is the subtree of up to bucketSize leaves, which ascend by h.
func bucket(leaves []leaf) Child {
	if len(leaves) == 0 {
		return Child{}
	}
	var buf [len(tag) + 1 + 8 + bucketSize*32]byte
	m := append(buf[:0], tag...)
	m = append(m, kindBucket)
	m = binary.BigEndian.AppendUint64(m, uint64(len(leaves)))
	for i := range leaves {
		m = append(m, leaves[i].hash[:]...)
	}
	return Child{uint64(len(leaves)), sha256.Sum256(m)}
}

// node is the subtree of c at depth.
func node(depth uint8, c *children) Child {
	var buf [len(tag) + 1 + 1 + 8 + 16*32]byte
	count := c.count()
	m := append(buf[:0], tag...)
	m = append(m, kindNode, depth)
	m = binary.BigEndian.AppendUint64(m, count)
	for i := range c {
		m = append(m, c[i].Hash[:]...)
	}
	return Child{count, sha256.Sum256(m)}
}
