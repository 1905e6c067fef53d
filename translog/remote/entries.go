package remote

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// An Entry is one entry of the log.
type Entry struct {
	Index uint64
	Raw   []byte // the exact octets that were hashed
}

// ErrTree: what the log serves is not what is under the tree's root.
var ErrTree = fmt.Errorf("%w: not under the root of the checkpoint", ErrMalformed)

// Entries yields the entries with from <= index < to of tree, in order. Each
// was found under tree.Root before it is yielded, so that a loop that stopped
// goes on later from the index behind its last. Bundles are fetched ahead of
// the reader, as Options.Ahead says, and there is one request for 256 entries.
// It stops at the first error. Errors: ErrTree; those of the package.
func (c *Client) Entries(ctx context.Context, from, to uint64, tree translog.Tree) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if from > to || to > tree.Size {
			yield(Entry{}, fmt.Errorf("entries %d to %d of a tree of %d", from, to, tree.Size))
			return
		}
		if from == to {
			return
		}
		v := &verifier{c: c, ctx: ctx, tree: tree, tiles: make(map[int]*verified)}
		if err := v.loadEdge(); err != nil {
			yield(Entry{}, err)
			return
		}
		for b, err := range c.bundles(ctx, from/translog.TileWidth, (to-1)/translog.TileWidth, tree.Size) {
			if err == nil {
				err = v.check(b)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			first := b.index * translog.TileWidth
			for i, raw := range b.entries {
				if n := first + uint64(i); n >= from && n < to && !yield(Entry{n, raw}, nil) {
					return
				}
			}
		}
	}
}

// A bundle is a bundle with the leaf hashes of its entries.
type bundle struct {
	index   uint64
	entries [][]byte
	hashes  []byte
}

// bundles fetches the bundles first to last in parallel and yields them in
// order, not verified.
func (c *Client) bundles(ctx context.Context, first, last, size uint64) iter.Seq2[bundle, error] {
	indexes := func(yield func(uint64, error) bool) {
		for i := first; i <= last && yield(i, nil); i++ {
		}
	}
	return func(yield func(bundle, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // what is still being fetched is not wanted any more
		inorder.Map(indexes, c.o.Ahead-1, func(i uint64) (bundle, error) {
			entries, err := c.Bundle(ctx, i, translog.Width(size, 0, i))
			if err != nil {
				return bundle{}, err
			}
			hashes := make([]byte, 0, 32*len(entries))
			for _, e := range entries {
				h := translog.LeafHash(e)
				hashes = append(hashes, h[:]...)
			}
			return bundle{i, entries, hashes}, nil
		})(func(b bundle, err error) bool {
			if !yield(b, err) {
				cancel()
				return false
			}
			return true
		})
	}
}

// A verifier knows which tiles are under the root of one tree. Of each level it
// keeps the partial tile at the right edge and the tile that was used last.
type verifier struct {
	c     *Client
	ctx   context.Context // of the one call of Entries that it belongs to
	tree  translog.Tree
	edge  [][]byte // by level; nil where the last tile is full
	tiles map[int]*verified
}

type verified struct {
	index  uint64
	hashes []byte
}

// loadEdge fetches the partial tile of each level and computes the root from
// them: together they cover every entry.
func (v *verifier) loadEdge() error {
	for level := 0; v.tree.Size>>(8*level) > 0; level++ {
		n := v.tree.Size >> (8 * level)
		var hashes []byte
		if w := int(n % translog.TileWidth); w > 0 {
			var err error
			if hashes, err = v.c.Tile(v.ctx, level, n/translog.TileWidth, w); err != nil {
				return err
			}
		}
		v.edge = append(v.edge, hashes)
	}
	var nodes [][]byte
	for _, id := range compact.RangeNodes(0, v.tree.Size, nil) {
		level, within := int(id.Level/8), id.Level%8
		first := id.Index << within % translog.TileWidth
		hashes := v.edge[level][32*first : 32*(first+1<<within)]
		root := translog.TileRoot(hashes)
		nodes = append(nodes, root[:])
	}
	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	r, err := factory.NewRange(0, v.tree.Size, nodes)
	if err != nil {
		return err
	}
	root, err := r.GetRootHash(nil)
	if err != nil {
		return err
	}
	if !bytes.Equal(root, v.tree.Root[:]) {
		return fmt.Errorf("%w: the right edge of %s at size %d has the root %x, the checkpoint says %x", ErrTree, v.c.base, v.tree.Size, root, v.tree.Root)
	}
	return nil
}

// check compares the hashes of a bundle with what is known to be in the tree.
func (v *verifier) check(b bundle) error {
	if len(b.entries) < translog.TileWidth {
		if !bytes.Equal(b.hashes, v.edge[0]) {
			return fmt.Errorf("%w: entries from %d on of %s", ErrTree, b.index*translog.TileWidth, v.c.base)
		}
		return nil
	}
	return v.checkTile(0, b.index, b.hashes)
}

// checkTile compares a full tile with its hash in the tile above, which is
// checked in the same way unless it is at the right edge.
func (v *verifier) checkTile(level int, index uint64, hashes []byte) error {
	above, err := v.tile(level+1, index/translog.TileWidth)
	if err != nil {
		return err
	}
	root := translog.TileRoot(hashes)
	at := index % translog.TileWidth
	if !bytes.Equal(root[:], above[32*at:][:32]) {
		return fmt.Errorf("%w: tile %d/%d of %s", ErrTree, level, index, v.c.base)
	}
	return nil
}

// tile is a tile that is in the tree.
func (v *verifier) tile(level int, index uint64) ([]byte, error) {
	if translog.Width(v.tree.Size, level, index) < translog.TileWidth {
		return v.edge[level], nil
	}
	if t := v.tiles[level]; t != nil && t.index == index {
		return t.hashes, nil
	}
	hashes, err := v.c.Tile(v.ctx, level, index, translog.TileWidth)
	if err != nil {
		return nil, err
	}
	if err := v.checkTile(level, index, hashes); err != nil {
		return nil, err
	}
	v.tiles[level] = &verified{index, hashes}
	return hashes, nil
}
