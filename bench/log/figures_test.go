package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/machine"
)

func TestAVerdictIsTheMedianOfTheRoundsRatios(t *testing.T) {
	samples := map[string][]load.Sample{
		"ours":  {{Rate: 10}, {Rate: 90}, {Rate: 40}},
		"peers": {{Rate: 10}, {Rate: 10}, {Rate: 10}},
	}
	_, ratio := rates("ours", "peers")
	for _, tt := range []struct {
		name  string
		least bool
		bound float64
		met   bool
	}{
		{"at least what it is", true, 4, true},
		{"at least more than it is", true, 4.1, false},
		{"at most what it is", false, 4, true},
		{"at most less than it is", false, 3.9, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAim("rate", tt.least, tt.bound, []string{"ours", "peers"}, ratio)
			v, ok := a.judge(samples, 3)
			if !ok || v.Median != 4 || v.Least != 1 || v.Most != 9 || v.Met != tt.met {
				t.Errorf("judge = %+v, %v", v, ok)
			}
			if _, ok := a.judge(samples, 4); ok {
				t.Error("a round that was not made was judged")
			}
		})
	}
}

func TestEveryAimNeedsWhatIsMeasured(t *testing.T) {
	measured := make(map[string]bool)
	for _, b := range bouts() {
		measured[b.name] = true
	}
	for _, a := range aims() {
		for _, name := range a.needs {
			if !measured[name] {
				t.Errorf("%q needs %q, which is not measured", a.claim, name)
			}
		}
	}
}

func TestBriefKeepsThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 123_456: "123µs", 12_345_678: "12.3ms", 98_765_432_100: "1m38.8s",
	} {
		if got := brief(d).String(); got != want {
			t.Errorf("brief(%d) = %s, want %s", d, got, want)
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
