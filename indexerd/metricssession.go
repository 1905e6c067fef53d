package main

import (
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
)

// sessionMetrics are those of sessions, and of what is taken in by them.
func sessionMetrics() []metric {
	const p = "uzpif_oi_"
	return []metric{
		gauge(p+"sessions", "Open sessions of publishers.", func(f *indexer.Figures) float64 { return float64(f.Sessions) }),
		counter(p+"sessions_total", "Sessions that came past their announcement.", func(f *indexer.Figures) uint64 { return f.Pulse.Sessions }),
		monitor.Reasons(p+"session_ends_total", "Sessions that ended, by reason.", func(f *indexer.Figures) map[string]uint64 { return f.Pulse.Ends }),
		monitor.Reasons(p+"refusals_total", "Connections, sessions, announcements and batches refused, by reason.",
			func(f *indexer.Figures) map[string]uint64 { return f.Pulse.Refusals }),
		monitor.Reasons(p+"page_refusals_total", "Pages left out of batches that were taken, by reason.",
			func(f *indexer.Figures) map[string]uint64 { return f.Pulse.Excluded }),
		counter(p+"batches_total", "Batches that a receipt was given for.", func(f *indexer.Figures) uint64 { return f.Pulse.Batches }),
		counter(p+"pages_total", "Pages and deletions of pages taken in with them.", func(f *indexer.Figures) uint64 { return f.Pulse.Pages }),
		counter(p+"payload_bytes_total", "Octets of those pages.", func(f *indexer.Figures) uint64 { return f.Pulse.Payload }),
		histogram(p+"batch_items", "Pages of a batch.", func(f *indexer.Figures) tally.Histogram { return f.Pulse.Items }),
		histogram(p+"batch_bytes", "Octets of payload of a batch.", func(f *indexer.Figures) tally.Histogram { return f.Pulse.Octets }),
		counter(p+"purged_pages_total", "Pages dropped at the end of their retention.", func(f *indexer.Figures) uint64 { return f.Pulse.Purged }),
		counter(p+"deletions_total", "Deletions carried out that revocations asked for, one for each series.", func(f *indexer.Figures) uint64 { return f.Pulse.Deletions }),
	}
}
