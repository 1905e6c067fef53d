//go:build system

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnitsAreHardenedUnderSystemd has systemd itself look at the two units: every
// line has to be understood, and the exposure that is left is at most 1.5 of 10.
func TestUnitsAreHardenedUnderSystemd(t *testing.T) {
	bin := buildPrograms(t)
	for _, name := range []string{"indexerd", "publisherd"} {
		b, err := os.ReadFile(filepath.Join(root, "deploy", "systemd", name+".service"))
		if err != nil {
			t.Fatal(err)
		}
		unit := filepath.Join(t.TempDir(), name+".service")
		// Nothing is installed here: the program is where it was built.
		text := strings.ReplaceAll(string(b), "/usr/bin/"+name, filepath.Join(bin, name))
		if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
		if err != nil || strings.Contains(string(out), name) {
			t.Errorf("verify %s: %v\n%s", name, err, out)
		}
		out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", unit).CombinedOutput()
		if err != nil {
			t.Errorf("security %s: %v\n%s", name, err, out)
		}
		t.Logf("%s", out[strings.LastIndexByte(strings.TrimSpace(string(out)), '\n')+1:])
	}
}
