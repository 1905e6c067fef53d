package grants

import (
	"bytes"
	"slices"

	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A List is a list as its owner holds it, to make the path of any item. It
// holds 68 octets an item, and not the items themselves. Add all of them, then
// ask; it does not change from the first question on.
type List struct {
	// levels[0] are the hashes of the items, and each next level those of pairs
	// below it; the last one without a partner goes up as it is. That is the
	// tree of RFC 6962.
	levels [][][32]byte
	order  []uint32 // indexes by ascending hash of the item
}

// Add adds the next item; the caller sees to their order.
func (l *List) Add(item []byte) {
	if l.levels == nil {
		l.levels = make([][][32]byte, 1)
	}
	l.levels[0] = append(l.levels[0], [32]byte(rfc6962.DefaultHasher.HashLeaf(item)))
}

// ListDigests is the list of digests that stand in ascending order.
func ListDigests(digests []envelope.Hash) *List {
	l := new(List)
	for i := range digests {
		l.Add(digests[i][:])
	}
	return l
}

// Listed names the list.
func (l *List) Listed() Listed {
	if l.levels == nil {
		return Listed{0, envelope.Hash(rfc6962.DefaultHasher.EmptyRoot())}
	}
	l.grow()
	return Listed{uint64(len(l.levels[0])), l.levels[len(l.levels)-1][0]}
}

// grow makes the levels above the items, once.
func (l *List) grow() {
	for len(l.levels[len(l.levels)-1]) > 1 {
		below := l.levels[len(l.levels)-1]
		level := make([][32]byte, 0, (len(below)+1)/2)
		for i := 0; i+1 < len(below); i += 2 {
			level = append(level, [32]byte(rfc6962.DefaultHasher.HashChildren(below[i][:], below[i+1][:])))
		}
		if len(below)%2 == 1 {
			level = append(level, below[len(below)-1])
		}
		l.levels = append(l.levels, level)
	}
	if l.order != nil {
		return
	}
	leaves := l.levels[0]
	l.order = make([]uint32, len(leaves))
	for i := range l.order {
		l.order[i] = uint32(i)
	}
	slices.SortFunc(l.order, func(a, b uint32) int { return bytes.Compare(leaves[a][:], leaves[b][:]) })
}

// Path gives an item's number and its path, from the item up; false if it is
// not in the list.
func (l *List) Path(item []byte) (index uint64, path [][32]byte, ok bool) {
	if l.levels == nil {
		return 0, nil, false
	}
	l.grow()
	leaves, leaf := l.levels[0], rfc6962.DefaultHasher.HashLeaf(item)
	at, ok := slices.BinarySearchFunc(l.order, leaf, func(i uint32, leaf []byte) int { return bytes.Compare(leaves[i][:], leaf) })
	if !ok {
		return 0, nil, false
	}
	index = uint64(l.order[at])
	n := index
	for _, level := range l.levels[:len(l.levels)-1] {
		if partner := n ^ 1; partner < uint64(len(level)) {
			path = append(path, level[partner])
		}
		n /= 2
	}
	return index, path, true
}
