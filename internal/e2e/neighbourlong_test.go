//go:build long

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// calm is how often each of the calm publishers delivers a batch of a few pages.
const calm = 50 * time.Millisecond

// deliveries gives how long n calm publishers waited for their receipts within d.
func (c *crowd) deliveries(ctx context.Context, all []*writer, d time.Duration) []time.Duration {
	c.t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var group errgroup.Group
	for _, w := range all {
		begun := time.Now()
		w.took = func(d time.Duration) {
			mu.Lock()
			if time.Since(begun) > 2*time.Second { // the first ones open files and tables
				took = append(took, d)
			}
			mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(calm):
			}
		}
		group.Go(func() error { return w.run(ctx, c.t.Context()) })
	}
	pair.Check(c.t, group.Wait())
	slices.Sort(took)
	return took
}

func share(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// TestANoisyNeighbourCostsLittle: eight publishers deliver a few pages every now and
// then, and one delivers batches of 64 pages, and then of 500, which is what an indexer asks for while others deliver, one
// behind the other without a pause, all under the default settings. The p99 of the eight
// is less than twice what it is without that one. All publishers are played by this
// process, on the same machine: what the noisy one costs here is more than what it costs
// the indexer.
func TestANoisyNeighbourCostsLittle(t *testing.T) {
	c := newCrowd(t, 9)
	quiet, noisy := c.all[:8], c.all[8]
	alone := c.deliveries(t.Context(), quiet, 40*time.Second)
	say := func(what string, d []time.Duration) string {
		return fmt.Sprintf("%s: %d deliveries, p50 %s, p99 %s", what, len(d), share(d, 0.5).Round(10*time.Microsecond), share(d, 0.99).Round(10*time.Microsecond))
	}
	for _, much := range []int{64, 500} {
		noisy.much = much
		ctx, stop := context.WithCancel(t.Context())
		sent := 0
		noisy.took = func(time.Duration) { sent++ }
		ended := make(chan error, 1)
		go func() { ended <- noisy.run(ctx, t.Context()) }()
		beside := c.deliveries(t.Context(), quiet, 40*time.Second)
		stop()
		pair.Check(t, <-ended)
		t.Logf("%s; %s; the noisy one delivered %d batches of %d pages", say("alone", alone), say("beside", beside), sent, much)
		if sent < 20 {
			t.Errorf("the noisy one delivered %d batches", sent)
		}
		if share(beside, 0.99) >= 2*share(alone, 0.99) {
			t.Errorf("the p99 is doubled beside batches of %d", much)
		}
	}
}
