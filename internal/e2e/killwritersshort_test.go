//go:build !long

package e2e

import "testing"

// TestKillingTheIndexerUnderManyWritersContradictsNothing kills it twenty times.
func TestKillingTheIndexerUnderManyWritersContradictsNothing(t *testing.T) {
	t.Parallel()
	killWriters(t, 20, 16)
}
