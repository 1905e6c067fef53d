package durabletest

import (
	"os"
	"strconv"
	"testing"
)

// SeedVariable is the environment variable that gives a crash test the seed
// that it failed with, to run that one alone.
const SeedVariable = "CRASH_SEED"

// Seeds are those that a crash test runs: 0 to n-1, or the one of SeedVariable.
func Seeds(t testing.TB, n uint64) []uint64 {
	t.Helper()
	if v := os.Getenv(SeedVariable); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
		return []uint64{seed}
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i)
	}
	return all
}
