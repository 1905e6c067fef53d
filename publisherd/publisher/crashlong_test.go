//go:build long

package publisher

// crashSeeds is how many seeds a crash test runs.
const crashSeeds = 1000
