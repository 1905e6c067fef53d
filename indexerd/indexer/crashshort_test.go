//go:build !long

package indexer

// crashSeeds is how many seeds a crash test runs.
const crashSeeds = 50
