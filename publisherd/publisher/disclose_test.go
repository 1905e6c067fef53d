package publisher

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestADisclosureHasEachSetInTheOrderOfTheLog makes each set anew from what is
// disclosed, and compares it with what the log says.
func TestADisclosureHasEachSetInTheOrderOfTheLog(t *testing.T) {
	x := newFixture(t)
	for _, name := range []string{"a", "b", "c", "a"} {
		x.write(name, "of "+name+strings.Repeat(", again", x.receipts()))
		if _, err := x.push(); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := x.p.Disclose(x.rel.Pair.Grant.Object.ID.String())
	check(t, err)
	var d struct {
		Sets []disclosedSet `json:"sets"`
	}
	check(t, json.Unmarshal(raw, &d))
	logged := make(map[uint64]translog.Set)
	for a, err := range x.p.receiptRows() {
		check(t, err)
		body, _, err := receiptOf(a)
		check(t, err)
		for _, e := range body.Entries {
			logged[e.Index] = translog.Set{Count: e.Count, Root: e.Root}
		}
	}
	named, last := 0, uint64(0)
	for i, set := range d.Sets {
		if set.Index <= last && i > 0 {
			t.Errorf("set %d comes behind set %d", set.Index, last)
		}
		last = set.Index
		var leaves [][32]byte
		for _, p := range set.Pages {
			leaf := [32]byte(p.Leaf)
			if p.URL != "" {
				named++
				leaf = x.rel.LeafKey.Leaf(p.Op, x.cursor().JournalEpoch, p.Revision, p.URL, p.Digest).Hash()
			}
			leaves = append(leaves, leaf)
		}
		if got := translog.SetOf(leaves); got != logged[set.Index] {
			t.Errorf("set %d has %d pages and the root %s, the log says %+v", set.Index, got.Count, got.Root, logged[set.Index])
		}
	}
	if len(d.Sets) != 4 || named != 3 {
		t.Errorf("%d sets that name %d pages, want 4 that name each of 3 where it changed last:\n%s", len(d.Sets), named, raw)
	}
}

// TestADisclosureThatNoAuditorReadsIsNotMade has less room than it needs.
func TestADisclosureThatNoAuditorReadsIsNotMade(t *testing.T) {
	x := newFixture(t)
	x.write("a", "a page")
	if _, err := x.push(); err != nil {
		t.Fatal(err)
	}
	grant := x.rel.Pair.Grant.Object.ID.String()
	raw, err := x.p.Disclose(grant)
	check(t, err)
	for _, limit := range []int{0, 100, len(raw) - 1} {
		if _, err := x.p.disclose(grant, limit); err == nil || !strings.Contains(err.Error(), "auditor") {
			t.Errorf("of %d octets where %d are read: %v", len(raw), limit, err)
		}
	}
	if again, err := x.p.disclose(grant, len(raw)); err != nil || string(again) != string(raw) {
		t.Errorf("with as much room as it needs: %v", err)
	}
}
