package main

import (
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// scrapes is how many may be under way at once; more are refused.
const scrapes = 4

// monitor serves the admin side: liveness, readiness and metrics.
func (d *daemon) monitor() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", d.health())
	mux.Handle("GET /metrics", metricsHandler(d.figures, time.Now, d.log))
	return mux
}

// metricsHandler reads the figures anew for each scrape. The registry is its
// own: what a library registers elsewhere is not shown.
func metricsHandler(read func() (indexer.Figures, error), now func() time.Time, log *slog.Logger) http.Handler {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(
		&figures{read: read, now: now, known: metrics(), log: log},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: 10 * time.Second})
}

// figures is a prometheus.Collector.
type figures struct {
	read  func() (indexer.Figures, error)
	now   func() time.Time
	known []metric
	log   *slog.Logger
}

// A metric is one name, and how its values are read. doc/metrics.md describes
// each one; TestEveryMetricIsDescribed compares.
type metric struct {
	desc *prometheus.Desc
	emit func(d *prometheus.Desc, f *indexer.Figures, now time.Time, out chan<- prometheus.Metric)
}

func (c *figures) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.known {
		out <- m.desc
	}
}

// Collect leaves out everything if the store has failed: then there is nothing
// that could be believed, and /readyz says why.
func (c *figures) Collect(out chan<- prometheus.Metric) {
	f, err := c.read()
	if err != nil {
		c.log.Warn("metrics", "error", err)
		return
	}
	for _, m := range c.known {
		m.emit(m.desc, &f, c.now(), out)
	}
}

func metrics() []metric {
	return slices.Concat(logMetrics(), witnessMetrics(), storeMetrics(), feedMetrics(), identityMetrics(), requestMetrics(), gatewayMetrics())
}

// gauge and counter are metrics of one value.
func gauge(name, help string, value func(*indexer.Figures) float64) metric {
	return single(name, help, prometheus.GaugeValue, value)
}

func counter(name, help string, value func(*indexer.Figures) uint64) metric {
	return single(name, help, prometheus.CounterValue, func(f *indexer.Figures) float64 { return float64(value(f)) })
}

func single(name, help string, t prometheus.ValueType, value func(*indexer.Figures) float64) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), func(d *prometheus.Desc, f *indexer.Figures, _ time.Time, out chan<- prometheus.Metric) {
		out <- prometheus.MustNewConstMetric(d, t, value(f))
	}}
}

func histogram(name, help string, value func(*indexer.Figures) translog.Histogram) metric {
	return metric{prometheus.NewDesc(name, help, nil, nil), func(d *prometheus.Desc, f *indexer.Figures, _ time.Time, out chan<- prometheus.Metric) {
		h := value(f)
		buckets := make(map[float64]uint64, len(h.Buckets))
		for _, b := range h.Buckets {
			buckets[b.UpperBound] = b.Count
		}
		out <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum, buckets)
	}}
}

func logMetrics() []metric {
	const p = "uzpif_oi_log_"
	return []metric{
		gauge(p+"released_entries", "Entries that receipts name.", func(f *indexer.Figures) float64 { return float64(f.Log.Released) }),
		gauge(p+"published_entries", "Entries under the checkpoint that is served.", func(f *indexer.Figures) float64 { return float64(f.Log.Published) }),
		{
			prometheus.NewDesc(p+"published_age_seconds", "Since the checkpoint that is served was issued.", nil, nil),
			func(d *prometheus.Desc, f *indexer.Figures, now time.Time, out chan<- prometheus.Metric) {
				out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, now.Sub(f.Log.PublishedAt).Seconds())
			},
		},
		gauge(p+"queue_proposals", "Proposals that wait for the writer.", func(f *indexer.Figures) float64 { return float64(f.Log.Queued) }),
		gauge(p+"queue_bound_proposals", "How many may wait.", func(f *indexer.Figures) float64 { return float64(f.Log.QueueBound) }),
		gauge(p+"queue_bytes", "What the waiting proposals weigh.", func(f *indexer.Figures) float64 { return float64(f.Log.QueuedBytes) }),
		gauge(p+"queue_bound_bytes", "How much they may weigh.", func(f *indexer.Figures) float64 { return float64(f.Log.QueueBytesBound) }),
		counter(p+"commits_total", "Groups committed.", func(f *indexer.Figures) uint64 { return f.Log.Commits }),
		counter(p+"proposals_total", "Proposals committed.", func(f *indexer.Figures) uint64 { return f.Log.Proposals }),
		counter(p+"entries_total", "Entries committed since the start.", func(f *indexer.Figures) uint64 { return f.Log.Entries }),
		counter(p+"overload_refusals_total", "Proposals refused since too many waited.", func(f *indexer.Figures) uint64 { return f.Log.Overloaded }),
		counter(p+"clock_refusals_total", "Times that nothing was signed since the clock is behind.", func(f *indexer.Figures) uint64 { return f.Publications.Clock }),
		histogram(p+"commit_seconds", "From the first check of a group to its release.", func(f *indexer.Figures) translog.Histogram { return f.Log.Commit }),
		histogram(p+"sync_seconds", "One write and fsync of a group.", func(f *indexer.Figures) translog.Histogram { return f.Log.Sync }),
		histogram(p+"group_proposals", "Proposals of a group.", func(f *indexer.Figures) translog.Histogram { return f.Log.Group }),
		counter(p+"published_total", "Checkpoints published.", func(f *indexer.Figures) uint64 { return f.Publications.Published }),
		counter(p+"published_alone_total", "Of them, those without the quorum of witnesses.", func(f *indexer.Figures) uint64 { return f.Publications.Alone }),
		counter(p+"held_total", "Attempts to publish that were held back for the quorum.", func(f *indexer.Figures) uint64 { return f.Publications.Held }),
		counter(p+"witness_alarms_total", "Answers of witnesses that contradict the log.", func(f *indexer.Figures) uint64 { return f.Publications.Alarms }),
		gauge("uzpif_oi_sessions", "Open sessions of publishers.", func(f *indexer.Figures) float64 { return float64(f.Sessions) }),
	}
}

// perWitness is a metric with a value for each witness.
func perWitness(name, help string, t prometheus.ValueType, value func(*indexer.Figures, *witness.State) float64) metric {
	return metric{prometheus.NewDesc(name, help, []string{"witness"}, nil), func(d *prometheus.Desc, f *indexer.Figures, _ time.Time, out chan<- prometheus.Metric) {
		for i := range f.Witnesses {
			w := &f.Witnesses[i]
			out <- prometheus.MustNewConstMetric(d, t, value(f, w), w.Name)
		}
	}}
}

func witnessMetrics() []metric {
	const p = "uzpif_oi_log_witness_"
	return []metric{
		perWitness(p+"entries", "Size of the tree that it has cosigned.", prometheus.GaugeValue,
			func(_ *indexer.Figures, w *witness.State) float64 { return float64(w.Size) }),
		perWitness(p+"lag_entries", "Released entries that it has not cosigned; negative if it claims to have seen more.", prometheus.GaugeValue,
			func(f *indexer.Figures, w *witness.State) float64 { return float64(f.Log.Released) - float64(w.Size) }),
		perWitness(p+"cosigned_timestamp_seconds", "Unix time of its last cosignature; 0 if there was none.", prometheus.GaugeValue,
			func(_ *indexer.Figures, w *witness.State) float64 {
				if w.CosignedAt.IsZero() {
					return 0
				}
				return float64(w.CosignedAt.Unix())
			}),
		perWitness(p+"last_request_seconds", "How long its last answer took.", prometheus.GaugeValue,
			func(_ *indexer.Figures, w *witness.State) float64 { return w.Last.Seconds() }),
		{
			prometheus.NewDesc(p+"request_seconds", "How long its answers took together, and how many there were.", []string{"witness"}, nil),
			func(d *prometheus.Desc, f *indexer.Figures, _ time.Time, out chan<- prometheus.Metric) {
				for _, w := range f.Witnesses {
					out <- prometheus.MustNewConstSummary(d, w.Requests, w.Seconds, nil, w.Name)
				}
			},
		},
		{
			prometheus.NewDesc(p+"failures_total", "Requests without a cosignature that counts, by reason.", []string{"witness", "reason"}, nil),
			func(d *prometheus.Desc, f *indexer.Figures, _ time.Time, out chan<- prometheus.Metric) {
				for _, w := range f.Witnesses {
					for _, r := range witness.Reasons() {
						out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(w.Failures[r]), w.Name, string(r))
					}
				}
			},
		},
	}
}

func storeMetrics() []metric {
	const p = "uzpif_oi_store_"
	return []metric{
		gauge(p+"disk_bytes", "Everything in the store's folder.", func(f *indexer.Figures) float64 { return float64(f.Store.DiskBytes) }),
		gauge(p+"wal_bytes", "The live part of the write-ahead log.", func(f *indexer.Figures) float64 { return float64(f.Store.LogBytes) }),
		gauge(p+"memtable_bytes", "Rows that are not in tables yet.", func(f *indexer.Figures) float64 { return float64(f.Store.MemTableBytes) }),
		gauge(p+"l0_files", "Tables at level 0.", func(f *indexer.Figures) float64 { return float64(f.Store.L0Files) }),
		gauge(p+"read_amplification_tables", "Tables that one look-up may have to ask.", func(f *indexer.Figures) float64 { return float64(f.Store.ReadAmp) }),
		counter(p+"stalls_total", "Writes and syncs that took longer than disk_stall.", func(f *indexer.Figures) uint64 { return f.Disk.Stalls }),
		gauge(p+"free_bytes", "Room on the disk, as last looked at.", func(f *indexer.Figures) float64 { return float64(f.Disk.Free) }),
		gauge(p+"ballast_bytes", "Room held back in the ballast.", func(f *indexer.Figures) float64 { return float64(f.Disk.Ballast) }),
		counter(p+"ballast_released_total", "Times that the ballast was given up.", func(f *indexer.Figures) uint64 { return f.Disk.Released }),
	}
}
