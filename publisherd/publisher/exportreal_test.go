//go:build system

package publisher

import (
	"os"
	"path/filepath"
	"testing"
)

// Pages that others wrote come back from both formats.
func TestPagesComeBackFromAnExportOnCppreference(t *testing.T) {
	if n := newRoundTrip(t, "/usr/share/cppreference/doc/html/en").run(); n < 4000 {
		t.Errorf("%d pages", n)
	}
}

func TestRealPagesOfNodeComeBackFromAnExport(t *testing.T) {
	// DEBIAN_DOCS is where nodejs-doc was unpacked; empty if it is installed.
	// Markdown of the same pages is beside them.
	files, err := filepath.Glob(filepath.Join(os.Getenv("DEBIAN_DOCS"), "/usr/share/doc/nodejs/api/*.html"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n := newRoundTrip(t, dir).run(); n < 50 {
		t.Errorf("%d pages", n)
	}
}
