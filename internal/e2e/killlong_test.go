//go:build long

package e2e

import "testing"

func TestKillingEitherSideLosesAndRepeatsNothing(t *testing.T) { killRounds(t, 100, 1000) }
