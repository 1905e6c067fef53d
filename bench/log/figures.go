package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/machine"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
)

// figures are the samples of every round, and what they say about the aims.
type figures struct {
	Machine machine.Machine          `json:"machine"`
	Rounds  int                      `json:"rounds"`
	Seconds float64                  `json:"seconds"` // measured each time
	Tessera map[string]string        `json:"tessera"`
	Samples map[string][]load.Sample `json:"samples"`
	Aims    []verdict                `json:"aims"`
	bouts   []bout
}

// A round is the samples of one round by name.
type round map[string]load.Sample

// An aim is a ratio of what was measured in one round.
type aim struct {
	claim string
	least bool // the ratio should be at least bound, else at most
	bound float64
	needs []string
	ratio func(r round) float64
}

// rates and tails compare two by their rates and by their 99th percentiles.
func rates(a, b string) ([]string, func(round) float64) {
	return []string{a, b}, func(r round) float64 { return r[a].Rate / r[b].Rate }
}

func tails(a, b string) ([]string, func(round) float64) {
	return []string{a, b}, func(r round) float64 { return float64(r[a].P99) / float64(r[b].P99) }
}

func newAim(claim string, least bool, bound float64, needs []string, ratio func(round) float64) aim {
	return aim{claim, least, bound, needs, ratio}
}

func aims() []aim {
	needs := func(names ...string) []string { return names }
	compare := func(claim string, least bool, bound float64, how func(a, b string) ([]string, func(round) float64), a, b string) aim {
		n, ratio := how(a, b)
		return newAim(claim, least, bound, n, ratio)
	}
	return []aim{
		compare("rate at 256 adders, of Tessera's", true, 2.5, rates, "ours/256", "tessera/256"),
		compare("p99 at 256 adders, of Tessera's", false, 1.25, tails, "ours/256", "tessera/256"),
		compare("rate at 256 adders, of bare Pebble's", true, 0.5, rates, "ours/256", "pebble"),
		compare("rate at 4,096 adders, of Tessera's", true, 2.5, rates, "ours/4096", "tessera/4096"),
		compare("p99 at 4,096 adders, of Tessera's", false, 1.25, tails, "ours/4096", "tessera/4096"),
		compare("rate at 4,096 adders, of bare Pebble's", true, 0.5, rates, "ours/4096", "pebble"),
		newAim("a single adder, of Pebble sync + fsync + 2 signatures", false, 3, needs("ours/1", "pebble/1", "fsync", "ed25519"), func(r round) float64 {
			return float64(r["ours/1"].P50) / float64(r["pebble/1"].P50+r["fsync"].P50+2*r["ed25519"].P50)
		}),
		newAim("a single adder, of Tessera's time to published", false, 0.05, needs("ours/1", "published/1"), func(r round) float64 {
			return float64(r["ours/1"].P50) / float64(r["published/1"].P50)
		}),
		compare("signed decision sets at 256 adders, of all cores' Ed25519 rate", true, 0.6, rates, "signed/256", "ed25519"),
		compare("signed decision sets at 4,096 adders, of all cores' Ed25519 rate", true, 0.6, rates, "signed/4096", "ed25519"),
	}
}

// A verdict is an aim and what came of it: the median over the rounds, and the
// least and the largest.
type verdict struct {
	Claim  string  `json:"claim"`
	Bound  string  `json:"bound"`
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
	Met    bool    `json:"met"`
}

// judge compares the rounds with the aim; ok is false if something it needs
// was not measured.
func (a aim) judge(samples map[string][]load.Sample, rounds int) (v verdict, ok bool) {
	var ratios []float64
	for i := range rounds {
		r := make(round)
		for _, name := range a.needs {
			if len(samples[name]) <= i {
				return v, false
			}
			r[name] = samples[name][i]
		}
		ratios = append(ratios, a.ratio(r))
	}
	v = verdict{Claim: a.claim, Median: median(ratios), Least: slices.Min(ratios), Most: slices.Max(ratios)}
	if a.least {
		v.Bound, v.Met = fmt.Sprintf("≥ %v", a.bound), v.Median >= a.bound
	} else {
		v.Bound, v.Met = fmt.Sprintf("≤ %v", a.bound), v.Median <= a.bound
	}
	return v, true
}

func median[T float64 | time.Duration](of []T) T {
	of = slices.Sorted(slices.Values(of))
	return (of[(len(of)-1)/2] + of[len(of)/2]) / 2
}

func (f *figures) describe(m machine.Machine, o options) {
	f.Machine, f.Rounds, f.Seconds = m, o.rounds, o.measure.Seconds()
	f.Tessera = map[string]string{
		"tessera/256": tessera256.String(), "tessera/4096": tessera4096.String(), "published/1": tessera1.String(),
	}
	for _, a := range aims() {
		if v, ok := a.judge(f.Samples, f.Rounds); ok {
			f.Aims = append(f.Aims, v)
		}
	}
}

func (f *figures) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nOn %v.\nEntries of %d octets; %d rounds in turn, %v s each; medians over the rounds (least to most).\nTessera %s POSIX",
		f.Machine, leaf, f.Rounds, f.Seconds, peer.TesseraVersion)
	for _, name := range []string{"tessera/256", "tessera/4096", "published/1"} {
		fmt.Fprintf(&b, "; %s: %s", name, f.Tessera[name])
	}
	b.WriteString(".\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measured\tper second\t\tp50\tp99\tCPU for one")
	for _, bout := range f.bouts {
		var rate []float64
		var p50, p99, cpu []time.Duration
		for _, s := range f.Samples[bout.name] {
			rate, p50, p99, cpu = append(rate, s.Rate), append(p50, s.P50), append(p99, s.P99), append(cpu, s.CPU)
		}
		fmt.Fprintf(w, "%s\t%.0f\t(%.0f to %.0f)\t%v\t%v\t%v\n", bout.what, median(rate), slices.Min(rate), slices.Max(rate),
			brief(median(p50)), brief(median(p99)), known(median(cpu)))
	}
	w.Flush() // a strings.Builder takes everything
	b.WriteString("\n")
	fmt.Fprintln(w, "aim: ours as a share\tshould be\tis\t\t")
	missed := 0
	for _, v := range f.Aims {
		outcome := "met"
		if !v.Met {
			outcome = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "%s\t%s\t%.3g\t(%.3g to %.3g)\t%s\n", v.Claim, v.Bound, v.Median, v.Least, v.Most, outcome)
	}
	w.Flush()
	fmt.Fprintf(&b, "\n%d of %d aims met.\n", len(f.Aims)-missed, len(f.Aims))
	return b.String()
}

// brief is a duration with three digits.
func brief(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}

// known is d, or nothing if it was not measured.
func known(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return brief(d).String()
}
