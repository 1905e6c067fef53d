//go:build long

package translog

import "github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"

// crashSeeds is how many seeds a crash test runs, and fullStride from how many
// operations one is taken to fill the disk at.
const (
	crashSeeds = 1000
	fullStride = 1
)

// faults are the ways in which each operation fails.
func faults() []fault {
	return []fault{
		{durabletest.EIO, false, 0}, {durabletest.EIO, false, 50}, {durabletest.EIO, false, 100}, {durabletest.EIO, true, 50},
		{durabletest.ENOSPC, false, 0}, {durabletest.ENOSPC, false, 50}, {durabletest.ENOSPC, false, 100}, {durabletest.ENOSPC, true, 50},
	}
}
