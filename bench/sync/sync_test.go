package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRsyncsOctetsAreReadFromItsStatistics(t *testing.T) {
	n, err := moved([]byte("Number of files: 3\nTotal bytes sent: 1,234\nTotal bytes received: 5,000,006\n\nsent 1,234 bytes\n"))
	if err != nil || n != 5_001_240 {
		t.Errorf("%d, %v", n, err)
	}
	for _, stats := range []string{"", "Total bytes sent: 1\n", "Total bytes sent: x\nTotal bytes received: 1\n"} {
		if n, err := moved([]byte(stats)); err == nil {
			t.Errorf("%q: %d", stats, n)
		}
	}
}

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

func TestResultsThatDifferBetweenIndexersAreNoMeasurement(t *testing.T) {
	const a, b = `{"sent":7,"wire_bytes_out":10,"wire_bytes_in":5,"round_trips":3}` + "\n", `{"sent":6}` + "\n"
	var ph phase
	if err := ph.add([]byte(a+a), 2); err != nil || ph.Octets != 15 || ph.RoundTrips != 5 {
		t.Errorf("%+v, %v", ph, err)
	}
	for _, lines := range []string{a, a + b, a + a + a} {
		if err := new(phase).add([]byte(lines), 2); err == nil {
			t.Errorf("%s was taken", lines)
		}
	}
}
