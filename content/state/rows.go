package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
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
//	01 depth(1) packed nibbles  → count(uvarint) hash(32)
//
// The second kind is for the root, if it is a node, and for the children of each node,
// if there is something below them. A node has no row of all its children: of a batch
// of pages each changes one child in sixteen.
const (
	leafRows  = 0x00
	childRows = 0x01
	afterRows = 0x02
)

const (
	leafValueSize = 32 + 1
	childSize     = 8 + 32 // on the wire
)

func (t Tree) leafKey(dst []byte, h *[32]byte) []byte {
	dst = append(append(dst, t.prefix...), leafRows)
	return append(dst, h[:]...)
}

func (t Tree) childKey(dst []byte, at *Prefix) []byte {
	return append(t.depthKey(dst, at.depth), at.packed()...)
}

// depthKey begins the keys of all children at a depth.
func (t Tree) depthKey(dst []byte, depth uint8) []byte {
	return append(append(dst, t.prefix...), childRows, depth)
}

// leafBounds are the keys between which the leaf rows of a subtree lie.
func (t Tree) leafBounds(at *Prefix) (lo, hi []byte) {
	return bounds(append(slices.Clone(t.prefix), leafRows), at)
}

// childBounds are the keys between which the rows of the children of at lie, which
// has less than 64 nibbles.
func (t Tree) childBounds(at *Prefix) (lo, hi []byte) {
	return bounds(t.depthKey(nil, at.depth+1), at)
}

// bounds are the keys between which lies what begins with start and goes on with
// the nibbles of at. The last octet of start is not 255.
func bounds(start []byte, at *Prefix) (lo, hi []byte) {
	n := len(start)
	lo = append(start, at.packed()...)
	hi = slices.Clone(lo)
	step := byte(1) // the first key behind: one more in the last nibble
	if at.depth%2 == 1 {
		step = 0x10
	}
	for i := len(hi) - 1; ; i-- {
		hi[i] += step
		if hi[i] != 0 || i == n-1 {
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

func appendChild(dst []byte, c *Child) []byte {
	return append(binary.AppendUvarint(dst, c.Count), c.Hash[:]...)
}

// decodeChild accepts what appendChild makes of a child that can exist at at.
func decodeChild(at *Prefix, row []byte) (Child, error) {
	count, n := binary.Uvarint(row)
	if n <= 0 || len(row) != n+len(envelope.Hash{}) || n > 1 && row[n-1] == 0 {
		return Child{}, corrupt(*at, "child row of %d octets", len(row))
	}
	c := Child{count, envelope.Hash(row[n:])}
	if count == 0 || count > capacity(at.depth) || c.Hash.IsZero() {
		return Child{}, corrupt(*at, "child of %d leaves", count)
	}
	return c, nil
}

// children reads what the rows of the children of at say, and whether there are any.
func (t Tree) children(rows iter.Seq2[durable.Row, error], at *Prefix) (children, bool, error) {
	var c children
	found, first := false, at.Child(0)
	length := len(t.childKey(nil, &first))
	for row, err := range rows {
		if err != nil {
			return c, false, err
		}
		if len(row.Key) != length {
			return c, false, corrupt(*at, "child key of %d octets", len(row.Key))
		}
		n := int(row.Key[length-1])
		if first.depth%2 == 1 {
			n >>= 4
		}
		n &= 15
		child := at.Child(n)
		if c[n], err = decodeChild(&child, row.Value); err != nil {
			return c, false, err
		}
		found = true
	}
	if n := c.count(); found && n <= bucketSize {
		return c, false, corrupt(*at, "node of %d leaves", n)
	}
	return c, found, nil
}

// appendNode appends the form of a node on the wire: mask(2), and for each bit set,
// lowest first, count(8) hash(32).
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
