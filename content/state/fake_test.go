package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"sort"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// rows is a store in memory. It counts what is asked of it.
type rows struct {
	values       map[string][]byte
	sorted       []string // the keys, unless stale
	stale        bool
	gets, scans  int
	sets, writes int // writes counts sets and deletions
}

func newRows() *rows { return &rows{values: make(map[string][]byte)} }

func (r *rows) Get(key []byte) ([]byte, error) {
	r.gets++
	v, ok := r.values[string(key)]
	if !ok {
		return nil, durable.ErrNotFound
	}
	return bytes.Clone(v), nil
}

func (r *rows) Scan(lo, hi []byte) iter.Seq2[durable.Row, error] {
	return func(yield func(durable.Row, error) bool) {
		r.scans++
		if r.stale {
			r.sorted, r.stale = r.sorted[:0], false
			for k := range r.values {
				r.sorted = append(r.sorted, k)
			}
			slices.Sort(r.sorted)
		}
		for i := sort.SearchStrings(r.sorted, string(lo)); i < len(r.sorted) && r.sorted[i] < string(hi); i++ {
			k := r.sorted[i]
			if !yield(durable.Row{Key: []byte(k), Value: r.values[k]}, nil) {
				return
			}
		}
	}
}

func (r *rows) Set(key, value []byte) error {
	r.sets++
	r.writes++
	if _, ok := r.values[string(key)]; !ok {
		r.stale = true
	}
	r.values[string(key)] = bytes.Clone(value)
	return nil
}

func (r *rows) Delete(key []byte) error {
	r.writes++
	r.stale = true
	delete(r.values, string(key))
	return nil
}

// change plans items upon r and applies them.
func change(t rapid.TB, tree Tree, r *rows, items ...Item) *Plan {
	t.Helper()
	p, err := tree.Plan(r, items)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(r); err != nil {
		t.Fatal(err)
	}
	return p
}

// spread are n pages as URLs make them; deep are up to 256 whose hashes differ
// in the last octet alone.
func spread(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{
			URLHash: sha256.Sum256(fmt.Appendf(nil, "https://example.com/%d", i)),
			Digest:  sha256.Sum256(fmt.Appendf(nil, "%d", i)),
			Format:  uint8(i % 5),
		}
	}
	return items
}

func deep(n int) []Item {
	items := spread(n)
	for i := range items {
		items[i].URLHash = [32]byte{31: byte(i)}
	}
	return items
}

func removals(items []Item) []Item {
	gone := make([]Item, len(items))
	for i, it := range items {
		gone[i] = Item{URLHash: it.URLHash, Deleted: true}
	}
	return gone
}

// byHand is the definition, from a map and with nothing of the package in it.
func byHand(pages map[[32]byte]Item, depth int) (root [32]byte) {
	u64 := func(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	message := []byte("uzpif-oi/state/v1\x00")
	switch n := len(pages); {
	case n == 0:
		return root
	case n <= 16:
		message = append(append(message, 2), u64(n)...)
		var all []string
		for h := range pages {
			all = append(all, string(h[:]))
		}
		slices.Sort(all)
		for _, h := range all {
			it := pages[[32]byte([]byte(h))]
			sum := sha256.Sum256(slices.Concat([]byte("uzpif-oi/state/v1\x00\x01"), []byte(h), it.Digest[:], []byte{it.Format}))
			message = append(message, sum[:]...)
		}
	default:
		message = append(append(message, 3, byte(depth)), u64(n)...)
		var below [16]map[[32]byte]Item
		for h, it := range pages {
			i := fmt.Sprintf("%x", h)[depth]
			n := bytes.IndexByte([]byte("0123456789abcdef"), i)
			if below[n] == nil {
				below[n] = make(map[[32]byte]Item)
			}
			below[n][h] = it
		}
		for _, b := range below {
			sum := byHand(b, depth+1)
			message = append(message, sum[:]...)
		}
	}
	return sha256.Sum256(message)
}

// pagesOf is what items leave in an empty tree, the last one for a page counting.
func pagesOf(items []Item) map[[32]byte]Item {
	pages := make(map[[32]byte]Item)
	for _, it := range items {
		if it.Deleted {
			delete(pages, it.URLHash)
		} else {
			pages[it.URLHash] = it
		}
	}
	return pages
}

// sortedPages yields pages by ascending h.
func sortedPages(pages map[[32]byte]Item) iter.Seq2[Item, error] {
	var all []Item
	for _, it := range pages {
		all = append(all, it)
	}
	slices.SortFunc(all, func(a, b Item) int { return bytes.Compare(a.URLHash[:], b.URLHash[:]) })
	return yielded(all)
}

func yielded(items []Item) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// checkTree compares root, count, and every row with a tree built at once.
func checkTree(t rapid.TB, tree Tree, r *rows, pages map[[32]byte]Item) {
	t.Helper()
	want := envelope.Hash(byHand(pages, 0))
	root, count, err := tree.Root(r)
	if err != nil || root != want || count != uint64(len(pages)) {
		t.Fatalf("Root = %v, %d, %v, want %v, %d", root, count, err, want, len(pages))
	}
	if root, count, err := Of(sortedPages(pages)); err != nil || root != want || count != uint64(len(pages)) {
		t.Fatalf("Of = %v, %d, %v, want %v, %d", root, count, err, want, len(pages))
	}
	if root, _, err := Of(tree.Leaves(r, Prefix{})); err != nil || root != want {
		t.Fatalf("Of the leaves = %v, %v, want %v", root, err, want)
	}
	var all []Item
	for it := range sortedPages(pages) {
		all = append(all, it)
	}
	fresh := newRows()
	change(t, tree, fresh, all...)
	for k, v := range r.values {
		if other, ok := fresh.values[k]; !ok || !bytes.Equal(v, other) {
			t.Fatalf("row %x is %x; in a fresh tree %x", k, v, other)
		}
	}
	if len(r.values) != len(fresh.values) {
		t.Fatalf("%d rows, in a fresh tree %d", len(r.values), len(fresh.values))
	}
}
