package main

import (
	"context"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/bench/machine"
)

func TestEveryAimNeedsWhatIsMeasured(t *testing.T) {
	measured := make(map[string]bool)
	for _, b := range bouts() {
		measured[b.name] = true
	}
	for _, a := range aims() {
		for _, name := range a.Needs {
			if !measured[name] {
				t.Errorf("%q needs %q, which is not measured", a.Claim, name)
			}
		}
	}
}

func TestAGrowingLogIsMeasured(t *testing.T) {
	var told []string
	r, err := grow(context.Background(), t.TempDir(), 3000, func(format string, _ ...any) { told = append(told, format) })
	if err != nil {
		t.Fatal(err)
	}
	r.describe(machine.Machine{}, options{})
	g := r.(*growth)
	if len(g.Looks) != 1 || len(told) != 1 || g.Looks[0].Size != 3000 || g.Looks[0].ProofP50 == 0 || g.Looks[0].DiskOctets == 0 || g.Restart == 0 {
		t.Errorf("seen %+v", g)
	}
	if text := r.text(); !strings.Contains(text, "3000") || len(g.Aims) != 3 {
		t.Errorf("text %q", text)
	}
}
