//go:build system

package house

import (
	"os/exec"
	"testing"
)

// TestAlertsByPromtool has Prometheus's own tool read the rules, and play the cases.
func TestAlertsByPromtool(t *testing.T) {
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = "../../deploy"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v: %s", args, err, out)
		}
	}
}
