package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/uzpif-oi/uzpif-oi/bench/fleet"
	"github.com/uzpif-oi/uzpif-oi/bench/machine"
)

// A report is everything that was measured, and what came of the aims.
type report struct {
	Machine machine.Machine `json:"machine"`
	Real    *real           `json:"real,omitempty"`
	Small   []*small        `json:"small,omitempty"`
	Aims    []verdict       `json:"aims"`
}

// A verdict is an aim, the most that is meant, and what was measured.
type verdict struct {
	Claim string  `json:"claim"`
	Most  float64 `json:"most"`
	Is    float64 `json:"is"`
	Met   bool    `json:"met"`
}

// What is aimed at, in octets but for the trips.
const (
	mostFirst     = 2_200_000
	mostCold      = 8 << 10
	mostFrames    = 2 << 10
	mostOfRsync   = 1.0 / 8
	mostSeconds   = 1.0 // of rsync's, which copies to one place
	mostReconcile = 64 << 10
	mostTrips     = 20
	mostMemory    = 256 << 20
	mostGrowth    = 1.25 // of memory, from as many pages as fill all caches to the most
	leastFilling  = 500_000
	mostDearer    = 1.3 // a page of the most, of a page of the least
	mostRestart   = 2   // seconds
)

func (r *report) judge() {
	add := func(claim string, most, is float64) {
		r.Aims = append(r.Aims, verdict{claim, most, is, is <= most})
	}
	if x := r.Real; x != nil {
		add("real pages, first: octets", mostFirst, float64(x.First.Octets))
		add("real pages, unchanged: octets with the handshake", mostCold, float64(x.Unchanged.Octets))
		add("real pages, unchanged: octets of frames", mostFrames, float64(x.Unchanged.Octets-x.Unchanged.Handshake))
		add("real pages, 44 files edited: octets, of rsync's", mostOfRsync, float64(x.Edited.Octets)/float64(max(1, x.Rsync.Edited.Octets)))
	}
	for _, s := range r.Small {
		n := fmt.Sprintf("%d small pages, ", s.Pages)
		add(n+"unchanged: octets with the handshake", mostCold, float64(s.Unchanged.Octets))
		add(n+"unchanged: seconds, of rsync's", mostSeconds, s.Unchanged.Seconds/s.Rsync.Seconds)
		add(n+"store lost, ten differ: octets", mostReconcile, float64(s.Lost.Octets))
		add(n+"store lost, ten differ: round trips", mostTrips, float64(s.Lost.RoundTrips))
		p, i := s.memory()
		add(n+"memory of publisherd, MiB", mostMemory>>20, p/(1<<20))
		add(n+"memory of indexerd, MiB", mostMemory>>20, i/(1<<20))
		add(n+"an indexer is ready again, seconds", mostRestart, s.Restart)
	}
	if n := len(r.Small); n > 1 {
		first, last := r.Small[0], r.Small[n-1]
		if i := slices.IndexFunc(r.Small, func(s *small) bool { return s.Pages >= leastFilling }); i >= 0 && i < n-1 {
			span := fmt.Sprintf("%d small pages, of %d: ", last.Pages, r.Small[i].Pages)
			p0, i0 := r.Small[i].memory()
			p1, i1 := last.memory()
			add(span+"memory of publisherd", mostGrowth, p1/p0)
			add(span+"memory of indexerd", mostGrowth, i1/i0)
		}
		span := fmt.Sprintf("%d small pages, of %d: ", last.Pages, first.Pages)
		add(span+"seconds of a page", mostDearer, last.page(last.First.Seconds)/first.page(first.First.Seconds))
		add(span+"seconds of the processors of a page", mostDearer, last.page(last.First.CPU)/first.page(first.First.CPU))
	}
}

// memory is the most of all phases, of the publisher and of an indexer.
func (s *small) memory() (publisher, indexer float64) {
	for _, ph := range s.phases() {
		publisher, indexer = max(publisher, float64(ph.PublisherRSS)), max(indexer, float64(ph.IndexerRSS))
	}
	return publisher, indexer
}

// page is the part of one page in what was measured of all.
func (s *small) page(all float64) float64 { return all / float64(s.Pages) }

func (s *small) phases() []fleet.Phase { return []fleet.Phase{s.First, s.Next, s.Unchanged, s.Lost} }

func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nOn %v.\nOf several indexers the largest figure; seconds are of the whole command.\n\n", r.Machine)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "pages\tpush\tsent\tdeleted\toctets\tof handshake\tround trips\tseconds\tpublisherd, MiB\tindexerd, MiB\t")
	row := func(pages string, ph fleet.Phase) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%d\t%d\t\n", pages, ph.Name, ph.Sent, ph.Deleted, ph.Octets, ph.Handshake, ph.RoundTrips, ph.Seconds, ph.PublisherRSS>>20, ph.IndexerRSS>>20)
	}
	its := func(pages, name string, c fleet.Copied) {
		fmt.Fprintf(w, "%s\trsync, %s\t\t\t%d\t\t\t%.1f\t\t\t\n", pages, name, c.Octets, c.Seconds)
	}
	if x := r.Real; x != nil {
		row("real", x.First)
		its("real", "first", x.Rsync.First)
		row("real", x.Unchanged)
		its("real", "unchanged", x.Rsync.Unchanged)
		row("real", x.Edited)
		its("real", "edited", x.Rsync.Edited)
	}
	for _, s := range r.Small {
		for _, ph := range s.phases() {
			row(fmt.Sprint(s.Pages), ph)
		}
		its(fmt.Sprint(s.Pages), "unchanged", s.Rsync)
	}
	w.Flush() // a strings.Builder takes everything
	b.WriteString("\n")
	for _, s := range r.Small {
		fmt.Fprintf(&b, "Of %d pages each took %.0f µs, and %.0f µs of the processors, of all programs together.\n", s.Pages, s.page(s.First.Seconds)*1e6, s.page(s.First.CPU)*1e6)
		fmt.Fprintf(&b, "Of the disk it takes %.0f octets at the publisher and %.0f at an indexer.\n", s.page(float64(s.Disk.Publisher)), s.page(float64(s.Disk.Indexer)))
	}
	for _, v := range r.Aims {
		outcome := "met"
		if !v.Met {
			outcome = "MISSED"
		}
		fmt.Fprintf(&b, "%s: %.8g, at most %.8g: %s\n", v.Claim, v.Is, v.Most, outcome)
	}
	return b.String()
}
