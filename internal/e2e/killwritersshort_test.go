//go:build !long

package e2e

import "testing"

// TestKillingTheIndexerUnderManyWritersContradictsNothing kills it twenty times.
func TestKillingTheIndexerUnderManyWritersContradictsNothing(t *testing.T) { killWriters(t, 20, 16) }
