package follow

import (
	"crypto/sha256"
	"fmt"
	"math/bits"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// An edge is the right edge of a tree: the perfect subtrees that it is made of,
// left to right. It grows by leaves, and no proof of the log has a part in it.
type edge struct{ r *compact.Range }

// edgeOf is the edge of a tree of that size.
func edgeOf(size uint64, hashes []envelope.Hash) (edge, error) {
	if len(hashes) != bits.OnesCount64(size) {
		return edge{}, fmt.Errorf("%d hashes at the edge of a tree of %d entries", len(hashes), size)
	}
	nodes := make([][]byte, len(hashes))
	for i := range hashes {
		nodes[i] = hashes[i][:]
	}
	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	r, err := factory.NewRange(0, size, nodes)
	return edge{r}, err
}

func (e edge) size() uint64 { return e.r.End() }

// add appends one leaf.
func (e edge) add(leaf [32]byte) error { return e.r.Append(leaf[:], nil) }

func (e edge) root() ([32]byte, error) {
	if e.r.End() == 0 {
		return sha256.Sum256(nil), nil
	}
	root, err := e.r.GetRootHash(nil)
	if err != nil {
		return [32]byte{}, err
	}
	return [32]byte(root), nil
}

func (e edge) hashes() []envelope.Hash {
	all := make([]envelope.Hash, len(e.r.Hashes()))
	for i, h := range e.r.Hashes() {
		all[i] = envelope.Hash(h)
	}
	return all
}
