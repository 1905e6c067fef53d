package monitor

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uzpif-oi/uzpif-oi/internal/tally"
)

// A Metric is one name, and how its values are read from the figures F of a
// daemon. doc/metrics.md describes each one; a test of each daemon compares.
type Metric[F any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// read emits each value with those of the labels.
	read func(f *F, now time.Time, emit func(v float64, labels ...string))
	// whole, when set, is used in place of read.
	whole func(d *prometheus.Desc, f *F, out chan<- prometheus.Metric)
}

// Gauge is one value.
func Gauge[F any](name, help string, value func(*F) float64) Metric[F] {
	return Gauges(name, help, nil, func(f *F, _ time.Time, emit func(float64, ...string)) { emit(value(f)) })
}

// Counter is one that only rises.
func Counter[F any](name, help string, value func(*F) uint64) Metric[F] {
	return Counters(name, help, nil, func(f *F, emit func(float64, ...string)) { emit(float64(value(f))) })
}

// Gauges are values by labels.
func Gauges[F any](name, help string, labels []string, read func(f *F, now time.Time, emit func(float64, ...string))) Metric[F] {
	return Metric[F]{desc: prometheus.NewDesc(name, help, labels, nil), kind: prometheus.GaugeValue, read: read}
}

// Counters are those that only rise, by labels.
func Counters[F any](name, help string, labels []string, read func(f *F, emit func(float64, ...string))) Metric[F] {
	return Metric[F]{desc: prometheus.NewDesc(name, help, labels, nil), kind: prometheus.CounterValue,
		read: func(f *F, _ time.Time, emit func(float64, ...string)) { read(f, emit) }}
}

// Reasons are counters by reason.
func Reasons[F any](name, help string, value func(*F) map[string]uint64) Metric[F] {
	return Counters(name, help, []string{"reason"}, func(f *F, emit func(float64, ...string)) {
		counts := value(f)
		for _, reason := range slices.Sorted(maps.Keys(counts)) {
			emit(float64(counts[reason]), reason)
		}
	})
}

// Histogram is one histogram.
func Histogram[F any](name, help string, value func(*F) tally.Histogram) Metric[F] {
	return Metric[F]{desc: prometheus.NewDesc(name, help, nil, nil), whole: func(d *prometheus.Desc, f *F, out chan<- prometheus.Metric) {
		h := value(f)
		buckets := make(map[float64]uint64, len(h.Buckets))
		for _, b := range h.Buckets {
			buckets[b.UpperBound] = b.Count
		}
		out <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum, buckets)
	}}
}

// Summaries are sums with counts, by labels.
func Summaries[F any](name, help string, labels []string, read func(f *F, emit func(count uint64, sum float64, labels ...string))) Metric[F] {
	return Metric[F]{desc: prometheus.NewDesc(name, help, labels, nil), whole: func(d *prometheus.Desc, f *F, out chan<- prometheus.Metric) {
		read(f, func(count uint64, sum float64, labels ...string) {
			out <- prometheus.MustNewConstSummary(d, count, sum, nil, labels...)
		})
	}}
}

// Collect makes a collector that reads the figures anew for each scrape. If they
// cannot be read it shows none: there is nothing then that could be believed, and
// /readyz says why.
func Collect[F any](read func() (F, error), now func() time.Time, log *slog.Logger, metrics ...Metric[F]) prometheus.Collector {
	return &collector[F]{read, now, log, metrics}
}

type collector[F any] struct {
	read    func() (F, error)
	now     func() time.Time
	log     *slog.Logger
	metrics []Metric[F]
}

func (c *collector[F]) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		out <- m.desc
	}
}

func (c *collector[F]) Collect(out chan<- prometheus.Metric) {
	f, err := c.read()
	if err != nil {
		c.log.Warn("metrics", "error", err)
		return
	}
	now := c.now()
	for _, m := range c.metrics {
		if m.whole != nil {
			m.whole(m.desc, &f, out)
			continue
		}
		m.read(&f, now, func(v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
		})
	}
}
