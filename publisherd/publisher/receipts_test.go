package publisher

import (
	"fmt"
	"testing"
)

func TestTheNewestReceiptsAreListed(t *testing.T) {
	x := newFixture(t)
	for i := range 5 {
		x.write("a", fmt.Sprint("text ", i))
		_, err := x.push()
		check(t, err)
	}
	all, err := x.p.Receipts(0)
	check(t, err)
	if len(all.Receipts) != 5 || all.Older != 0 {
		t.Fatalf("%d receipts, and %d older ones", len(all.Receipts), all.Older)
	}
	for limit := range 7 {
		list, err := x.p.Receipts(limit)
		check(t, err)
		want := all.Receipts
		if limit > 0 {
			want = want[max(5-limit, 0):]
		}
		if len(list.Receipts) != len(want) || list.Older != 5-len(want) {
			t.Errorf("limit %d: %d receipts, and %d older ones", limit, len(list.Receipts), list.Older)
			continue
		}
		for i := range want {
			if list.Receipts[i].Receipt != want[i].Receipt || i > 0 && list.Receipts[i].TreeSize <= list.Receipts[i-1].TreeSize {
				t.Errorf("limit %d: line %d is of the tree of %d entries", limit, i, list.Receipts[i].TreeSize)
			}
		}
	}
}
