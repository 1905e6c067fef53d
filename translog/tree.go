package translog

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

const (
	tileHeight = 8
	tileWidth  = 1 << tileHeight // hashes of a full tile
	tileSize   = tileWidth * 32  // octets of a full tile
)

// ErrCorrupt: the stored log contradicts itself.
var ErrCorrupt = errors.New("the stored log is damaged")

// An edge is the right edge of a tree, which is all that growing it needs. It
// belongs to the writer.
type edge struct {
	size uint64
	// open[l] holds the hashes of the tile at level l that is not full yet, 32
	// octets each. A tile is made at its full capacity and only ever appended
	// to, so that whoever holds an earlier, shorter slice of it reads on
	// undisturbed.
	open [][]byte
	// subtrees are the roots of the perfect subtrees of the tree, left to right.
	subtrees *compact.Range
}

// clone is an edge that grows without changing e.
func (e *edge) clone() (*edge, error) {
	hashes := append([][]byte(nil), e.subtrees.Hashes()...)
	r, err := ranges().NewRange(0, e.size, hashes)
	if err != nil {
		return nil, err
	}
	return &edge{e.size, append([][]byte(nil), e.open...), r}, nil
}

func ranges() *compact.RangeFactory { return &compact.RangeFactory{Hash: hashChildren} }

// grow appends a leaf and hands every tile that it fills to full.
func (e *edge) grow(leaf [32]byte, full func(level int, index uint64, tile []byte) error) error {
	var failed error
	err := e.subtrees.Append(leaf[:], func(id compact.NodeID, hash []byte) {
		if id.Level%tileHeight != 0 {
			return
		}
		level := int(id.Level / tileHeight)
		if len(e.open) == level {
			e.open = append(e.open, nil)
		}
		if e.open[level] == nil {
			e.open[level] = make([]byte, 0, tileSize)
		}
		e.open[level] = append(e.open[level], hash...)
		if len(e.open[level]) == tileSize {
			if err := full(level, id.Index/tileWidth, e.open[level]); err != nil {
				failed = err
			}
			e.open[level] = nil
		}
	})
	e.size++
	return errors.Join(err, failed)
}

func (e *edge) root() ([32]byte, error) {
	if e.size == 0 {
		return emptyRoot(), nil
	}
	h, err := e.subtrees.GetRootHash(nil)
	if err != nil {
		return [32]byte{}, err
	}
	return [32]byte(h), nil
}

// tree is the state at this moment, for readers.
func (e *edge) tree(rows durable.Reader) tree {
	open := make([][]byte, len(e.open))
	for i, t := range e.open {
		open[i] = t[:len(t):len(t)]
	}
	return tree{e.size, open, rows}
}

// A tree computes hashes and proofs of one size, and of every smaller one, from
// stored tiles and the right edge of its own size. It does not change.
type tree struct {
	size uint64
	open [][]byte
	rows durable.Reader
}

// width is how many hashes the tile at level and index has: 0 to tileWidth.
func (t tree) width(level int, index uint64) int {
	if level*tileHeight >= 64 || index > math.MaxUint64/tileWidth-1 {
		return 0
	}
	n := t.size >> (level * tileHeight)
	if first := index * tileWidth; n > first {
		return int(min(n-first, tileWidth))
	}
	return 0
}

// tile returns the hashes of a tile, of which there are width.
func (t tree) tile(level int, index uint64) ([]byte, error) {
	if w := t.width(level, index); w == 0 {
		return nil, fmt.Errorf("tile %d/%d of a tree of size %d", level, index, t.size)
	} else if w < tileWidth {
		return t.open[level], nil
	}
	b, err := t.rows.Get(tileKey(level, index))
	if errors.Is(err, durable.ErrNotFound) || err == nil && len(b) != tileSize {
		return nil, fmt.Errorf("%w: tile %d/%d has %d octets", ErrCorrupt, level, index, len(b))
	}
	return b, err
}

// foldTile is the root over a power of two of hashes.
func foldTile(hashes []byte) []byte {
	if len(hashes) == 32 {
		return bytes.Clone(hashes)
	}
	h := bytes.Clone(hashes)
	for n := len(h) / 2; n >= 32; n /= 2 {
		for i := 0; i < n; i += 32 {
			sum := nodeHash(h[2*i:2*i+32], h[2*i+32:2*i+64])
			copy(h[i:], sum[:])
		}
		h = h[:n]
	}
	return h
}

// nodes returns the hashes of perfect subtrees. It reads each tile once as long
// as those that lie in it follow one another, as they do in a proof.
func (t tree) nodes(ids []compact.NodeID) ([][]byte, error) {
	hashes := make([][]byte, len(ids))
	var tile []byte
	var tileLevel int
	var tileIndex uint64
	for i, id := range ids {
		within := id.Level % tileHeight // levels above the tile's hashes
		first := id.Index << within
		level, index := int(id.Level/tileHeight), first/tileWidth
		if tile == nil || level != tileLevel || index != tileIndex {
			var err error
			if tile, err = t.tile(level, index); err != nil {
				return nil, err
			}
			tileLevel, tileIndex = level, index
		}
		lo, hi := first%tileWidth*32, (first%tileWidth+1<<within)*32
		if hi > uint64(len(tile)) {
			return nil, fmt.Errorf("node %d/%d of a tree of size %d", id.Level, id.Index, t.size)
		}
		hashes[i] = foldTile(tile[lo:hi])
	}
	return hashes, nil
}

// subtreesAt are the perfect subtrees of the tree as it was at size.
func (t tree) subtreesAt(size uint64) (*compact.Range, error) {
	if size > t.size {
		return nil, fmt.Errorf("size %d of a tree of size %d", size, t.size)
	}
	hashes, err := t.nodes(compact.RangeNodes(0, size, nil))
	if err != nil {
		return nil, err
	}
	return ranges().NewRange(0, size, hashes)
}

// rootAt is the root that the tree had at size.
func (t tree) rootAt(size uint64) ([32]byte, error) {
	r, err := t.subtreesAt(size)
	if err != nil {
		return [32]byte{}, err
	}
	return (&edge{size: size, subtrees: r}).root()
}

// inclusion is the proof for entry index in the tree as it was at size.
func (t tree) inclusion(index, size uint64) ([][32]byte, error) {
	if size > t.size {
		return nil, fmt.Errorf("size %d of a tree of size %d", size, t.size)
	}
	n, err := proof.Inclusion(index, size)
	if err != nil {
		return nil, err
	}
	return t.rehash(n)
}

// consistency is the proof that the tree at size to goes on from that at from.
func (t tree) consistency(from, to uint64) ([][32]byte, error) {
	if to > t.size {
		return nil, fmt.Errorf("size %d of a tree of size %d", to, t.size)
	}
	if from == 0 {
		return [][32]byte{}, nil // everything goes on from the empty tree
	}
	n, err := proof.Consistency(from, to)
	if err != nil {
		return nil, err
	}
	return t.rehash(n)
}

func (t tree) rehash(n proof.Nodes) ([][32]byte, error) {
	hashes, err := t.nodes(n.IDs)
	if err != nil {
		return nil, err
	}
	if hashes, err = n.Rehash(hashes, hashChildren); err != nil {
		return nil, err
	}
	path := make([][32]byte, len(hashes))
	for i, h := range hashes {
		path[i] = [32]byte(h)
	}
	return path, nil
}
