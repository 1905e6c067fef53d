// Package ratio compares what was measured in one round, and says whether the
// median over the rounds is what was aimed at. Figures of different rounds are
// never compared: the machine may have become another in between.
package ratio

import (
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
)

// A Round is the samples of one round by name.
type Round map[string]load.Sample

// An Aim is a ratio of what was measured in one round.
type Aim struct {
	Claim string
	Least bool // the ratio should be at least Bound, else at most
	Bound float64
	Needs []string
	Ratio func(r Round) float64
}

// Rates compares two by their rates.
func Rates(a, b string) ([]string, func(Round) float64) {
	return []string{a, b}, func(r Round) float64 { return r[a].Rate / r[b].Rate }
}

// Tails compares two by their 99th percentiles.
func Tails(a, b string) ([]string, func(Round) float64) {
	return []string{a, b}, func(r Round) float64 { return float64(r[a].P99) / float64(r[b].P99) }
}

// CPUs compares two by the processor time for one.
func CPUs(a, b string) ([]string, func(Round) float64) {
	return []string{a, b}, func(r Round) float64 { return float64(r[a].CPU) / float64(r[b].CPU) }
}

// Compare is the aim that how(a, b) be at least, or at most, bound.
func Compare(claim string, least bool, bound float64, how func(a, b string) ([]string, func(Round) float64), a, b string) Aim {
	needs, ratio := how(a, b)
	return Aim{claim, least, bound, needs, ratio}
}

// A Verdict is an aim and what came of it: the median over the rounds, and the
// least and the largest.
type Verdict struct {
	Claim  string  `json:"claim"`
	Bound  string  `json:"bound"`
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Met    bool    `json:"met"`
}

// Judge compares the rounds with the aim; ok is false if something it needs
// was not measured.
func (a Aim) Judge(samples map[string][]load.Sample, rounds int) (v Verdict, ok bool) {
	var ratios []float64
	for i := range rounds {
		r := make(Round)
		for _, name := range a.Needs {
			if len(samples[name]) <= i {
				return v, false
			}
			r[name] = samples[name][i]
		}
		ratios = append(ratios, a.Ratio(r))
	}
	v = Verdict{Claim: a.Claim, Median: Median(ratios), Least: slices.Min(ratios), Most: slices.Max(ratios)}
	if a.Least {
		v.Bound, v.Met = fmt.Sprintf("≥ %v", a.Bound), v.Median >= a.Bound
	} else {
		v.Bound, v.Met = fmt.Sprintf("≤ %v", a.Bound), v.Median <= a.Bound
	}
	return v, true
}

// Median is the one in the middle, or the mean of the two.
func Median[T float64 | time.Duration](of []T) T {
	of = slices.Sorted(slices.Values(of))
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

// Brief is a duration with three digits.
func Brief(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}
