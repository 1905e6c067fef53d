package state

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// someHash draws hashes that meet often: few distinct ones, with prefixes in
// common that end at any nibble, and the two ends of the range.
func someHash() *rapid.Generator[[32]byte] {
	return rapid.Custom(func(t *rapid.T) (h [32]byte) {
		fill := rapid.SampledFrom([]byte{0x00, 0xff, 0xf0}).Draw(t, "fill")
		for i := range h {
			h[i] = fill
		}
		at := rapid.SampledFrom([]int{0, 0, 0, 1, 2, 15, 30, 31}).Draw(t, "octet")
		h[at] = rapid.Byte().Draw(t, "value")
		if at < 31 {
			h[at+1] = rapid.SampledFrom([]byte{0x00, 0x01, 0x10, 0xff}).Draw(t, "next")
		}
		return h
	})
}

func someItem() *rapid.Generator[Item] {
	return rapid.Custom(func(t *rapid.T) Item {
		return Item{
			URLHash: someHash().Draw(t, "h"),
			Digest:  [32]byte{rapid.ByteRange(0, 2).Draw(t, "digest")},
			Format:  rapid.ByteRange(0, 1).Draw(t, "format"),
			Deleted: rapid.IntRange(0, 9).Draw(t, "op") < 4,
		}
	})
}

func TestHistoryLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, pages := newRows(), make(map[[32]byte]Item)
		for range rapid.IntRange(1, 6).Draw(t, "batches") {
			size := rapid.SampledFrom([]int{0, 1, 16, 17, 18, 60, 120}).Draw(t, "size")
			items := rapid.SliceOfN(someItem(), size, size).Draw(t, "items")
			if rapid.IntRange(0, 3).Draw(t, "clear") == 0 { // all but a few
				stay := rapid.IntRange(0, 18).Draw(t, "stay")
				items = nil
				for h := range pages {
					if stay--; stay < 0 {
						items = append(items, Item{URLHash: h, Deleted: true})
					}
				}
			}
			p, err := someTree.Plan(r, items)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Apply(r); err != nil {
				t.Fatal(err)
			}
			for _, it := range items {
				if delete(pages, it.URLHash); !it.Deleted {
					pages[it.URLHash] = it
				}
			}
			if p.Root() != byHand(pages, 0) || p.Count() != uint64(len(pages)) {
				t.Fatalf("planned %v, %d", p.Root(), p.Count())
			}
		}
		checkTree(t, someTree, r, pages)
	})
}

func TestBucketsAndNodesTurnIntoOneAnother(t *testing.T) {
	for _, all := range [][]Item{spread(100), deep(60), append(deep(17), spread(20)...)} {
		r := newRows()
		for n, it := range all { // one by one, over every boundary
			change(t, someTree, r, it)
			checkTree(t, someTree, r, pagesOf(all[:n+1]))
		}
		for n := len(all) - 1; n >= 0; n-- {
			change(t, someTree, r, removals(all[n:n+1])...)
			checkTree(t, someTree, r, pagesOf(all[:n]))
		}
		for _, stay := range []int{17, 16, 1, 0} { // at once
			change(t, someTree, r, all...)
			change(t, someTree, r, removals(all[stay:])...)
			checkTree(t, someTree, r, pagesOf(all[:stay]))
		}
		if len(r.values) != 0 {
			t.Errorf("%d rows are left of nothing", len(r.values))
		}
	}
}

func TestTheLastItemForAPageCounts(t *testing.T) {
	a, b := spread(2)[0], spread(2)[1]
	other := b
	other.URLHash = a.URLHash
	gone := removals([]Item{a})[0]
	for _, tt := range []struct {
		name  string
		items []Item
	}{
		{"put, then put", []Item{a, b, other}},
		{"put, then removed", []Item{a, b, gone}},
		{"removed, then put", []Item{gone, b, a}},
		{"there and back", []Item{a, other, a}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, held := range [][]Item{nil, {a}, spread(40)} {
				r := newRows()
				change(t, someTree, r, held...)
				change(t, someTree, r, tt.items...)
				checkTree(t, someTree, r, pagesOf(slices.Concat(held, tt.items)))
			}
		})
	}
}

func TestPlanWritesNothing(t *testing.T) {
	r, items := newRows(), spread(500)
	change(t, someTree, r, items...)
	before, writes := maps.Clone(r.values), r.writes
	given := slices.Concat(removals(items[100:300]), spread(700)[500:])
	kept := slices.Clone(given)
	p, err := someTree.Plan(r, given)
	if err != nil {
		t.Fatal(err)
	}
	if r.writes != writes || !maps.EqualFunc(before, r.values, slices.Equal) || !slices.Equal(given, kept) {
		t.Error("Plan wrote")
	}
	again, err := someTree.Plan(r, given)
	if err != nil || again.Root() != p.Root() {
		t.Errorf("planned again: %v, %v", again.Root(), err)
	}
}

func TestNothingNewWritesNoRow(t *testing.T) {
	r, items := newRows(), spread(500)
	change(t, someTree, r, items...)
	writes := r.writes
	change(t, someTree, r, slices.Concat(items, removals(spread(600)[500:]))...)
	change(t, someTree, r)
	if r.writes != writes {
		t.Errorf("%d rows were written for nothing", r.writes-writes)
	}
}

func TestAPlanTouchesOnlyItsPaths(t *testing.T) {
	r, items := newRows(), spread(20_000) // nodes at depths 0 to 3
	change(t, someTree, r, items...)
	if r.gets != 1 || r.scans != 1 {
		t.Errorf("the first load made %d reads and %d scans", r.gets, r.scans)
	}
	r.gets, r.scans, r.writes = 0, 0, 0
	one := items[77]
	one.Digest[0] ^= 1
	change(t, someTree, r, one)
	if r.gets != 1 || r.scans > 5 || r.writes > 6 {
		t.Errorf("one change made %d reads, %d scans and %d writes", r.gets, r.scans, r.writes)
	}
}

func TestAnErrorOfTheWriterEndsApply(t *testing.T) {
	p, err := someTree.Plan(newRows(), spread(20))
	if err != nil {
		t.Fatal(err)
	}
	for left := range 20 + 1 {
		if err := p.Apply(&fullDisk{left}); !errors.Is(err, errFull) {
			t.Errorf("Apply with room for %d rows = %v", left, err)
		}
	}
	if err := p.Apply(&fullDisk{100}); err != nil {
		t.Error(err)
	}
}

var errFull = errors.New("full")

type fullDisk struct{ left int }

func (d *fullDisk) Set(_, _ []byte) error {
	if d.left--; d.left < 0 {
		return errFull
	}
	return nil
}

func (d *fullDisk) Delete(key []byte) error { return d.Set(key, nil) }

func randomItems(rng *rand.Rand, n int) []Item {
	items := make([]Item, n)
	for i := range items {
		for j := range 4 {
			binary.NativeEndian.PutUint64(items[i].URLHash[8*j:], rng.Uint64())
			binary.NativeEndian.PutUint64(items[i].Digest[8*j:], rng.Uint64())
		}
	}
	return items
}
