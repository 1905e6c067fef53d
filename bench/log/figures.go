package main

import (
	"fmt"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/machine"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

// figures are the samples of every round, and what they say about the aims.
type figures struct {
	Machine machine.Machine          `json:"machine"`
	Rounds  int                      `json:"rounds"`
	Seconds float64                  `json:"seconds"` // measured each time
	Tessera map[string]string        `json:"tessera"`
	Samples map[string][]load.Sample `json:"samples"`
	Aims    []ratio.Verdict          `json:"aims"`
	bouts   []bout
}

// aims are what the log should be.
func aims() []ratio.Aim {
	return []ratio.Aim{
		ratio.Compare("rate at 256 adders, of Tessera's", true, 2.5, ratio.Rates, "ours/256", "tessera/256"),
		ratio.Compare("p99 at 256 adders, of Tessera's", false, 1.25, ratio.Tails, "ours/256", "tessera/256"),
		ratio.Compare("rate at 256 adders, of bare Pebble's", true, 0.5, ratio.Rates, "ours/256", "pebble"),
		ratio.Compare("rate at 4,096 adders, of Tessera's", true, 2.5, ratio.Rates, "ours/4096", "tessera/4096"),
		ratio.Compare("p99 at 4,096 adders, of Tessera's", false, 1.25, ratio.Tails, "ours/4096", "tessera/4096"),
		ratio.Compare("rate at 4,096 adders, of bare Pebble's", true, 0.5, ratio.Rates, "ours/4096", "pebble"),
		{Claim: "a single adder, of Pebble sync + fsync + 2 signatures", Bound: 3, Needs: []string{"ours/1", "pebble/1", "fsync", "ed25519"}, Ratio: func(r ratio.Round) float64 {
			return float64(r["ours/1"].P50) / float64(r["pebble/1"].P50+r["fsync"].P50+2*r["ed25519"].P50)
		}},
		{Claim: "a single adder, of Tessera's time to published", Bound: 0.05, Needs: []string{"ours/1", "published/1"}, Ratio: func(r ratio.Round) float64 {
			return float64(r["ours/1"].P50) / float64(r["published/1"].P50)
		}},
		ratio.Compare("signed decision sets at 256 adders, of all cores' Ed25519 rate", true, 0.6, ratio.Rates, "signed/256", "ed25519"),
		ratio.Compare("signed decision sets at 4,096 adders, of all cores' Ed25519 rate", true, 0.6, ratio.Rates, "signed/4096", "ed25519"),
	}
}

func (f *figures) describe(m machine.Machine, o options) {
	f.Machine, f.Rounds, f.Seconds = m, o.rounds, o.measure.Seconds()
	f.Tessera = map[string]string{
		"tessera/256": tessera256.String(), "tessera/4096": tessera4096.String(), "published/1": tessera1.String(),
	}
	for _, a := range aims() {
		if v, ok := a.Judge(f.Samples, f.Rounds); ok {
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
	var lines []ratio.Line
	for _, bout := range f.bouts {
		lines = append(lines, ratio.Line{Name: bout.name, What: bout.what})
	}
	ratio.WriteSamples(&b, lines, f.Samples) // a strings.Builder takes everything
	b.WriteString("\n")
	ratio.WriteVerdicts(&b, f.Aims)
	return b.String()
}
