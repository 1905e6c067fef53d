//go:build long

package e2e

import "time"

// modelTime is how long the model begins new runs, of -rapid.checks at the most.
const modelTime = 10 * time.Minute
