package translog

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// A planted tree grows without a log around it, beside the reference of
// package merkle.
type planted struct {
	t    testing.TB
	rows *durable.Batch
	edge *edge
	peer *testonly.Tree
}

func plant(t testing.TB) *planted {
	s, err := durable.Open("/data/store", durable.Options{FS: durabletest.New().FS(), Logger: quiet, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p := &planted{t: t, rows: s.NewBatch(), peer: testonly.New(rfc6962.DefaultHasher)}
	if p.edge, err = loadEdge(p.rows, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.rows.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *planted) grow() {
	entry := fmt.Appendf(nil, "entry %d", p.edge.size)
	if err := p.rows.Set(entryKey(p.edge.size), entry); err != nil {
		p.t.Fatal(err)
	}
	err := p.edge.grow(LeafHash(entry), func(level int, index uint64, tile []byte) error {
		return p.rows.Set(tileKey(level, index), tile)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.peer.AppendData(entry)
}

// check compares root, and what a restart would load.
func (p *planted) check() tree {
	p.t.Helper()
	size := p.edge.size
	root, err := p.edge.root()
	if err != nil || !bytes.Equal(root[:], p.peer.HashAt(size)) {
		p.t.Fatalf("root at %d = %x, %v; want %x", size, root, err, p.peer.HashAt(size))
	}
	loaded, err := loadEdge(p.rows, size)
	if err != nil || len(loaded.open) != len(p.edge.open) {
		p.t.Fatalf("the edge loaded at %d: %v", size, err)
	}
	for i := range loaded.open {
		if !bytes.Equal(loaded.open[i], p.edge.open[i]) {
			p.t.Fatalf("the edge loaded at %d differs at level %d", size, i)
		}
	}
	if !slices.EqualFunc(loaded.subtrees.Hashes(), p.edge.subtrees.Hashes(), bytes.Equal) {
		p.t.Fatalf("the edge loaded at %d has other subtrees", size)
	}
	return p.edge.tree(p.rows)
}

func samePath(a [][32]byte, b [][]byte) bool {
	return slices.EqualFunc(a, b, func(x [32]byte, y []byte) bool { return bytes.Equal(x[:], y) })
}

// TestEveryTreeUpTo1025IsThatOfRFC6962 compares each root, and proofs from and
// to everywhere, with package merkle's reference tree; the definitions of the
// RFC itself and x/mod's tlog check the small ones and the largest.
func TestEveryTreeUpTo1025IsThatOfRFC6962(t *testing.T) {
	p := plant(t)
	var leaves [][32]byte
	rng := random(1)
	for size := uint64(0); size <= 1025; size++ {
		if size > 0 {
			p.grow()
			leaves = append(leaves, [32]byte(p.peer.LeafHash(size-1)))
		}
		tr := p.check()
		for i := range size {
			if size > 70 && i > 1 && i < size-2 && rng.IntN(100) > 0 {
				continue
			}
			p.checkProofs(tr, i, size)
			if size <= 70 {
				path, err := tr.inclusion(i, size)
				if want := auditPath(leaves, int(i)); err != nil || !samePath(path, want) {
					t.Fatalf("path of %d in %d is not that of the definition", i, size)
				}
			}
		}
		if root, _ := tr.rootAt(size); size <= 70 && !bytes.Equal(root[:], mth(leaves)) {
			t.Fatalf("root at %d is not that of the definition", size)
		}
	}
	p.checkTlog()
}

// TestTreesAroundAThirdLevelOfTiles does the same where 65,536 entries fill the
// first tile of level 1.
func TestTreesAroundAThirdLevelOfTiles(t *testing.T) {
	p := plant(t)
	for size := uint64(1); size <= 66000; size++ {
		p.grow()
		if size&(size-1) != 0 && size&(size+1) != 0 && (size-1)&(size-2) != 0 && size != 66000 {
			continue
		}
		tr := p.check()
		for _, i := range []uint64{0, 1, 255, 256, 257, 4095, 65535, size / 2, size - 1} {
			if i < size {
				p.checkProofs(tr, i, size)
			}
		}
	}
}

func (p *planted) checkProofs(tr tree, i, size uint64) {
	p.t.Helper()
	path, err := tr.inclusion(i, size)
	want, _ := p.peer.InclusionProof(i, size)
	if err != nil || !samePath(path, want) {
		p.t.Fatalf("inclusion of %d in %d: %v", i, size, err)
	}
	root := [32]byte(p.peer.HashAt(size))
	if err := VerifyInclusion(i, size, [32]byte(p.peer.LeafHash(i)), path, root); err != nil {
		p.t.Fatal(err)
	}
	path, err = tr.consistency(i, size)
	want, _ = p.peer.ConsistencyProof(i, size)
	if err != nil || !samePath(path, want) {
		p.t.Fatalf("consistency from %d to %d: %v", i, size, err)
	}
	old, err := tr.rootAt(i)
	if err != nil || !bytes.Equal(old[:], p.peer.HashAt(i)) {
		p.t.Fatalf("root at %d from size %d = %x, %v", i, size, old, err)
	}
	if err := VerifyConsistency(i, size, path, old, root); err != nil {
		p.t.Fatal(err)
	}
}

// checkTlog compares the tiles and hashes of the tree with those that x/mod
// stores for the same entries.
func (p *planted) checkTlog() {
	p.t.Helper()
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			out[i] = stored[x]
		}
		return out, nil
	})
	for n := range int64(p.edge.size) {
		h, err := tlog.StoredHashesForRecordHash(n, tlog.Hash(p.peer.LeafHash(uint64(n))), reader)
		if err != nil {
			p.t.Fatal(err)
		}
		stored = append(stored, h...)
	}
	tr := p.edge.tree(p.rows)
	for _, tile := range tlog.NewTiles(tileHeight, 0, int64(p.edge.size)) {
		want, err := tlog.ReadTileData(tile, reader)
		if err != nil {
			p.t.Fatal(err)
		}
		got, err := tr.tile(tile.L, uint64(tile.N))
		if err != nil || !bytes.Equal(got[:tile.W*32], want) {
			p.t.Errorf("tile %s differs: %v", tile.Path(), err)
		}
	}
}

// TestAClonedEdgeLeavesTheOriginal: what a commit that fails has grown is not
// seen by the edge it grew from, nor by readers.
func TestAClonedEdgeLeavesTheOriginal(t *testing.T) {
	p := plant(t)
	for range 700 {
		p.grow()
	}
	before := p.check()
	for range 3 {
		c, err := p.edge.clone()
		if err != nil {
			t.Fatal(err)
		}
		for i := range byte(250) {
			if err := c.grow([32]byte{i, 1}, func(int, uint64, []byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		p.check()
	}
	p.grow()
	p.check()
	root, err := before.rootAt(700)
	if err != nil || !bytes.Equal(root[:], p.peer.HashAt(700)) {
		t.Errorf("a reader's root at 700 is now %x, %v", root, err)
	}
}
