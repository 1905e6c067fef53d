package translog

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestProofsOfOtherShapesAreRefused(t *testing.T) {
	p := plant(t)
	for range 300 {
		p.grow()
	}
	tr := p.check()
	root := func(n uint64) [32]byte { return [32]byte(p.peer.HashAt(n)) }
	leaf := func(n uint64) [32]byte { return [32]byte(p.peer.LeafHash(n)) }
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1, 300).Draw(t, "size")
		i := rapid.Uint64Range(0, size-1).Draw(t, "index")
		in, err := tr.inclusion(i, size)
		if err != nil {
			t.Fatal(err)
		}
		con, err := tr.consistency(i, size)
		if err != nil {
			t.Fatal(err)
		}
		for name, bad := range map[string][][32]byte{"inclusion": in, "consistency": con} {
			path := slices.Clone(bad)
			switch what := rapid.IntRange(0, 3).Draw(t, "what"); {
			case what == 0 && len(path) > 0:
				path = path[:len(path)-1]
			case what == 1 && len(path) > 0:
				path[rapid.IntRange(0, len(path)-1).Draw(t, "at")][3] ^= 1
			case what == 2 && len(path) > 0:
				path = path[1:]
			default:
				path = append(path, [32]byte{})
			}
			if name == "inclusion" {
				err = VerifyInclusion(i, size, leaf(i), path, root(size))
			} else {
				err = VerifyConsistency(i, size, path, root(i), root(size))
			}
			if !errors.Is(err, ErrProof) {
				t.Fatalf("%s of %d and %d with another path: %v", name, i, size, err)
			}
		}
		if other := (i + 1) % size; other != i {
			if err := VerifyInclusion(other, size, leaf(i), in, root(size)); err == nil {
				t.Fatalf("entry %d was accepted as %d of %d", i, other, size)
			}
		}
	})
}

func TestTheEmptyTreeHasOneRootAndNoEntries(t *testing.T) {
	some, empty := [32]byte{1}, emptyRoot()
	path := [][32]byte{some}
	for _, tt := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"from the empty root to any", VerifyConsistency(0, 5, nil, empty, some), true},
		{"from the empty tree to itself", VerifyConsistency(0, 0, nil, empty, empty), true},
		{"a tree goes on from itself", VerifyConsistency(5, 5, nil, some, some), true},
		{"size 0 with another root, at the beginning", VerifyConsistency(0, 5, nil, some, some), false},
		{"size 0 with another root, at both ends", VerifyConsistency(0, 0, nil, some, some), false},
		{"a path from size 0", VerifyConsistency(0, 5, path, empty, some), false},
		{"a path from a size to itself", VerifyConsistency(5, 5, path, some, some), false},
		{"two roots of one size", VerifyConsistency(5, 5, nil, some, empty), false},
		{"backwards", VerifyConsistency(5, 4, nil, some, some), false},
		{"backwards to nothing", VerifyConsistency(5, 0, nil, some, empty), false},
		{"no path where one is needed", VerifyConsistency(3, 5, nil, some, some), false},
		{"an entry of the empty tree", VerifyInclusion(0, 0, some, nil, empty), false},
		{"an entry behind the end", VerifyInclusion(5, 5, some, nil, some), false},
		{"the one entry", VerifyInclusion(0, 1, some, nil, some), true},
		{"an index beyond any tree", VerifyInclusion(1<<63, 1<<63, some, path, some), false},
		{"a path as long as there is", VerifyInclusion(0, 1<<63, some, make([][32]byte, 64), some), false},
	} {
		if ok := tt.err == nil; ok != tt.ok || !ok && !errors.Is(tt.err, ErrProof) {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
}

func TestWrittenProofsBelongToTheirCheckpoints(t *testing.T) {
	p := plant(t)
	for range 20 {
		p.grow()
	}
	tr := p.check()
	at := func(n uint64) Tree { return Tree{testOrigin, n, [32]byte(p.peer.HashAt(n))} }
	path, err := tr.inclusion(4, 13)
	if err != nil {
		t.Fatal(err)
	}
	in := InclusionProof{Hashes: Hashes(path), Index: 4, Size: 13}
	if err := in.Verify([32]byte(p.peer.LeafHash(4)), at(13)); err != nil {
		t.Error(err)
	}
	if err := in.Verify([32]byte(p.peer.LeafHash(4)), at(14)); !errors.Is(err, ErrProof) {
		t.Errorf("under the checkpoint of another size: %v", err)
	}
	if path, err = tr.consistency(13, 20); err != nil {
		t.Fatal(err)
	}
	con := ConsistencyProof{From: 13, Hashes: Hashes(path), To: 20}
	if err := con.Verify(at(13), at(20)); err != nil {
		t.Error(err)
	}
	for _, pair := range [][2]uint64{{12, 20}, {13, 19}} {
		if err := con.Verify(at(pair[0]), at(pair[1])); !errors.Is(err, ErrProof) {
			t.Errorf("between the checkpoints of %v: %v", pair, err)
		}
	}
}
