package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

func TestLeafRowsHaveOneForm(t *testing.T) {
	it := spread(1)[0]
	key, value := someTree.leafKey(nil, &it.URLHash), appendLeaf(nil, &it)
	if got, err := someTree.decodeLeaf(key, value); err != nil || got != it {
		t.Errorf("decoded %v, %v", got, err)
	}
	for n := range 70 {
		wrong := make([]byte, n)
		if _, err := someTree.decodeLeaf(key, wrong); (err == nil) != (n == len(value)) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("value of %d octets: %v", n, err)
		}
		if _, err := someTree.decodeLeaf(wrong, value); (err == nil) != (n == len(key)) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("key of %d octets: %v", n, err)
		}
	}
}

// Every row in turn is damaged, and everything is read.
func TestDamagedRowsAreNoticed(t *testing.T) {
	items := append(spread(100), deep(20)...)
	whole := newRows()
	change(t, someTree, whole, items...)
	for key, value := range whole.values {
		isChild := key[len(someTree.prefix)] == childRows
		isRoot := isChild && key[len(someTree.prefix)+1] == 0
		for name, damaged := range map[string][]byte{
			"missing":      nil,
			"empty":        {},
			"cut":          value[:len(value)-1],
			"longer":       append(slices.Clone(value), 0),
			"another leaf": append([]byte{value[0] ^ 1}, value[1:]...),
			"last octet":   append(slices.Clone(value[:len(value)-1]), value[len(value)-1]^1),
		} {
			r := newRows()
			for k, v := range whole.values {
				r.values[k] = v
			}
			r.stale = true
			if r.values[key] = damaged; damaged == nil {
				delete(r.values, key)
			}
			_, _, rootErr := someTree.Root(r)
			_, planErr := someTree.Plan(r, slices.Concat(spread(200)[100:], removals(items)))
			if isRoot != errors.Is(rootErr, ErrCorrupt) && (name == "missing" || name == "empty") {
				t.Errorf("%s row %x: Root: %v", name, key, rootErr)
			}
			if !errors.Is(planErr, ErrCorrupt) {
				t.Errorf("%s row %x: Plan: %v", name, key, planErr)
			}
		}
	}
}

func TestAStrayLeafIsNoticed(t *testing.T) {
	for _, tt := range []struct {
		name string
		held int
	}{
		{"in a bucket that its node does not know", 40},
		{"as the seventeenth of a tree without a node", 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRows()
			change(t, someTree, r, spread(tt.held)...)
			stray := spread(tt.held + 1)[tt.held]
			if err := r.Set(someTree.leafKey(nil, &stray.URLHash), appendLeaf(nil, &stray)); err != nil {
				t.Fatal(err)
			}
			if _, err := someTree.Plan(r, []Item{stray}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("Plan: %v", err)
			}
			if root, _, err := someTree.Root(r); tt.held == 16 && !errors.Is(err, ErrCorrupt) {
				t.Errorf("Root: %v, %v", root, err)
			}
		})
	}
}

func TestNodeRowRefusals(t *testing.T) {
	child := func(count uint64) Child { return Child{count, [32]byte{1}} }
	for _, tt := range []struct {
		name string
		at   string
		c    children
		ok   bool
	}{
		{"17 leaves below one child", "", children{5: child(17)}, true},
		{"16 leaves are a bucket", "", children{0: child(15), 15: child(1)}, false},
		{"a child without a hash", "", children{0: child(17), 1: {Count: 1}}, false},
		{"the most that counts", "", children{0: child(1 << 52), 1: child(1 << 52)}, true},
		{"more than counts", "", children{0: child(1<<52 + 1)}, false},
		{"a sum that overflows", "", children{0: child(1 << 63), 1: child(1 << 63), 2: child(17)}, false},
		{"the fullest child at depth 63", prefixOf(62), children{0: child(16), 1: child(1)}, true},
		{"a node at depth 63", prefixOf(62), children{0: child(17)}, false},
		{"at depth 63 there is no node", prefixOf(63), children{0: child(17)}, false},
		{"nor at depth 64", prefixOf(64), children{0: child(17)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, err := ParsePrefix(tt.at)
			if err != nil {
				t.Fatal(err)
			}
			c, err := decodeNode(at, appendNode(nil, &tt.c))
			if tt.ok && (err != nil || c != tt.c) || !tt.ok && !errors.Is(err, ErrCorrupt) {
				t.Errorf("decoded %v, %v", c, err)
			}
		})
	}
}

func prefixOf(depth int) string { return string(bytes.Repeat([]byte("a"), depth)) }

func TestChildRowRefusals(t *testing.T) {
	for _, tt := range []struct {
		name  string
		depth int
		row   []byte
		ok    bool
	}{
		{"one leaf", 1, slices.Concat([]byte{1}, hashOf(1)), true},
		{"128 leaves", 1, slices.Concat([]byte{0x80, 1}, hashOf(1)), true},
		{"16 leaves at depth 63", 63, slices.Concat([]byte{16}, hashOf(1)), true},
		{"17 leaves at depth 63", 63, slices.Concat([]byte{17}, hashOf(1)), false},
		{"two leaves at depth 64", 64, slices.Concat([]byte{2}, hashOf(1)), false},
		{"the most that counts", 1, slices.Concat(binary.AppendUvarint(nil, 1<<52), hashOf(1)), true},
		{"more than counts", 1, slices.Concat(binary.AppendUvarint(nil, 1<<52+1), hashOf(1)), false},
		{"a count that overflows", 1, slices.Concat(bytes.Repeat([]byte{0xff}, 10), []byte{1}, hashOf(1)), false},
		{"a count in more octets than it needs", 1, slices.Concat([]byte{0x81, 0}, hashOf(1)), false},
		{"no leaves", 1, slices.Concat([]byte{0}, hashOf(1)), false},
		{"no hash", 1, slices.Concat([]byte{1}, hashOf(0)), false},
		{"a hash too short", 1, slices.Concat([]byte{1}, hashOf(1)[1:]), false},
		{"a hash too long", 1, slices.Concat([]byte{1}, hashOf(1), []byte{0}), false},
		{"nothing", 1, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, err := ParsePrefix(prefixOf(tt.depth))
			if err != nil {
				t.Fatal(err)
			}
			c, err := decodeChild(&at, tt.row)
			if tt.ok && (err != nil || !bytes.Equal(appendChild(nil, &c), tt.row)) || !tt.ok && !errors.Is(err, ErrCorrupt) {
				t.Errorf("decoded %v, %v", c, err)
			}
		})
	}
}

func hashOf(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

// FuzzRows gives a tree a hostile row in place of the root's or of that of a child at
// the left edge, and reads one as a node on the wire: no panic, and nothing but
// ErrCorrupt or what is printed back as it was.
func FuzzRows(f *testing.F) {
	r := newRows()
	change(f, someTree, r, append(spread(400), deep(256)...)...)
	for key, row := range r.values {
		if at := key[len(someTree.prefix):]; at[0] == childRows {
			f.Add(at[1], row)
		}
	}
	f.Add(uint8(0), binary.AppendUvarint(nil, 1<<52))
	f.Add(uint8(0), appendNode(nil, &children{0: {1 << 52, [32]byte{1}}}))
	f.Add(uint8(62), appendNode(nil, &children{0: {1 << 52, [32]byte{1}}}))
	changes := slices.Concat(removals(deep(256)), removals(spread(20)), spread(600)[500:])
	f.Fuzz(func(t *testing.T, depth uint8, row []byte) {
		at := Prefix{depth: depth % (maxDepth + 1)}
		n, err := decodeNode(at, row)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil && !bytes.Equal(appendNode(nil, &n), row) {
			t.Fatalf("%x is printed as %x", row, appendNode(nil, &n))
		}
		c, err := decodeChild(&at, row)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil && !bytes.Equal(appendChild(nil, &c), row) {
			t.Fatalf("%x is printed as %x", row, appendChild(nil, &c))
		}
		hostile := newRows()
		for k, v := range r.values {
			hostile.values[k] = v
		}
		hostile.stale = true
		hostile.values[string(someTree.childKey(nil, &at))] = row
		if _, _, err := someTree.Root(hostile); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if _, err := someTree.Plan(hostile, changes); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
