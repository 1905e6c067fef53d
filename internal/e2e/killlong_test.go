//go:build long

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// realPages is where Debian's cppreference-doc-en-html has its 4,424 pages.
const realPages = "/usr/share/cppreference/doc/html/en"

// TestKillingEitherSideLosesAndRepeatsNothing kills in the middle of pushes of
// cppreference, a hundred times.
func TestKillingEitherSideLosesAndRepeatsNothing(t *testing.T) {
	if _, err := os.Stat(realPages); err != nil {
		t.Fatalf("%v: install the Debian package cppreference-doc-en-html", err)
	}
	p := newPrograms(t, 1)
	pair.Check(t, os.RemoveAll(p.Site))
	pair.CopyDir(t, realPages, p.Site)
	var pages []string
	pair.Check(t, filepath.WalkDir(p.Site, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".html") {
			rel, _ := filepath.Rel(p.Site, path)
			pages = append(pages, rel)
		}
		return err
	}))
	p.killRounds(100, pages, 2000)
}
