package tally

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestAHistogramCountsEachOnce(t *testing.T) {
	m := NewMeter(1, 2, 3) // 1, 2, 4
	var all sync.WaitGroup
	for _, v := range []float64{0, 1, 1.5, 2, 4, 4.1, 100} {
		all.Go(func() { m.Observe(v) })
	}
	all.Wait()
	h := m.Read()
	if h.Count != 7 || h.Sum != 112.6 {
		t.Errorf("%d observations, %v together, want 7 and 112.6", h.Count, h.Sum)
	}
	if want := []Bucket{{1, 2}, {2, 4}, {4, 5}}; !slices.Equal(h.Buckets, want) {
		t.Errorf("buckets %v, want %v", h.Buckets, want)
	}
}

func TestReasonsBeyondTheBoundAreOthers(t *testing.T) {
	var c Counts
	for i := range maxReasons + 10 {
		c.Add(fmt.Sprint(i))
	}
	c.Add("0")
	got := c.Read()
	if len(got) != maxReasons+1 || got[Other] != 10 || got["0"] != 2 {
		t.Errorf("%d reasons, %d others, %d of the first", len(got), got[Other], got["0"])
	}
	got["0"] = 99
	if c.Read()["0"] != 2 {
		t.Error("what was read is what is counted on")
	}
}

func TestTheNewestAreKeptInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, n := rapid.IntRange(1, 9).Draw(t, "most"), rapid.IntRange(0, 40).Draw(t, "n")
		r := NewRecent[int](most)
		var want []int
		for i := range n {
			r.Add(i)
			want = append(want, i)
		}
		want = want[max(0, len(want)-most):]
		if got := r.List(); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
