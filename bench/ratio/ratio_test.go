package ratio

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
)

func TestAVerdictIsTheMedianOfTheRoundsRatios(t *testing.T) {
	samples := map[string][]load.Sample{
		"ours":  {{Rate: 10}, {Rate: 90}, {Rate: 40}},
		"peers": {{Rate: 10}, {Rate: 10}, {Rate: 10}},
	}
	_, ratio := Rates("ours", "peers")
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
			a := Aim{"rate", tt.least, tt.bound, []string{"ours", "peers"}, ratio}
			v, ok := a.Judge(samples, 3)
			if !ok || v.Median != 4 || v.Least != 1 || v.Most != 9 || v.Met != tt.met {
				t.Errorf("Judge = %+v, %v", v, ok)
			}
			if _, ok := a.Judge(samples, 4); ok {
				t.Error("a round that was not made was judged")
			}
		})
	}
}

func TestBriefKeepsThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 123_456: "123µs", 12_345_678: "12.3ms", 98_765_432_100: "1m38.8s",
	} {
		if got := Brief(d).String(); got != want {
			t.Errorf("Brief(%d) = %s, want %s", d, got, want)
		}
	}
}
