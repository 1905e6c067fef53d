package monitor

import (
	"context"
	"time"
)

// Sample calls look at once, and every SampleEvery until ctx ends.
func Sample(ctx context.Context, look func()) error {
	tick := time.NewTicker(SampleEvery)
	defer tick.Stop()
	for {
		look()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
