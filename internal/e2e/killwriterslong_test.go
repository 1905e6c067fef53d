//go:build long

package e2e

import "testing"

// TestKillingTheIndexerUnderManyWritersContradictsNothing kills it a thousand
// times.
func TestKillingTheIndexerUnderManyWritersContradictsNothing(t *testing.T) { killWriters(t, 1000, 64) }
