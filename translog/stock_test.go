package translog

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAStockGivesWhatIsZeroAndOnesOwn: whatever was written to what it gave before.
func TestAStockGivesWhatIsZeroAndOnesOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s stock[[2]int]
		most := 0
		for range rapid.IntRange(1, 6).Draw(t, "groups") {
			n := rapid.IntRange(0, 5*inBlock).Draw(t, "values")
			most = max(most, n)
			given := make([]*[2]int, n)
			for i := range given {
				given[i] = s.take()
				if *given[i] != ([2]int{}) {
					t.Fatalf("value %d of %d is %v", i, n, *given[i])
				}
				*given[i] = [2]int{i + 1, n}
			}
			for i, v := range given {
				if *v != ([2]int{i + 1, n}) {
					t.Fatalf("value %d of %d became %v", i, n, *v)
				}
			}
			s.reset()
		}
		if want := (most + inBlock - 1) / inBlock; len(s.blocks) != want {
			t.Fatalf("%d blocks for at most %d values, want %d", len(s.blocks), most, want)
		}
	})
}
