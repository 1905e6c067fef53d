//go:build system

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// TestEvidenceIsVerifiedWithoutANetwork runs the auditor in a network of its own,
// in which nothing is up, not even the loopback interface.
func TestEvidenceIsVerifiedWithoutANetwork(t *testing.T) {
	p := newPrograms(t, 3)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	p.pushAll()
	dir := t.TempDir()
	evidence, card := filepath.Join(dir, "evidence.json"), filepath.Join(dir, "indexer.json")
	b, err := exec.Command(filepath.Join(p.bin, "indexerd"), "card", "--dir", p.Idx).Output()
	pair.Check(t, err)
	pair.Check(t, os.WriteFile(card, b, 0o600))
	if out, err := exec.Command(filepath.Join(p.bin, "publisherd"), "evidence", pair.PageURL(0), "--offline", "-o", evidence, "--dir", p.Pub).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	alone := func(args ...string) (stdout, stderr string, code int) {
		cmd := exec.Command(filepath.Join(p.bin, "auditor"), append([]string{"verify", evidence, "--key", card}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatalf("a network namespace needs root: %v", err)
		}
		return out.String(), errs.String(), cmd.ProcessState.ExitCode()
	}
	if out, errs, code := alone("--require", "included"); code != 0 || !strings.HasPrefix(out, "included: ") || errs != "" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	// That there is no network is true: the log is not reached.
	if out, errs, code := alone("--log", p.public); code != 69 || !strings.Contains(errs, "network is unreachable") {
		t.Errorf("with the log, exit %d: %s%s", code, out, errs)
	}
}
