package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// ErrCorrupt says that the stored tree contradicts itself. Its leaf rows are
// the truth that it can be rebuilt from.
var ErrCorrupt = errors.New("state tree is corrupt")

func corrupt(at Prefix, format string, args ...any) error {
	return fmt.Errorf("%w at %q: %s", ErrCorrupt, at, fmt.Sprintf(format, args...))
}

// The rows of a tree, behind its prefix:
//
//	00 h(32)                    → digest(32) format(1)
//	01 depth(1) packed nibbles  → mask(2), and for each bit set, lowest first: count(8) hash(32)
const (
	leafRows  = 0x00
	nodeRows  = 0x01
	afterRows = 0x02
)

const (
	leafValueSize = 32 + 1
	childSize     = 8 + 32
)

func (t Tree) leafKey(dst []byte, h *[32]byte) []byte {
	dst = append(append(dst, t.prefix...), leafRows)
	return append(dst, h[:]...)
}

func (t Tree) nodeKey(dst []byte, at *Prefix) []byte {
	dst = append(append(dst, t.prefix...), nodeRows, at.depth)
	return append(dst, at.packed()...)
}

// leafBounds are the keys between which the leaf rows of a subtree lie.
func (t Tree) leafBounds(at *Prefix) (lo, hi []byte) {
	lo = append(append(lo, t.prefix...), leafRows)
	hi = append(hi, lo...)
	lo, hi = append(lo, at.packed()...), append(hi, at.packed()...)
	step := byte(1) // the first key behind: one more in the last nibble
	if at.depth%2 == 1 {
		step = 0x10
	}
	for i := len(hi) - 1; ; i-- {
		hi[i] += step
		if hi[i] != 0 || i == len(t.prefix) {
			return lo, hi[:i+1]
		}
		step = 1
	}
}

func (t Tree) decodeLeaf(key, value []byte) (Item, error) {
	var it Item
	if len(key) != len(t.prefix)+1+len(it.URLHash) {
		return Item{}, fmt.Errorf("%w: leaf key of %d octets", ErrCorrupt, len(key))
	}
	copy(it.URLHash[:], key[len(t.prefix)+1:])
	if len(value) != leafValueSize {
		return Item{}, fmt.Errorf("%w: leaf row of %d octets for %x", ErrCorrupt, len(value), it.URLHash)
	}
	copy(it.Digest[:], value)
	it.Format = value[32]
	return it, nil
}

func appendLeaf(dst []byte, it *Item) []byte {
	return append(append(dst, it.Digest[:]...), it.Format)
}

func appendNode(dst []byte, c *children) []byte {
	var mask uint16
	for i := range c {
		if c[i].Count > 0 {
			mask |= 1 << i
		}
	}
	dst = slices.Grow(dst, 2+bits.OnesCount16(mask)*childSize)
	dst = binary.BigEndian.AppendUint16(dst, mask)
	for i := range c {
		if c[i].Count > 0 {
			dst = binary.BigEndian.AppendUint64(dst, c[i].Count)
			dst = append(dst, c[i].Hash[:]...)
		}
	}
	return dst
}

// decodeNode accepts what appendNode makes of a node that can exist at at.
func decodeNode(at Prefix, row []byte) (children, error) {
	var c children
	if len(row) < 2 {
		return c, corrupt(at, "node row of %d octets", len(row))
	}
	mask, rest := binary.BigEndian.Uint16(row), row[2:]
	if want := bits.OnesCount16(mask) * childSize; len(rest) != want {
		return c, corrupt(at, "node row of %d octets, want %d", len(row), 2+want)
	}
	most := capacity(at.depth + 1)
	for ; mask != 0; mask &= mask - 1 {
		child := Child{binary.BigEndian.Uint64(rest), envelope.Hash(rest[8:childSize])}
		if child.Count == 0 || child.Count > most || child.Hash.IsZero() {
			return c, corrupt(at, "child of %d leaves", child.Count)
		}
		c[bits.TrailingZeros16(mask)] = child
		rest = rest[childSize:]
	}
	if n := c.count(); n <= bucketSize {
		return c, corrupt(at, "node of %d leaves", n)
	}
	return c, nil
}

// capacity is the most leaves that fit under depth, as far as it matters: it
// ends every path before h does, and keeps sums of counts from overflowing.
func capacity(depth uint8) uint64 {
	if left := maxDepth - int(depth); left < 13 {
		return 1 << max(0, 4*left)
	}
	return 1 << 52
}
