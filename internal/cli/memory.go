package cli

import (
	"os"
	"runtime/debug"
)

// AimForMemory has the collector work harder when the program's own memory comes near
// so many octets, unless GOMEMLIMIT says another number. It is no bound: what is needed
// beyond that is had.
func AimForMemory(octets int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(octets)
	}
}
