package fsck

import (
	"crypto/sha256"
	"slices"

	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A frontier is the perfect subtrees of a tree that grows, left to right.
type frontier struct {
	size  uint64
	nodes []node
}

type node struct {
	level int
	hash  [32]byte
}

// add appends a perfect subtree of 2^level entries. size is a multiple of that.
func (f *frontier) add(level int, hash [32]byte) {
	f.size += 1 << level
	for n := len(f.nodes); n > 0 && f.nodes[n-1].level == level; n = len(f.nodes) {
		hash = [32]byte(rfc6962.DefaultHasher.HashChildren(f.nodes[n-1].hash[:], hash[:]))
		f.nodes = f.nodes[:n-1]
		level++
	}
	f.nodes = append(f.nodes, node{level, hash})
}

// addLeaves appends entries by their hashes, 32 octets each.
func (f *frontier) addLeaves(hashes []byte) {
	for h := range slices.Chunk(hashes, 32) {
		f.add(0, [32]byte(h))
	}
}

// A Frontier is where a check has come to, at the end of a bundle: of each level
// the hashes of the tile that is not full yet. That of level 0 is empty.
type Frontier [][]byte

// maxLevels is more than a tree of 2^53 entries has.
const maxLevels = 7

// Valid reports whether f has the form of a Frontier.
func (f Frontier) Valid() bool {
	for level, hashes := range f {
		if len(hashes)%32 != 0 || len(hashes) >= 32*translog.TileWidth || level == 0 && len(hashes) > 0 {
			return false
		}
	}
	return len(f) <= maxLevels
}

// Size is the number of entries before f, which is Valid.
func (f Frontier) Size() (n uint64) {
	for level, hashes := range f {
		n += uint64(len(hashes)/32) << (8 * level)
	}
	return n
}

// Root is that of the tree of the entries before f.
func (f Frontier) Root() [32]byte {
	all := f.open()
	return all.root()
}

// open is the same as perfect subtrees.
func (f Frontier) open() frontier {
	var all frontier
	for level := len(f) - 1; level >= 0; level-- {
		for h := range slices.Chunk(f[level], 32) {
			all.add(8*level, [32]byte(h))
		}
	}
	return all
}

// clone is a frontier that grows on its own.
func (f *frontier) clone() *frontier { return &frontier{f.size, slices.Clone(f.nodes)} }

// root is the root of the tree so far.
func (f *frontier) root() [32]byte {
	if len(f.nodes) == 0 {
		return sha256.Sum256(nil)
	}
	last := len(f.nodes) - 1
	hash := f.nodes[last].hash
	for i := last - 1; i >= 0; i-- {
		hash = [32]byte(rfc6962.DefaultHasher.HashChildren(f.nodes[i].hash[:], hash[:]))
	}
	return hash
}
