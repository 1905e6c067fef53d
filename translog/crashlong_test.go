//go:build long

package translog

// crashSeeds is how many seeds a crash test runs.
const crashSeeds = 1000
