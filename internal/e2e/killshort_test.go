//go:build !long

package e2e

import (
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// TestKillingEitherSideLosesAndRepeatsNothing kills in the middle of pushes of
// a small site, ten times.
func TestKillingEitherSideLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 120)
	var pages []string
	for i := range 120 {
		rel, err := filepath.Rel(p.Site, p.Page(i))
		pair.Check(t, err)
		pages = append(pages, rel)
	}
	p.killRounds(10, pages, 120)
}
