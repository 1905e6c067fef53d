package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/machine"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

const (
	growAdders = 256
	growStep   = 1_000_000       // entries between two looks
	growProofs = 5000            // proofs of each look: most meet a file that was read before, as in a log in service
	growRest   = 3 * time.Second // before it: what was written is merged, and as near or far as anything else
)

// A look is what was seen when the log had grown by another step.
type look struct {
	Size       uint64        `json:"size"`
	Rate       float64       `json:"rate"` // entries a second since the look before
	P99        time.Duration `json:"p99"`
	ProofP50   time.Duration `json:"proof_p50"` // of entries at random
	ProofP99   time.Duration `json:"proof_p99"`
	DiskOctets float64       `json:"disk_octets"` // for each entry
	RSS        uint64        `json:"rss"`         // octets in memory of the process
}

// growth is a log that grew.
type growth struct {
	Machine machine.Machine `json:"machine"`
	Looks   []look          `json:"looks"`
	Restart time.Duration   `json:"restart"`
	Aims    []ratio.Verdict `json:"aims"`
}

// grow lets a log grow to that many entries, looks at it after each step, and
// opens it anew at the end.
func grow(ctx context.Context, dir string, entries uint64, progress func(string, ...any)) (r report, err error) {
	own, err := peer.OpenOurs(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if own != nil {
			err = errors.Join(err, own.Close())
		}
	}()
	g := new(growth)
	for size := uint64(0); size < entries; {
		step := min(growStep, entries-size)
		s, err := load.Load{Adders: growAdders, Size: leaf}.Grow(ctx, size, step, own.Add)
		if err != nil {
			return nil, err
		}
		size += step
		seen, err := lookAt(own, size)
		if err != nil {
			return nil, err
		}
		seen.Rate, seen.P99 = s.Rate, s.P99
		g.Looks = append(g.Looks, seen)
		progress("%10d entries: %6.0f/s  p99 %-8v proof p50 %-8v %.0f octets on disk an entry  RSS %d MiB",
			size, seen.Rate, ratio.Brief(seen.P99), ratio.Brief(seen.ProofP50), seen.DiskOctets, seen.RSS>>20)
	}
	if err := own.Close(); err != nil {
		return nil, err
	}
	began := time.Now()
	if own, err = peer.OpenOurs(dir); err != nil {
		return nil, err
	}
	g.Restart = time.Since(began)
	if size := own.Released().Tree.Size; size != entries {
		return nil, fmt.Errorf("opened anew the log has %d entries, not %d", size, entries)
	}
	return g, nil
}

// lookAt measures proofs and what the log takes up, at rest.
func lookAt(own *peer.Ours, size uint64) (look, error) {
	v := own.Released()
	if v.Tree.Size != size {
		return look{}, fmt.Errorf("the log has %d entries, not %d", v.Tree.Size, size)
	}
	time.Sleep(growRest)
	var took load.Histogram
	for range growProofs {
		index := rand.Uint64N(size)
		began := time.Now()
		if _, err := v.Inclusion(index); err != nil {
			return look{}, err
		}
		took.Add(time.Since(began))
	}
	m, err := own.Store.Metrics()
	if err != nil {
		return look{}, err
	}
	return look{
		Size: size, ProofP50: took.Quantile(0.50), ProofP99: took.Quantile(0.99),
		DiskOctets: float64(m.DiskBytes) / float64(size), RSS: residentOctets(),
	}, nil
}

// residentOctets is how much memory this process takes up; 0 if it cannot be
// known.
func residentOctets() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

func (g *growth) describe(m machine.Machine, _ options) {
	g.Machine = m
	add := func(claim, bound string, value float64, met bool) {
		g.Aims = append(g.Aims, ratio.Verdict{Claim: claim, Bound: bound, Median: value, Least: value, Most: value, Met: met})
	}
	// One step is a noisy witness: the first fifth is held against the last.
	n := max(len(g.Looks)/5, 1)
	mean := func(looks []look, of func(look) float64) (sum float64) {
		for _, l := range looks {
			sum += of(l) / float64(len(looks))
		}
		return sum
	}
	compare := func(of func(look) float64) float64 {
		return mean(g.Looks[len(g.Looks)-n:], of) / mean(g.Looks[:n], of)
	}
	rate := compare(func(l look) float64 { return l.Rate })
	add("rate of the last fifth, of the first's", "> 0.8", rate, rate > 0.8)
	add("seconds to open it anew", "< 5", g.Restart.Seconds(), g.Restart < 5*time.Second)
	flat := compare(func(l look) float64 { return float64(l.ProofP50) })
	add("time for a proof in the last fifth, of the first's", "< 2", flat, flat < 2)
}

func (g *growth) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nOn %v.\nEntries of %d octets, %d adders.\n\n", g.Machine, leaf, growAdders)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "entries\tper second\tp99\tproof p50\tproof p99\toctets on disk\tRSS, MiB\t")
	for _, l := range g.Looks {
		fmt.Fprintf(w, "%d\t%.0f\t%v\t%v\t%v\t%.0f\t%d\t\n", l.Size, l.Rate, ratio.Brief(l.P99), ratio.Brief(l.ProofP50), ratio.Brief(l.ProofP99), l.DiskOctets, l.RSS>>20)
	}
	w.Flush() // a strings.Builder takes everything
	b.WriteString("\n")
	for _, v := range g.Aims {
		outcome := "met"
		if !v.Met {
			outcome = "MISSED"
		}
		fmt.Fprintf(&b, "%s: %.3g, should be %s: %s\n", v.Claim, v.Median, v.Bound, outcome)
	}
	return b.String()
}
