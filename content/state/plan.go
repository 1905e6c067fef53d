package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Writer takes rows. It keeps neither key nor value after it returns.
type Writer interface {
	Set(key, value []byte) error
	Delete(key []byte) error
}

// A Plan is the tree after some changes, worked out and not yet written. It
// holds good as long as the tree that it was made upon stays as it was.
type Plan struct {
	tree  Tree
	old   Child // the tree that it was made upon
	top   Child
	items []Item
	order []int // the items that change a row, by ascending h
	// below are the rows of the root and of children that change.
	below []childWrite
}

// A childWrite is the row of a child, or, of the empty one, its removal.
type childWrite struct {
	at Prefix
	Child
}

// Plan works out the tree after items, which may come in any order; of several
// for one h the last counts. A put of what is there already and a removal of
// what is not change nothing. The items must stay as they are until Apply.
//
// It reads the nodes and buckets on the way to each item, and in an empty
// subtree nothing, so that a first load costs no reads. The error is of the
// Reader, or wraps ErrCorrupt.
func (t Tree) Plan(r Reader, items []Item) (*Plan, error) {
	p := planner{Plan: &Plan{tree: t, items: items, order: orderOf(items)}, r: r}
	defer p.close()
	p.changes = make([]leaf, len(p.order))
	for i, at := range p.order {
		it := &items[at]
		p.changes[i].h = it.URLHash
		if !it.Deleted {
			p.changes[i].hash = leafHash(&it.URLHash, &it.Digest, it.Format)
		}
	}
	old, err := t.top(r)
	if err != nil {
		return nil, err
	}
	after, err := p.subtree(Prefix{}, old, 0, len(p.changes))
	if err != nil {
		return nil, err
	}
	p.old, p.top, p.order = old, after.Child, p.order[:p.kept]
	switch {
	case p.top == p.old:
	case p.top.Count > bucketSize:
		p.below = append(p.below, childWrite{Child: p.top})
	case p.old.Count > bucketSize:
		p.below = append(p.below, childWrite{})
	}
	// Rows that come by ascending key are far cheaper to write.
	slices.SortFunc(p.below, func(a, b childWrite) int { return a.at.compare(&b.at) })
	return p.Plan, nil
}

// orderOf sorts by h and keeps the last of each. The first octets of h, copied
// beside one another, decide nearly every comparison.
func orderOf(items []Item) []int {
	type place struct {
		head uint64
		at   int
	}
	places := make([]place, len(items))
	for i := range items {
		places[i] = place{binary.BigEndian.Uint64(items[i].URLHash[:]), i}
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		if c := bytes.Compare(items[a.at].URLHash[:], items[b.at].URLHash[:]); c != 0 {
			return c
		}
		return cmp.Compare(b.at, a.at)
	})
	order := make([]int, 0, len(places))
	for _, p := range places {
		if n := len(order); n == 0 || items[order[n-1]].URLHash != items[p.at].URLHash {
			order = append(order, p.at)
		}
	}
	return order
}

// Before is the root that the plan was made upon: as long as it is the tree's, the
// plan holds good.
func (p *Plan) Before() envelope.Hash { return p.old.Hash }

// Removed yields the leaves that the changes take away, by ascending h.
func (p *Plan) Removed() iter.Seq[[32]byte] {
	return func(yield func([32]byte) bool) {
		for _, i := range p.order {
			if it := &p.items[i]; it.Deleted && !yield(it.URLHash) {
				return
			}
		}
	}
}

// Root is the root after the changes.
func (p *Plan) Root() envelope.Hash { return p.top.Hash }

// Count is the number of leaves after the changes.
func (p *Plan) Count() uint64 { return p.top.Count }

// Apply writes the changes to w, which the plan's Reader should then read. It
// stops at the first error of w.
func (p *Plan) Apply(w Writer) error {
	var key, value []byte
	for _, i := range p.order {
		it := &p.items[i]
		key = p.tree.leafKey(key[:0], &it.URLHash)
		value = appendLeaf(value[:0], it)
		if err := put(w, it.Deleted, key, value); err != nil {
			return err
		}
	}
	for i := range p.below {
		c := &p.below[i]
		key = p.tree.childKey(key[:0], &c.at)
		value = appendChild(value[:0], &c.Child)
		if err := put(w, c.Count == 0, key, value); err != nil {
			return err
		}
	}
	return nil
}

func put(w Writer, gone bool, key, value []byte) error {
	if gone {
		return w.Delete(key)
	}
	return w.Set(key, value)
}

// A planner walks down to the changes and comes back with hashes.
type planner struct {
	*Plan
	r       Reader
	changes []leaf // by ascending h, in step with order
	kept    int    // changes before it were settled, and order holds those that count
	leaves  []leaf // a stack of those read and merged

	leafWalk   *durable.Walk
	childWalks [walkDepth]*durable.Walk // by depth of the parents
}

// walkDepth is from what depth on each node is read for itself, and not by a walk
// through all of its depth. No tree that can be has many there, unless its publisher
// chose names whose hashes begin alike.
const walkDepth = 8

// A walker can read many ranges with what it opens once.
type walker interface {
	Walk(lo, hi []byte) (*durable.Walk, error)
}

// walkIn opens a walk within lo <= key < hi, unless *w is one; it leaves nil there if
// the Reader has none.
func (p *planner) walkIn(w **durable.Walk, lo, hi []byte) error {
	r, ok := p.r.(walker)
	if !ok || *w != nil {
		return nil
	}
	var err error
	*w, err = r.Walk(lo, hi)
	return err
}

// bucketRows yields the leaves of a bucket. The buckets of a plan are read by
// ascending h, and may be thousands: what a range of its own would open for each of
// them costs more than the rows.
func (p *planner) bucketRows(at Prefix) (iter.Seq2[Item, error], error) {
	from, to := p.tree.leafBounds(new(Prefix))
	if err := p.walkIn(&p.leafWalk, from, to); err != nil {
		return nil, err
	}
	lo, hi := p.tree.leafBounds(&at)
	if p.leafWalk == nil {
		return p.tree.items(p.r.Scan(lo, hi)), nil
	}
	return p.tree.items(p.leafWalk.Scan(lo, hi)), nil
}

// childRows yields the rows of the children of a node. The nodes of one depth are
// read by ascending place, too.
func (p *planner) childRows(at *Prefix) (iter.Seq2[durable.Row, error], error) {
	lo, hi := p.tree.childBounds(at)
	if at.depth >= walkDepth {
		return p.r.Scan(lo, hi), nil
	}
	w := &p.childWalks[at.depth]
	if err := p.walkIn(w, p.tree.depthKey(nil, at.depth+1), p.tree.depthKey(nil, at.depth+2)); err != nil {
		return nil, err
	}
	if *w == nil {
		return p.r.Scan(lo, hi), nil
	}
	return (*w).Scan(lo, hi), nil
}

func (p *planner) close() {
	for _, w := range append(p.childWalks[:], p.leafWalk) {
		if w != nil {
			w.Close()
		}
	}
}

// A subtree after its changes. Up to 16 leaves come along, on top of the stack,
// in case that the parent is to become a bucket.
type subtree struct {
	Child
	leaves []leaf
}

// subtree makes changes lo to hi below at, where old is.
func (p *planner) subtree(at Prefix, old Child, lo, hi int) (subtree, error) {
	if old.Count > bucketSize {
		return p.node(at, old, lo, hi)
	}
	mark := len(p.leaves)
	leaves, err := p.merged(at, old, lo, hi)
	if err != nil {
		return subtree{}, err
	}
	if len(leaves) <= bucketSize {
		return subtree{bucket(leaves), leaves}, nil
	}
	after := p.grown(at, leaves)
	p.leaves = p.leaves[:mark]
	return subtree{after, nil}, nil
}

// merged is the leaves of the bucket old after its changes.
func (p *planner) merged(at Prefix, old Child, lo, hi int) ([]leaf, error) {
	changes := p.changes[lo:hi]
	if old.Count == 0 && !slices.ContainsFunc(changes, func(l leaf) bool { return l.removal() }) {
		for i := range changes {
			p.keep(lo + i)
		}
		return changes, nil
	}
	held, err := p.held(at, old)
	if err != nil {
		return nil, err
	}
	start := len(p.leaves)
	for i := range changes {
		c := &changes[i]
		for len(held) > 0 && bytes.Compare(held[0].h[:], c.h[:]) < 0 {
			p.leaves = append(p.leaves, held[0])
			held = held[1:]
		}
		before := leaf{h: c.h}
		if len(held) > 0 && held[0].h == c.h {
			before, held = held[0], held[1:]
		}
		if before.hash != c.hash {
			p.keep(lo + i)
		}
		if !c.removal() {
			p.leaves = append(p.leaves, *c)
		}
	}
	p.leaves = append(p.leaves, held...)
	return p.leaves[start:], nil
}

// keep notes that change i changes something.
func (p *planner) keep(i int) {
	p.order[p.kept] = p.order[i]
	p.kept++
}

// held pushes the leaves of the bucket old.
func (p *planner) held(at Prefix, old Child) ([]leaf, error) {
	if old.Count == 0 {
		return nil, nil
	}
	start := len(p.leaves)
	rows, err := p.bucketRows(at)
	if err != nil {
		return nil, err
	}
	if p.leaves, err = appendBucket(p.leaves, rows, at); err != nil {
		return nil, err
	}
	held := p.leaves[start:]
	if got := bucket(held); got != old {
		return nil, corrupt(at, "%d leaves do not make the bucket of %d that the node names", got.Count, old.Count)
	}
	return held, nil
}

// grown makes the subtree of leaves, where no node was.
func (p *planner) grown(at Prefix, leaves []leaf) Child {
	if len(leaves) <= bucketSize {
		return bucket(leaves)
	}
	var c children
	for len(leaves) > 0 {
		n, same := nibble(&leaves[0].h, at.depth), 1
		for same < len(leaves) && nibble(&leaves[same].h, at.depth) == n {
			same++
		}
		c[n] = p.grown(at.Child(n), leaves[:same])
		leaves = leaves[same:]
	}
	p.write(at, &children{}, &c)
	return node(at.depth, &c)
}

// node makes changes lo to hi below the node at.
func (p *planner) node(at Prefix, old Child, lo, hi int) (subtree, error) {
	before, err := p.read(at, old)
	if err != nil {
		return subtree{}, err
	}
	mark, after := len(p.leaves), before
	var leaves [16][]leaf
	for lo < hi {
		n, same := nibble(&p.changes[lo].h, at.depth), lo+1
		for same < hi && nibble(&p.changes[same].h, at.depth) == n {
			same++
		}
		child, err := p.subtree(at.Child(n), before[n], lo, same)
		if err != nil {
			return subtree{}, err
		}
		after[n], leaves[n] = child.Child, child.leaves
		lo = same
	}
	if after.count() <= bucketSize {
		p.write(at, &before, &children{})
		return p.collapsed(at, &after, &leaves, mark)
	}
	p.leaves = p.leaves[:mark]
	p.write(at, &before, &after)
	return subtree{node(at.depth, &after), nil}, nil
}

// collapsed makes the node at a bucket of what its children still hold. The
// children that were not changed are buckets, and are read now.
func (p *planner) collapsed(at Prefix, c *children, leaves *[16][]leaf, mark int) (subtree, error) {
	var all [bucketSize]leaf
	n := 0
	for i := range c {
		if leaves[i] == nil {
			held, err := p.held(at.Child(i), c[i])
			if err != nil {
				return subtree{}, err
			}
			leaves[i] = held
		}
		n += copy(all[n:], leaves[i])
	}
	p.leaves = append(p.leaves[:mark], all[:n]...)
	return subtree{bucket(all[:n]), p.leaves[mark:]}, nil
}

// read is the children of at, if they make the node that its parent names.
func (p *planner) read(at Prefix, old Child) (children, error) {
	rows, err := p.childRows(&at)
	if err != nil {
		return children{}, err
	}
	c, ok, err := p.tree.children(rows, &at)
	if err != nil {
		return children{}, err
	}
	if !ok {
		return children{}, corrupt(at, "no rows below a node of %d leaves", old.Count)
	}
	if node(at.depth, &c) != old {
		return children{}, corrupt(at, "not the node that its parent names")
	}
	return c, nil
}

// write notes what changes between the children of at before and after.
func (p *planner) write(at Prefix, before, after *children) {
	for i := range after {
		if after[i] != before[i] {
			p.below = append(p.below, childWrite{at.Child(i), after[i]})
		}
	}
}
