package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// many makes so many pages.
func many(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		b := binary.BigEndian.AppendUint32(nil, uint32(i))
		items[i] = Item{URLHash: sha256.Sum256(b), Digest: sha256.Sum256(append(b, 1)), Format: 1}
	}
	return items
}

// build makes a tree of items.
func build(t testing.TB, items []Item) (Tree, *rows) {
	t.Helper()
	tree, r := New([]byte("x")), newRows()
	plan, err := tree.Plan(r, items)
	if err == nil {
		err = plan.Apply(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tree, r
}

// followed is what following two trees down costs.
type followed struct{ trips, octets int }

// follow finds where ours differs from theirs, as two sides of a line would, and
// proves each answer.
func follow(ours Tree, r *rows, theirs Tree, there *rows) (found []Item, f followed, err error) {
	root, _, err := theirs.Root(there)
	if err != nil {
		return nil, f, err
	}
	differ := func(it Item) error { found = append(found, it); return nil }
	for waiting := []Below{{Hash: root}}; len(waiting) > 0; {
		n := max(0, len(waiting)-192)
		ask := slices.Clone(waiting[n:])
		waiting = waiting[:n]
		f.trips++
		for _, x := range ask {
			shown, err := theirs.Subtree(there, x.At)
			if err != nil {
				return nil, f, err
			}
			b := shown.Append(nil)
			f.octets += len(b) + len(x.At.String()) + 4
			s, err := ParseSubtree(x.At, b)
			if err != nil {
				return nil, f, err
			}
			if s.Child().Hash != x.Hash {
				return nil, f, fmt.Errorf("at %q the hash is another", x.At)
			}
			below, err := ours.Compare(r, s, differ)
			if err != nil {
				return nil, f, err
			}
			waiting = append(waiting, below...)
		}
	}
	return found, f, nil
}

func TestTenDifferencesInALargeStateCostKilobytes(t *testing.T) {
	items := many(100_000)
	tree, r := build(t, items)
	other := slices.Clone(items)
	for i := range 10 {
		other[i*9999].Digest[0] ^= 1
	}
	theirs, there := build(t, other)
	found, f, err := follow(tree, r, theirs, there)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d differences: %d octets in %d round trips", len(found), f.octets, f.trips)
	if len(found) != 10 || f.octets > 32<<10 || f.trips > 6 {
		t.Errorf("%d differences found for %d octets in %d round trips", len(found), f.octets, f.trips)
	}
}

func TestFollowingDownFindsExactlyWhatDiffers(t *testing.T) {
	all := many(400)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, len(all)).Draw(rt, "size")
		ours, theirs := map[[32]byte]Item{}, map[[32]byte]Item{}
		for _, it := range all[:size] {
			what := rapid.SampledFrom([]string{"same", "same", "same", "other", "here", "there"}).Draw(rt, "page")
			if what != "there" {
				ours[it.URLHash] = it
			}
			if what == "other" {
				it.Format = 2
			}
			if what != "here" {
				theirs[it.URLHash] = it
			}
		}
		tree, r := build(t, values(ours))
		other, there := build(t, values(theirs))
		found, _, err := follow(tree, r, other, there)
		if err != nil {
			rt.Fatal(err)
		}
		for _, it := range found {
			if old, ok := ours[it.URLHash]; ok && old == it || !ok && it.Deleted {
				rt.Fatalf("%x does not differ", it.URLHash[:4])
			}
			if ours[it.URLHash] = it; it.Deleted {
				delete(ours, it.URLHash)
			}
		}
		if len(ours) != len(theirs) {
			rt.Fatalf("%d pages afterwards, want %d", len(ours), len(theirs))
		}
		for h, it := range theirs {
			if ours[h] != it {
				rt.Fatalf("%x is %+v, want %+v", h[:4], ours[h], it)
			}
		}
	})
}

func values(m map[[32]byte]Item) []Item {
	all := make([]Item, 0, len(m))
	for _, it := range m {
		all = append(all, it)
	}
	slices.SortFunc(all, func(a, b Item) int { return bytes.Compare(a.URLHash[:], b.URLHash[:]) })
	return all
}

func FuzzParseSubtree(f *testing.F) {
	tree, r := build(f, many(40))
	for _, p := range []string{"", "0", "f"} {
		at, err := ParsePrefix(p)
		if err != nil {
			f.Fatal(err)
		}
		s, err := tree.Subtree(r, at)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p, s.Append(nil))
	}
	f.Fuzz(func(t *testing.T, p string, b []byte) {
		at, err := ParsePrefix(p)
		if err != nil {
			return
		}
		s, err := ParseSubtree(at, b)
		if err != nil {
			return
		}
		if again := s.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is printed as %x", b, again)
		}
		_, err = tree.Compare(r, s, func(Item) error { return nil })
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
}
