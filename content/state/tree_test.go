package state

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

var someTree = New([]byte("S\x01"))

// The roots were computed from the definition by a Python program.
func TestRootVectors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		items []Item
		root  string
	}{
		{"the empty tree is zero", nil, "0000000000000000000000000000000000000000000000000000000000000000"},
		{"one page", spread(1), "41b69314b40be461e0bbd88e812eca9ac10971140a2054f8c19abc1648dcfde1"},
		{"16 pages are a bucket", spread(16), "ccef7486780025aea14eaa4a5c5c0b35ec099234e36f81da65793e71641f3590"},
		{"17 pages are a node", spread(17), "585948c6ac8bd24450087900b3090cfe57b8bf4b05499fe9afaf939463cd2c53"},
		{"300 pages", spread(300), "122e609cfe1298c63168befe2d6afa26859533c802237bf4236165b47fe03826"},
		{"5000 pages", spread(5000), "4112d91923ad0d75f6454fa6fb12c86c014a619b512bcf05a3bbc08c1e9c6dad"},
		{"16 pages with one long prefix", deep(16), "2b27902c90efa06070cd16eaf5b89fd72e53307d29c840316d032ef5b784ca0b"},
		{"17 pages with one long prefix", deep(17), "f04c9cb64f082f127c0c46873a3ca2c5bc8eac910eafe5524032aacbb26a5cb3"},
		{"the fullest node at depth 62", deep(256), "b5d81865a6622236f7c04b0e1be8e0d6ba62b8075fa8085e1741ce917c2af8b7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, err := envelope.ParseHash("sha256:" + tt.root)
			if err != nil {
				t.Fatal(err)
			}
			r := newRows()
			p := change(t, someTree, r, tt.items...)
			if p.Root() != want || p.Count() != uint64(len(tt.items)) {
				t.Errorf("planned %v, %d, want %v, %d", p.Root(), p.Count(), want, len(tt.items))
			}
			if root, n, err := someTree.Root(r); err != nil || root != want || n != uint64(len(tt.items)) {
				t.Errorf("Root = %v, %d, %v, want %v, %d", root, n, err, want, len(tt.items))
			}
			checkTree(t, someTree, r, pagesOf(tt.items))
		})
	}
}

func TestOfRefusesWhatIsNoTree(t *testing.T) {
	items := spread(40)
	slices.SortFunc(items, func(a, b Item) int { return bytes.Compare(a.URLHash[:], b.URLHash[:]) })
	lost := errors.New("lost")
	fails := func(yield func(Item, error) bool) {
		for _, it := range items[:20] {
			if !yield(it, nil) {
				return
			}
		}
		yield(Item{}, lost)
	}
	swapped, twice, gone := slices.Clone(items), slices.Insert(slices.Clone(items), 30, items[29]), slices.Clone(items)
	swapped[38], swapped[39] = items[39], items[38]
	gone[3].Deleted = true
	for _, tt := range []struct {
		name  string
		items iter.Seq2[Item, error]
		want  string
	}{
		{"out of order at the end", yielded(swapped), "out of order"},
		{"one page twice", yielded(twice), "out of order"},
		{"a removal", yielded(gone), "is a removal"},
		{"a source that fails", fails, "lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := Of(tt.items); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Of: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLookupFindsWhatIsThere(t *testing.T) {
	r, items := newRows(), spread(100)
	change(t, someTree, r, items[:50]...)
	for i, want := range items {
		got, ok, err := someTree.Lookup(r, want.URLHash)
		if err != nil || ok != (i < 50) || ok && got != want {
			t.Errorf("Lookup %d = %v, %t, %v", i, got, ok, err)
		}
	}
}

func TestTreesDoNotMeet(t *testing.T) {
	r := newRows()
	trees := []Tree{New([]byte("S")), New([]byte("S\x00")), New([]byte("S\x01\x00")), New([]byte("T\xff\xff"))}
	for i, tree := range trees[1:] {
		change(t, tree, r, spread(20*(i+1))...)
	}
	for i, tree := range trees[1:] {
		if _, n, err := tree.Root(r); err != nil || n != uint64(20*(i+1)) {
			t.Errorf("tree %d has %d leaves, %v", i, n, err)
		}
		lo, hi := tree.Bounds()
		if string(lo) >= string(hi) || !bytes.HasPrefix(lo, tree.prefix) || !bytes.HasPrefix(hi, tree.prefix) {
			t.Errorf("bounds %x to %x", lo, hi)
		}
		change(t, tree, r, removals(spread(20*(i+1)))...)
		for range r.Scan(lo, hi) {
			t.Errorf("tree %d left a row behind", i)
		}
	}
	if len(r.values) != 0 {
		t.Errorf("%d rows are left", len(r.values))
	}
}

// A walk by Children and Leaves, as two sides make it to find what differs,
// sees every page once, and hashes that its own arithmetic gives.
func TestChildrenLeadToEveryLeaf(t *testing.T) {
	items := append(spread(3000), deep(256)...)
	r := newRows()
	change(t, someTree, r, items...)
	var found []Item
	var walk func(p Prefix) Child
	walk = func(p Prefix) Child {
		c, ok, err := someTree.Children(r, p)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			var leaves []leaf
			for it, err := range someTree.Leaves(r, p) {
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, it)
				leaves = append(leaves, leaf{it.URLHash, leafHash(&it.URLHash, &it.Digest, it.Format)})
			}
			return bucket(leaves)
		}
		for i, want := range c {
			if got := walk(p.Child(i)); got != want {
				t.Fatalf("child %x of %q is %v, its parent says %v", i, p, got, want)
			}
		}
		return node(p.depth, (*children)(&c))
	}
	top := walk(Prefix{})
	if root, n, err := someTree.Root(r); err != nil || top != (Child{n, root}) {
		t.Errorf("walked to %v, root %v of %d, %v", top, root, n, err)
	}
	slices.SortFunc(items, func(a, b Item) int { return bytes.Compare(a.URLHash[:], b.URLHash[:]) })
	if !slices.Equal(found, items) {
		t.Errorf("found %d items, want %d, in order", len(found), len(items))
	}
}

func TestPrefixesAreAsPrinted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[0-9a-f]{0,64}`).Draw(t, "prefix")
		p, err := ParsePrefix(s)
		if err != nil || p.String() != s || p.Depth() != len(s) {
			t.Fatalf("ParsePrefix(%q) = %q, %v", s, p, err)
		}
		grown := Prefix{}
		for _, c := range s {
			grown = grown.Child(strings.IndexRune("0123456789abcdef", c))
		}
		if grown != p {
			t.Fatalf("grown to %q, parsed %q", grown, p)
		}
		h := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "h"))
		if rapid.Bool().Draw(t, "near") {
			copy(h[:], p.path[:(p.depth+1)/2])
		}
		hex := envelope.Hash(h).String()[len("sha256:"):]
		if got, want := p.Contains(&h), strings.HasPrefix(hex, s); got != want {
			t.Fatalf("%q contains %s: %t", s, hex, got)
		}
		lo, hi := someTree.leafBounds(&p)
		key := someTree.leafKey(nil, &h)
		if got := string(lo) <= string(key) && string(key) < string(hi); got != p.Contains(&h) {
			t.Fatalf("%x is in the rows from %x to %x: %t", h, lo, hi, got)
		}
	})
	for _, s := range []string{"A", "0x", "g", " 1", "-", strings.Repeat("0", 65), "é"} {
		if p, err := ParsePrefix(s); err == nil {
			t.Errorf("ParsePrefix(%q) = %q", s, p)
		}
	}
}

func TestLeavesAfterGoesOnWhereItStopped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRows()
		items := rapid.SliceOfN(someItem(), 0, 30).Draw(t, "items")
		plan, err := someTree.Plan(r, items)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Apply(r); err != nil {
			t.Fatal(err)
		}
		var whole, pieces []Item
		for it := range someTree.Leaves(r, Prefix{}) {
			whole = append(whole, it)
		}
		var after *[32]byte
		for more := true; more; {
			more = false
			for it, err := range someTree.LeavesAfter(r, after) {
				if err != nil {
					t.Fatal(err)
				}
				if more = len(pieces)%3 == 2; more {
					pieces = append(pieces, it)
					after = &pieces[len(pieces)-1].URLHash
					break
				}
				pieces = append(pieces, it)
			}
		}
		if !slices.Equal(whole, pieces) {
			t.Fatalf("%d items in pieces, %d at once", len(pieces), len(whole))
		}
	})
}
