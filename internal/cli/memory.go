package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// AimForMemory has the collector work harder when the program's own memory comes near
// so many octets, unless GOMEMLIMIT says another number. It is no bound: what is needed
// beyond that is had.
func AimForMemory(octets int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(octets)
	}
}

// How much garbage may wait to be collected, of what is in use: half, as far as that is
// no more than mostGarbage, and then less, down to leastPercent.
const (
	mostPercent, leastPercent = 50, 30
	mostGarbage               = 64 << 20
)

// garbagePercent is what debug.SetGCPercent is told with so many octets in use.
func garbagePercent(inUse uint64) int {
	return int(min(mostPercent, max(leastPercent, 100*mostGarbage/max(inUse, 1))))
}

// KeepGarbageLow has the collector run more often than it would by itself, until ctx
// ends, unless GOGC says how often. Most of what an indexer has in use are the store's
// arenas, in which there is nothing to look through, and, with thousands of sessions,
// those and their stacks: to collect twice as often costs little, and Go's own 100 takes
// a third more memory for each session.
func KeepGarbageLow(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(mostPercent)
	set := mostPercent
	look := time.NewTicker(2 * time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		// Each time that it is set the world stops for some microseconds.
		if now := garbagePercent(inUse()); now < set-2 || now > set+2 {
			debug.SetGCPercent(now)
			set = now
		}
	}
}

// inUse is what the last collection left, stacks with it, in octets.
func inUse() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(live)
	return live[0].Value.Uint64() + live[1].Value.Uint64()
}
