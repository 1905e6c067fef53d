package ratio

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
)

// A Line is what was measured under one name, and what it is called.
type Line struct{ Name, What string }

// WriteSamples writes a table of medians over the rounds.
func WriteSamples(to io.Writer, lines []Line, samples map[string][]load.Sample) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measured\tper second\t\tp50\tp99\tCPU for one")
	for _, l := range lines {
		var rate []float64
		var p50, p99, cpu []time.Duration
		for _, s := range samples[l.Name] {
			rate, p50, p99, cpu = append(rate, s.Rate), append(p50, s.P50), append(p99, s.P99), append(cpu, s.CPU)
		}
		if len(rate) > 0 {
			fmt.Fprintf(w, "%s\t%.4g\t(%.4g to %.4g)\t%s\t%s\t%s\n", l.What, Median(rate), slices.Min(rate), slices.Max(rate),
				known(Median(p50)), known(Median(p99)), known(Median(cpu)))
		}
	}
	return w.Flush()
}

// WriteVerdicts writes a table of aims, and how many of them were met.
func WriteVerdicts(to io.Writer, all []Verdict) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "aim: ours as a share\tshould be\tis\t\t")
	missed := 0
	for _, v := range all {
		outcome := "met"
		if !v.Met {
			outcome = "MISSED"
			missed++
		}
		fmt.Fprintf(w, "%s\t%s\t%.3g\t(%.3g to %.3g)\t%s\n", v.Claim, v.Bound, v.Median, v.Least, v.Most, outcome)
	}
	fmt.Fprintf(w, "\n%d of %d aims met.\n", len(all)-missed, len(all))
	return w.Flush()
}

// known is d, or nothing if it was not measured.
func known(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return Brief(d).String()
}
