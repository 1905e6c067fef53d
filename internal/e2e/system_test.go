//go:build system

package e2e

import "testing"

// TestRealPages runs the scripts that need what Debian packages install: the
// 4,424 pages of cppreference, and curl.
func TestRealPages(t *testing.T) { runScripts(t, "e2e-system") }
