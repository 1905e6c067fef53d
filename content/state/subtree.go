package state

import (
	"bytes"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Subtree is what one side shows the other of its tree at one place: the
// children of a node, or the leaves of a bucket.
type Subtree struct {
	at       Prefix
	node     bool
	children children
	leaves   []Item
}

// How a Subtree begins on the wire. A node is followed by its row, a bucket by
// its leaves: h(32) digest(32) format(1), at most 16.
const (
	wireBucket = 0
	wireNode   = 1
	leafSize   = 32 + leafValueSize
)

// MaxSubtree is the greatest length of a Subtree on the wire, in octets.
const MaxSubtree = 1 + bucketSize*leafSize

// Subtree reads what the tree has at p.
func (t Tree) Subtree(r Reader, p Prefix) (Subtree, error) {
	c, ok, err := t.Children(r, p)
	if err != nil || ok {
		return Subtree{at: p, node: ok, children: c}, err
	}
	s := Subtree{at: p}
	for it, err := range t.Leaves(r, p) {
		if err != nil {
			return Subtree{}, err
		}
		if len(s.leaves) == bucketSize {
			return Subtree{}, corrupt(p, "more than %d leaves and no node row", bucketSize)
		}
		s.leaves = append(s.leaves, it)
	}
	return s, nil
}

// Append appends the Subtree's form on the wire.
func (s *Subtree) Append(b []byte) []byte {
	if s.node {
		return append(append(b, wireNode), appendNode(nil, &s.children)...)
	}
	b = append(b, wireBucket)
	for i := range s.leaves {
		b = appendLeaf(append(b, s.leaves[i].URLHash[:]...), &s.leaves[i])
	}
	return b
}

// ParseSubtree accepts what Append makes of a Subtree that can stand at at.
func ParseSubtree(at Prefix, b []byte) (Subtree, error) {
	s := Subtree{at: at}
	if len(b) == 0 || b[0] > wireNode || len(b) > MaxSubtree {
		return Subtree{}, fmt.Errorf("a subtree of %d octets at %q", len(b), at)
	}
	if b[0] == wireNode {
		s.node = true
		var err error
		if s.children, err = decodeNode(at, b[1:]); err == nil && int(at.depth) == maxDepth {
			err = corrupt(at, "a node below which there is nothing")
		}
		return s, err
	}
	if len(b[1:])%leafSize != 0 {
		return Subtree{}, fmt.Errorf("a bucket of %d octets at %q", len(b), at)
	}
	for rest := b[1:]; len(rest) > 0; rest = rest[leafSize:] {
		it := Item{URLHash: [32]byte(rest), Digest: [32]byte(rest[32:]), Format: rest[64]}
		if n := len(s.leaves); !at.Contains(&it.URLHash) || n > 0 && bytes.Compare(s.leaves[n-1].URLHash[:], it.URLHash[:]) >= 0 {
			return Subtree{}, fmt.Errorf("a leaf out of order in the bucket at %q", at)
		}
		s.leaves = append(s.leaves, it)
	}
	return s, nil
}

// Child is the Subtree as its parent sees it: its hash proves all of it.
func (s *Subtree) Child() Child {
	if s.node {
		return node(s.at.depth, &s.children)
	}
	leaves := make([]leaf, len(s.leaves))
	for i, it := range s.leaves {
		leaves[i] = leaf{it.URLHash, leafHash(&it.URLHash, &it.Digest, it.Format)}
	}
	return bucket(leaves)
}

// Child is the subtree at p as its parent sees it.
func (t Tree) Child(r Reader, p Prefix) (Child, error) {
	s, err := t.Subtree(r, p)
	if err != nil {
		return Child{}, err
	}
	return s.Child(), nil
}

// A Below is a place further down at which two trees differ, with what the other
// side's has to hash to there.
type Below struct {
	At   Prefix
	Hash envelope.Hash
}

// Compare compares the tree with what the other side shows at one place. Pages
// that differ go to differ, as they would have to be changed here to be as there;
// where that is not known yet, the places to ask for are returned.
func (t Tree) Compare(r Reader, theirs Subtree, differ func(Item) error) ([]Below, error) {
	if !theirs.node {
		return nil, t.compareLeaves(r, theirs, differ)
	}
	var below []Below
	for i, c := range theirs.children {
		at := theirs.at.Child(i)
		ours, err := t.childAt(r, theirs.at, i)
		switch {
		case err != nil:
			return nil, err
		case ours == c:
		case c.Count > 0:
			below = append(below, Below{at, c.Hash})
		default:
			if err := t.compareLeaves(r, Subtree{at: at}, differ); err != nil {
				return nil, err
			}
		}
	}
	return below, nil
}

// childAt is the i-th child of what stands at at, be it a node or a bucket.
func (t Tree) childAt(r Reader, at Prefix, i int) (Child, error) {
	c, ok, err := t.Children(r, at)
	if err != nil || ok {
		return c[i], err
	}
	return t.Child(r, at.Child(i))
}

// compareLeaves compares all leaves here with those of a bucket.
func (t Tree) compareLeaves(r Reader, theirs Subtree, differ func(Item) error) error {
	rest := theirs.leaves
	for ours, err := range t.Leaves(r, theirs.at) {
		if err != nil {
			return err
		}
		for len(rest) > 0 && bytes.Compare(rest[0].URLHash[:], ours.URLHash[:]) < 0 {
			if err := differ(rest[0]); err != nil {
				return err
			}
			rest = rest[1:]
		}
		switch {
		case len(rest) > 0 && rest[0].URLHash == ours.URLHash:
			if rest[0] != ours {
				err = differ(rest[0])
			}
			rest = rest[1:]
		default:
			err = differ(Item{URLHash: ours.URLHash, Deleted: true})
		}
		if err != nil {
			return err
		}
	}
	for _, it := range rest {
		if err := differ(it); err != nil {
			return err
		}
	}
	return nil
}
