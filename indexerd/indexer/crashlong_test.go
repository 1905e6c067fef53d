//go:build long

package indexer

// crashSeeds is how many seeds a crash test runs, and faultStride from how many
// operations one is taken to fail.
const (
	crashSeeds  = 1000
	faultStride = 1
)
