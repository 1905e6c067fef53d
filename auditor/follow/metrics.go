package follow

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector is a prometheus.Collector of the figures of each log, by its origin.
// doc/metrics.md describes each metric; TestEveryMetricIsDescribed compares.
func (s *Set) Collector() prometheus.Collector {
	return &collector{read: s.Figures, now: s.o.Now, known: metrics()}
}

type collector struct {
	read  func() []Figures
	now   func() time.Time
	known []metric
}

// A metric is one name, and how its values are read: emit is called with the
// values of further labels.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(f *Figures, now time.Time, emit func(value float64, labels ...string))
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.known {
		out <- m.desc
	}
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	now := c.now()
	for _, f := range c.read() {
		for _, m := range c.known {
			m.read(&f, now, func(value float64, labels ...string) {
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, append([]string{f.Origin}, labels...)...)
			})
		}
	}
}

// single is a metric of one value a log.
func single(name, help string, kind prometheus.ValueType, read func(*Figures) float64) metric {
	return metric{prometheus.NewDesc(prefix+name, help, []string{"log"}, nil), kind, func(f *Figures, _ time.Time, emit func(float64, ...string)) {
		emit(read(f))
	}}
}

const prefix = "uzpif_oi_follow_"

func metrics() []metric {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	return []metric{
		single("tree_entries", "Size of the newest tree that goes on from the others.", gauge, func(f *Figures) float64 { return float64(f.Size) }),
		single("verified_entries", "Entries that were verified, in all runs.", gauge, func(f *Figures) float64 { return float64(f.Verified) }),
		single("entries_verified_total", "Entries that were verified since the start.", counter, func(f *Figures) float64 { return float64(f.Checked) }),
		single("rounds_total", "Rounds since the start.", counter, func(f *Figures) float64 { return float64(f.Rounds) }),
		single("last_success_timestamp_seconds", "Unix time of the last round that found all well; 0 if there was none.", gauge, func(f *Figures) float64 { return unix(f.Succeeded) }),
		{
			prometheus.NewDesc(prefix+"checkpoint_age_seconds", "Since the newest checkpoint was issued.", []string{"log"}, nil), gauge,
			func(f *Figures, now time.Time, emit func(float64, ...string)) {
				if !f.Issued.IsZero() {
					emit(now.Sub(f.Issued).Seconds())
				}
			},
		},
		single("cosignatures", "Witnesses of the policy that cosigned the newest note lately.", gauge, func(f *Figures) float64 { return float64(f.Cosignatures) }),
		single("notes_refused", "Notes of others that are none of this log.", gauge, func(f *Figures) float64 { return float64(f.NotesRefused) }),
		single("notes_ahead", "Notes of others with more entries than are published.", gauge, func(f *Figures) float64 { return float64(f.NotesAhead) }),
		{
			prometheus.NewDesc(prefix+"alerts", "Alerts that stand, by kind.", []string{"log", "kind"}, nil), gauge,
			func(f *Figures, _ time.Time, emit func(float64, ...string)) {
				for _, k := range Kinds() {
					emit(float64(f.Alerts[k]), string(k))
				}
			},
		},
		{
			prometheus.NewDesc(prefix+"errors_total", "Rounds that did not come to their end, by reason.", []string{"log", "reason"}, nil), counter,
			func(f *Figures, _ time.Time, emit func(float64, ...string)) {
				for _, r := range Reasons() {
					emit(float64(f.Errors[r]), string(r))
				}
			},
		},
	}
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}
