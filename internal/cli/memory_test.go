package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestLessGarbageOfMore(t *testing.T) {
	for _, tt := range []struct {
		inUse uint64 // MiB
		want  int    // percent
	}{{0, 50}, {1, 50}, {128, 50}, {160, 40}, {214, 30}, {100_000, 30}} {
		if got := garbagePercent(tt.inUse << 20); got < tt.want-1 || got > tt.want {
			t.Errorf("%d MiB in use: %d percent, want %d", tt.inUse, got, tt.want)
		}
	}
}

// TestGarbageFollowsWhatIsInUse: the percentage falls when much is in use, and comes
// back.
func TestGarbageFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- KeepGarbageLow(ctx) }()
		synctest.Wait()
		if p := percent(); p != mostPercent {
			t.Errorf("%d percent at first, want %d", p, mostPercent)
		}
		held := make([]byte, 300<<20)
		debug.FreeOSMemory() // collects
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if p := percent(); p != leastPercent {
			t.Errorf("%d percent with 300 MiB held, want %d", p, leastPercent)
		}
		runtime.KeepAlive(held)
		debug.FreeOSMemory()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if p := percent(); p != mostPercent {
			t.Errorf("%d percent behind that, want %d", p, mostPercent)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
