package main

import (
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// A metric is one name, and how its values are read. doc/metrics.md describes
// each one; TestEveryMetricIsDescribed compares.
type metric = monitor.Metric[indexer.Figures]

// collectors are all metrics that are this program's own.
func collectors(read func() (indexer.Figures, error), last func() cli.Loaded, now func() time.Time, log *slog.Logger) []prometheus.Collector {
	return append(monitor.ConfigurationMetrics(last), monitor.Collect(read, now, log, metrics()...))
}

func metrics() []metric {
	return slices.Concat(logMetrics(), witnessMetrics(), sessionMetrics(), storeMetrics(), feedMetrics(), identityMetrics(), requestMetrics(), gatewayMetrics())
}

// gauge and counter are metrics of one value.
func gauge(name, help string, value func(*indexer.Figures) float64) metric {
	return monitor.Gauge(name, help, value)
}

func counter(name, help string, value func(*indexer.Figures) uint64) metric {
	return monitor.Counter(name, help, value)
}

func histogram(name, help string, value func(*indexer.Figures) tally.Histogram) metric {
	return monitor.Histogram(name, help, value)
}

func logMetrics() []metric {
	const p = "uzpif_oi_log_"
	return []metric{
		gauge(p+"released_entries", "Entries that receipts name.", func(f *indexer.Figures) float64 { return float64(f.Log.Released) }),
		gauge(p+"published_entries", "Entries under the checkpoint that is served.", func(f *indexer.Figures) float64 { return float64(f.Log.Published) }),
		monitor.Gauges(p+"published_age_seconds", "Since the checkpoint that is served was issued.", nil, func(f *indexer.Figures, now time.Time, emit func(float64, ...string)) {
			emit(now.Sub(f.Log.PublishedAt).Seconds())
		}),
		gauge(p+"queue_proposals", "Proposals that wait for the writer.", func(f *indexer.Figures) float64 { return float64(f.Log.Queued) }),
		gauge(p+"queue_bound_proposals", "How many may wait.", func(f *indexer.Figures) float64 { return float64(f.Log.QueueBound) }),
		gauge(p+"queue_bytes", "What the waiting proposals weigh.", func(f *indexer.Figures) float64 { return float64(f.Log.QueuedBytes) }),
		gauge(p+"queue_bound_bytes", "How much they may weigh.", func(f *indexer.Figures) float64 { return float64(f.Log.QueueBytesBound) }),
		counter(p+"commits_total", "Groups committed.", func(f *indexer.Figures) uint64 { return f.Log.Commits }),
		counter(p+"proposals_total", "Proposals committed.", func(f *indexer.Figures) uint64 { return f.Log.Proposals }),
		counter(p+"entries_total", "Entries committed since the start.", func(f *indexer.Figures) uint64 { return f.Log.Entries }),
		counter(p+"overload_refusals_total", "Proposals refused since too many waited.", func(f *indexer.Figures) uint64 { return f.Log.Overloaded }),
		counter(p+"clock_refusals_total", "Times that nothing was signed since the clock is behind.", func(f *indexer.Figures) uint64 { return f.Publications.Clock }),
		histogram(p+"commit_seconds", "From the first check of a group to its release.", func(f *indexer.Figures) tally.Histogram { return f.Log.Commit }),
		histogram(p+"sync_seconds", "One write and fsync of a group.", func(f *indexer.Figures) tally.Histogram { return f.Log.Sync }),
		histogram(p+"group_proposals", "Proposals of a group.", func(f *indexer.Figures) tally.Histogram { return f.Log.Group }),
		counter(p+"published_total", "Checkpoints published.", func(f *indexer.Figures) uint64 { return f.Publications.Published }),
		counter(p+"published_alone_total", "Of them, those without the quorum of witnesses.", func(f *indexer.Figures) uint64 { return f.Publications.Alone }),
		counter(p+"held_total", "Attempts to publish that were held back for the quorum.", func(f *indexer.Figures) uint64 { return f.Publications.Held }),
		counter(p+"witness_alarms_total", "Answers of witnesses that contradict the log.", func(f *indexer.Figures) uint64 { return f.Publications.Alarms }),
	}
}

// perWitness is a gauge with a value for each witness.
func perWitness(name, help string, value func(*indexer.Figures, *witness.State) float64) metric {
	return monitor.Gauges(name, help, []string{"witness"}, func(f *indexer.Figures, _ time.Time, emit func(float64, ...string)) {
		for i := range f.Witnesses {
			emit(value(f, &f.Witnesses[i]), f.Witnesses[i].Name)
		}
	})
}

func witnessMetrics() []metric {
	const p = "uzpif_oi_log_witness_"
	return []metric{
		perWitness(p+"entries", "Size of the tree that it has cosigned.", func(_ *indexer.Figures, w *witness.State) float64 { return float64(w.Size) }),
		perWitness(p+"lag_entries", "Released entries that it has not cosigned; negative if it claims to have seen more.",
			func(f *indexer.Figures, w *witness.State) float64 { return float64(f.Log.Released) - float64(w.Size) }),
		perWitness(p+"cosigned_timestamp_seconds", "Unix time of its last cosignature; 0 if there was none.", func(_ *indexer.Figures, w *witness.State) float64 {
			if w.CosignedAt.IsZero() {
				return 0
			}
			return float64(w.CosignedAt.Unix())
		}),
		perWitness(p+"last_request_seconds", "How long its last answer took.", func(_ *indexer.Figures, w *witness.State) float64 { return w.Last.Seconds() }),
		monitor.Summaries(p+"request_seconds", "How long its answers took together, and how many there were.", []string{"witness"},
			func(f *indexer.Figures, emit func(uint64, float64, ...string)) {
				for _, w := range f.Witnesses {
					emit(w.Requests, w.Seconds, w.Name)
				}
			}),
		monitor.Counters(p+"failures_total", "Requests without a cosignature that counts, by reason.", []string{"witness", "reason"},
			func(f *indexer.Figures, emit func(float64, ...string)) {
				for _, w := range f.Witnesses {
					for _, r := range witness.Reasons() {
						emit(float64(w.Failures[r]), w.Name, string(r))
					}
				}
			}),
	}
}
