package main

import (
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// A metric is one name, and how its values are read. doc/metrics.md describes
// each one; TestEveryMetricIsDescribed compares.
type metric = monitor.Metric[figures]

// figures are those of the publisher, and how long what waits has waited.
type figures struct {
	publisher.Figures
	outboxes map[string]outbox // by series
}

const prefix = "uzpif_oi_publisher_"

// collectors are all metrics that are this program's own.
func collectors(read func() (figures, error), last func() cli.Loaded, now func() time.Time, log *slog.Logger) []prometheus.Collector {
	return append(monitor.ConfigurationMetrics(last), monitor.Collect(read, now, log, metrics()...))
}

func metrics() []metric {
	return slices.Concat(outboxMetrics(), peerMetrics(), workMetrics(),
		monitor.StoreMetrics(func(f *figures) (durable.Metrics, durable.Disk) { return f.Store, f.Disk }),
		monitor.IdentityMetrics(func(f *figures) (identity.CertificateStatus, identity.TrustStatus) {
			return f.Status.Certificate, f.Status.Trust
		}))
}

// perSeries is a gauge for each agreement.
func perSeries(name, help string, value func(*publisher.IndexerStatus, outbox) float64) metric {
	return monitor.Gauges(prefix+name, help, []string{"indexer", "collection"}, func(f *figures, _ time.Time, emit func(float64, ...string)) {
		seen := make(map[[2]string]bool) // a grant that was renewed under another series may leave two of a name
		for i := range f.Status.Indexers {
			s := &f.Status.Indexers[i]
			key := [2]string{string(s.Identity), s.Collection}
			if s.State == "in-force" && !seen[key] {
				seen[key] = true
				emit(value(s, f.outboxes[s.Series]), key[0], key[1])
			}
		}
	})
}

func outboxMetrics() []metric {
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	return []metric{
		perSeries("outbox_revisions", "Revisions that were not offered yet.", func(s *publisher.IndexerStatus, _ outbox) float64 { return float64(s.Backlog) }),
		perSeries("outbox_age_seconds", "For how long there has been anything in the outbox.", func(_ *publisher.IndexerStatus, o outbox) float64 { return o.age.Seconds() }),
		perSeries("outbox_unmoved_seconds", "For how long nothing has left the outbox though something is in it.", func(_ *publisher.IndexerStatus, o outbox) float64 { return o.stuck.Seconds() }),
		perSeries("unacknowledged_batches", "Batches that were sent, and whose receipt is not stored.", func(s *publisher.IndexerStatus, _ outbox) float64 { return truth(s.Pending) }),
		perSeries("unacknowledged_revocations", "Revocations that the indexer has not carried out.", func(s *publisher.IndexerStatus, _ outbox) float64 {
			n := 0
			for _, r := range s.Revocations {
				if r.State != "done" {
					n++
				}
			}
			return float64(n)
		}),
		perSeries("pages", "Pages that the indexer holds.", func(s *publisher.IndexerStatus, _ outbox) float64 { return float64(s.Pages) }),
		perSeries("refused_pages", "Pages that are not delivered, since they were refused.", func(s *publisher.IndexerStatus, _ outbox) float64 {
			if s.Refused == nil {
				return 0
			}
			return float64(s.Refused.Count)
		}),
		perSeries("alarm", "1 while the indexer was found to be dishonest, or not sound.", func(s *publisher.IndexerStatus, _ outbox) float64 { return truth(s.Alarm != nil) }),
		perSeries("limited", "1 while a limit of the grant keeps the outbox here.", func(s *publisher.IndexerStatus, _ outbox) float64 { return truth(!s.LimitedUntil.IsZero()) }),
		perSeries("grant_expires_timestamp_seconds", "Unix time at which the grant ends.", func(s *publisher.IndexerStatus, _ outbox) float64 { return float64(s.ExpiresAt.Unix()) }),
	}
}

func peerMetrics() []metric {
	perPeer := func(f *figures, each func(p *publisher.PeerFigures)) {
		for i := range f.Pulse.Peers {
			each(&f.Pulse.Peers[i])
		}
	}
	counter := func(name, help string, value func(*publisher.PeerFigures) uint64) metric {
		return monitor.Counters(prefix+name, help, []string{"indexer"}, func(f *figures, emit func(float64, ...string)) {
			perPeer(f, func(p *publisher.PeerFigures) { emit(float64(value(p)), string(p.Indexer)) })
		})
	}
	reasons := func(name, help string, value func(*publisher.PeerFigures) map[string]uint64) metric {
		return monitor.Counters(prefix+name, help, []string{"indexer", "reason"}, func(f *figures, emit func(float64, ...string)) {
			perPeer(f, func(p *publisher.PeerFigures) {
				for reason, n := range value(p) {
					emit(float64(n), string(p.Indexer), reason)
				}
			})
		})
	}
	return []metric{
		monitor.Gauges(prefix+"session_open", "1 while there is a session.", []string{"indexer"}, func(f *figures, _ time.Time, emit func(float64, ...string)) {
			perPeer(f, func(p *publisher.PeerFigures) {
				open := 1.0
				if p.Open.IsZero() {
					open = 0
				}
				emit(open, string(p.Indexer))
			})
		}),
		monitor.Gauges(prefix+"checkpoint_age_seconds", "Since a checkpoint of the indexer's log was last verified; absent before the first.", []string{"indexer"},
			func(f *figures, now time.Time, emit func(float64, ...string)) {
				perPeer(f, func(p *publisher.PeerFigures) {
					if !p.TreeAt.IsZero() {
						emit(now.Sub(p.TreeAt).Seconds(), string(p.Indexer))
					}
				})
			}),
		counter("sessions_total", "Sessions opened.", func(p *publisher.PeerFigures) uint64 { return p.Sessions }),
		reasons("session_ends_total", "Sessions and attempts that ended, by reason.", func(p *publisher.PeerFigures) map[string]uint64 { return p.Ends }),
		reasons("refusals_total", "Batches refused, by reason.", func(p *publisher.PeerFigures) map[string]uint64 { return p.Refusals }),
		counter("receipts_total", "Receipts evaluated and stored.", func(p *publisher.PeerFigures) uint64 { return p.Batches }),
		counter("acknowledged_pages_total", "Pages and deletions of pages that they name.", func(p *publisher.PeerFigures) uint64 { return p.Pages }),
		counter("sent_bytes_total", "Octets sent in sessions, TLS included.", func(p *publisher.PeerFigures) uint64 { return p.WireOut }),
		counter("received_bytes_total", "Octets received in sessions, TLS included.", func(p *publisher.PeerFigures) uint64 { return p.WireIn }),
	}
}

func workMetrics() []metric {
	histogram := func(name, help string, value func(*publisher.PulseFigures) tally.Histogram) metric {
		return monitor.Histogram(prefix+name, help, func(f *figures) tally.Histogram { return value(&f.Pulse) })
	}
	perScan := func(name, help string, value func(*publisher.ScanFigures) uint64) metric {
		return monitor.Counters(prefix+name, help, []string{"collection"}, func(f *figures, emit func(float64, ...string)) {
			for i := range f.Pulse.Scans {
				emit(float64(value(&f.Pulse.Scans[i])), f.Pulse.Scans[i].Collection)
			}
		})
	}
	return []metric{
		histogram("batch_items", "Pages of a batch that was taken.", func(p *publisher.PulseFigures) tally.Histogram { return p.Items }),
		histogram("batch_bytes", "Octets of such a batch before compression.", func(p *publisher.PulseFigures) tally.Histogram { return p.Octets }),
		histogram("answer_seconds", "From the first octet of a batch to its answer.", func(p *publisher.PulseFigures) tally.Histogram { return p.Answer }),
		histogram("evaluate_seconds", "The evaluation of one answer.", func(p *publisher.PulseFigures) tally.Histogram { return p.Evaluate }),
		histogram("scan_seconds", "One scan of a collection.", func(p *publisher.PulseFigures) tally.Histogram { return p.Scan }),
		perScan("scans_total", "Scans of a collection.", func(s *publisher.ScanFigures) uint64 { return s.Scans }),
		perScan("failed_scans_total", "Of them, those that failed.", func(s *publisher.ScanFigures) uint64 { return s.Failed }),
		monitor.Gauges(prefix+"scan_age_seconds", "Since the last scan without an error ended; absent before the first.", []string{"collection"},
			func(f *figures, now time.Time, emit func(float64, ...string)) {
				for _, s := range f.Pulse.Scans {
					if !s.Good.IsZero() {
						emit(now.Sub(s.Good).Seconds(), s.Collection)
					}
				}
			}),
	}
}
