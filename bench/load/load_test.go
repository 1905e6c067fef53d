package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantilesAreWithinTwoPercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, scale := range []int64{10, 5_000, 1_000_000, int64(time.Hour)} {
		var h Histogram
		all := make([]time.Duration, 10_000)
		for i := range all {
			all[i] = time.Duration(random.Int64N(scale))
			h.Add(all[i])
		}
		slices.Sort(all)
		for _, q := range []float64{0.01, 0.5, 0.99, 1} {
			exact := all[int(q*float64(len(all)))-1]
			got := h.Quantile(q)
			if got < exact || float64(got) > 1.02*float64(exact)+1 {
				t.Errorf("scale %d: quantile %v = %d, want %d", scale, q, got, exact)
			}
		}
	}
}

func TestEveryDurationHasABucket(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, 63, 64, 65, 127, 128, 1 << 40, 1<<63 - 1} {
		b := bucketOf(d)
		if d > upper(b) || b > 0 && d <= upper(b-1) {
			t.Errorf("%d fell into bucket %d, which ends at %d", d, b, upper(b))
		}
	}
}

func TestAnErrorStopsEveryAdder(t *testing.T) {
	broken := errors.New("broken")
	l := Load{Adders: 8, Size: 1, For: time.Hour}
	_, err := l.Run(context.Background(), func(ctx context.Context, _ []byte) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("Run = %v, want %v", err, broken)
	}
}

func TestEntriesOfTwoAddersDiffer(t *testing.T) {
	a, b := Entries(1, 32), Entries(2, 32)
	first := slices.Clone(a())
	if slices.Equal(first, b()) || slices.Equal(first, a()) {
		t.Error("two entries are the same")
	}
}
