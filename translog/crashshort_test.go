//go:build !long

package translog

import "github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"

// crashSeeds is how many seeds a crash test runs, and fullStride from how many
// operations one is taken to fill the disk at.
const (
	crashSeeds = 50
	fullStride = 4
)

// faults are the ways in which each operation fails.
func faults() []fault {
	return []fault{{durabletest.EIO, false, 50}, {durabletest.ENOSPC, true, 0}}
}
