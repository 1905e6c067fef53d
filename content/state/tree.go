package state

import (
	"errors"
	"iter"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Reader is what a tree is read through: the store, a snapshot, or a batch
// that is still open.
type Reader interface {
	// Get gives a copy of a row's value, or durable.ErrNotFound.
	Get(key []byte) ([]byte, error)
	// Scan gives the rows from lo to before hi by ascending key.
	Scan(lo, hi []byte) iter.Seq2[durable.Row, error]
}

// An Item is a page of the series, or, among changes, its removal.
type Item struct {
	URLHash [32]byte // h
	Digest  [32]byte // SHA-256 of the payload
	Format  uint8
	Deleted bool // a removal: Digest and Format are not looked at
}

// A Tree is where the rows of one series' state tree lie. It holds no state of
// its own; any number of goroutines may use it.
type Tree struct{ prefix []byte }

// New is the tree whose rows begin with prefix. Nobody else may write there.
func New(prefix []byte) Tree { return Tree{slices.Clone(prefix)} }

// Bounds are the keys between which all rows of the tree lie, [lo, hi).
func (t Tree) Bounds() (lo, hi []byte) {
	return append(slices.Clone(t.prefix), leafRows), append(slices.Clone(t.prefix), afterRows)
}

// Leaf begins the keys of all leaf rows, which are most of a tree's.
func (t Tree) Leaf() []byte { return append(slices.Clone(t.prefix), leafRows) }

// Root is the tree's root and the number of its leaves; 32 zero octets and 0
// for the empty tree. It reads one row, or up to 16.
func (t Tree) Root(r Reader) (root envelope.Hash, count uint64, err error) {
	top, err := t.top(r)
	return top.Hash, top.Count, err
}

// Lookup is the item of h, and whether there is one.
func (t Tree) Lookup(r Reader, h [32]byte) (Item, bool, error) {
	key := t.leafKey(nil, &h)
	value, err := r.Get(key)
	if errors.Is(err, durable.ErrNotFound) {
		return Item{}, false, nil
	}
	if err != nil {
		return Item{}, false, err
	}
	it, err := t.decodeLeaf(key, value)
	return it, err == nil, err
}

// Children are the subtrees directly below p, and whether p is a node. If it
// is none, there are at most 16 leaves below it, and Leaves gives them. They
// are not compared with what is said of p further up; who walks down has seen that.
func (t Tree) Children(r Reader, p Prefix) ([16]Child, bool, error) {
	if p.depth == maxDepth {
		return children{}, false, nil
	}
	return t.children(r.Scan(t.childBounds(&p)), &p)
}

// Leaves yields the items below p by ascending h, and stops at the first error.
// It holds one row in memory. Of over the leaves of the zero Prefix is the root
// that the rows ought to have.
func (t Tree) Leaves(r Reader, p Prefix) iter.Seq2[Item, error] {
	lo, hi := t.leafBounds(&p)
	return t.items(r.Scan(lo, hi))
}

// LeavesAfter yields all items behind after by ascending h; a nil after begins
// at the first.
func (t Tree) LeavesAfter(r Reader, after *[32]byte) iter.Seq2[Item, error] {
	lo, hi := t.leafBounds(new(Prefix))
	if after != nil {
		lo = append(t.leafKey(nil, after), 0)
	}
	return t.items(r.Scan(lo, hi))
}

// items yields what leaf rows say.
func (t Tree) items(rows iter.Seq2[durable.Row, error]) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for row, err := range rows {
			if err != nil {
				yield(Item{}, err)
				return
			}
			it, err := t.decodeLeaf(row.Key, row.Value)
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// top is the whole tree as a child of nothing.
func (t Tree) top(r Reader) (Child, error) {
	row, err := r.Get(t.childKey(nil, new(Prefix)))
	if err == nil {
		return decodeChild(new(Prefix), row)
	}
	if !errors.Is(err, durable.ErrNotFound) {
		return Child{}, err
	}
	leaves, err := appendBucket(nil, t.Leaves(r, Prefix{}), Prefix{})
	if err != nil {
		return Child{}, err
	}
	return bucket(leaves), nil
}

// appendBucket takes the leaves below at, which is no node.
func appendBucket(dst []leaf, leaves iter.Seq2[Item, error], at Prefix) ([]leaf, error) {
	start := len(dst)
	for it, err := range leaves {
		if err != nil {
			return dst, err
		}
		if len(dst)-start == bucketSize {
			return dst, corrupt(at, "more than %d leaves and no node row", bucketSize)
		}
		dst = append(dst, leaf{it.URLHash, leafHash(&it.URLHash, &it.Digest, it.Format)})
	}
	return dst, nil
}
