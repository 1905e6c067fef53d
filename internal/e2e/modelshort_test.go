//go:build !long

package e2e

import "time"

// modelTime is how long the model begins new runs.
const modelTime = 6 * time.Second
