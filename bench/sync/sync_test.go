package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheSmallSiteIsTheSameEachTimeAndDiffersInTenPages(t *testing.T) {
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	for _, site := range []string{one, two} {
		if err := generate(t.Context(), site, leastPages); err != nil {
			t.Fatal(err)
		}
	}
	if err := differ(two, leastPages); err != nil {
		t.Fatal(err)
	}
	same, edited, gone := 0, 0, 0
	for i := range leastPages {
		a, err := os.ReadFile(page(one, i))
		if err != nil || len(a) < 200 || len(a) > 400 {
			t.Fatalf("page %d: %d octets, %v", i, len(a), err)
		}
		b, err := os.ReadFile(page(two, i))
		switch {
		case os.IsNotExist(err):
			gone++
		case string(a) == string(b):
			same++
		default:
			edited++
		}
	}
	added, err := filepath.Glob(filepath.Join(two, "*", "*.new.html"))
	if err != nil || edited != 4 || gone != 3 || len(added) != 3 || same != leastPages-7 {
		t.Errorf("%d the same, %d edited, %d gone, %d new, %v", same, edited, gone, len(added), err)
	}
}
