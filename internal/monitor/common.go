package monitor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// What both daemons have: a store on a disk, a certificate, and trust.

// StoreMetrics are those of the store and its disk.
func StoreMetrics[F any](of func(*F) (durable.Metrics, durable.Disk)) []Metric[F] {
	const p = "uzpif_oi_store_"
	gauge := func(name, help string, value func(durable.Metrics, durable.Disk) float64) Metric[F] {
		return Gauge(p+name, help, func(f *F) float64 { return value(of(f)) })
	}
	counter := func(name, help string, value func(durable.Metrics, durable.Disk) uint64) Metric[F] {
		return Counter(p+name, help, func(f *F) uint64 { return value(of(f)) })
	}
	return []Metric[F]{
		gauge("disk_bytes", "Everything in the store's folder.", func(m durable.Metrics, _ durable.Disk) float64 { return float64(m.DiskBytes) }),
		gauge("wal_bytes", "The live part of the write-ahead log.", func(m durable.Metrics, _ durable.Disk) float64 { return float64(m.LogBytes) }),
		gauge("memtable_bytes", "Rows that are not in tables yet.", func(m durable.Metrics, _ durable.Disk) float64 { return float64(m.MemTableBytes) }),
		gauge("l0_files", "Tables at level 0.", func(m durable.Metrics, _ durable.Disk) float64 { return float64(m.L0Files) }),
		gauge("l0_sublevels", "Layers of tables at level 0.", func(m durable.Metrics, _ durable.Disk) float64 { return float64(m.L0Sublevels) }),
		gauge("read_amplification_tables", "Tables that one look-up may have to ask.", func(m durable.Metrics, _ durable.Disk) float64 { return float64(m.ReadAmp) }),
		gauge("compactions", "Compactions under way.", func(m durable.Metrics, _ durable.Disk) float64 { return float64(m.Compacting) }),
		counter("write_stalls_total", "Times that writes waited for compactions or flushes.", func(m durable.Metrics, _ durable.Disk) uint64 { return m.WriteStalls }),
		counter("stalls_total", "Writes and syncs that took longer than disk_stall.", func(_ durable.Metrics, d durable.Disk) uint64 { return d.Stalls }),
		gauge("free_bytes", "Room on the disk, as last looked at.", func(_ durable.Metrics, d durable.Disk) float64 { return float64(d.Free) }),
		gauge("ballast_bytes", "Room held back in the ballast.", func(_ durable.Metrics, d durable.Disk) float64 { return float64(d.Ballast) }),
		counter("ballast_released_total", "Times that the ballast was given up.", func(_ durable.Metrics, d durable.Disk) uint64 { return d.Released }),
	}
}

// IdentityMetrics are those of the certificate and of the trust. An alarm is a
// file that was not taken up; what it is, the log, the page and "status" say.
func IdentityMetrics[F any](of func(*F) (identity.CertificateStatus, identity.TrustStatus)) []Metric[F] {
	const p = "uzpif_oi_"
	return []Metric[F]{
		Gauge(p+"certificate_not_after_timestamp_seconds", "Unix time at which the certificate ends; 0 if there is none.", func(f *F) float64 {
			c, _ := of(f)
			if c.NotAfter.IsZero() {
				return 0
			}
			return float64(c.NotAfter.Unix())
		}),
		Gauge(p+"certificate_alarm", "1 while the certificate is not renewed as it should be.", func(f *F) float64 {
			c, _ := of(f)
			return alarm(c.Problem)
		}),
		Gauge(p+"trust_identities", "Identities that are trusted.", func(f *F) float64 {
			_, t := of(f)
			return float64(t.Identities)
		}),
		Gauge(p+"trust_authorities", "Trust domains whose authority is trusted.", func(f *F) float64 {
			_, t := of(f)
			return float64(t.Authorities)
		}),
		Gauge(p+"trust_alarm", "1 while a file of the trust is not taken up.", func(f *F) float64 {
			_, t := of(f)
			return alarm(t.Problem)
		}),
	}
}

// ConfigurationMetrics are those of the configuration that is in force.
func ConfigurationMetrics(last func() cli.Loaded) []prometheus.Collector {
	gauge := func(name, help string, value func(cli.Loaded) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "uzpif_oi_configuration_" + name, Help: help}, func() float64 { return value(last()) })
	}
	return []prometheus.Collector{
		gauge("alarm", "1 while the configuration's file could not be taken up, and the one before is in force.", func(l cli.Loaded) float64 { return alarm(l.Problem) }),
		gauge("loaded_timestamp_seconds", "Unix time at which the configuration in force was read; 0 before that.", func(l cli.Loaded) float64 {
			if l.At.IsZero() {
				return 0
			}
			return float64(l.At.Unix())
		}),
	}
}

func alarm(problem string) float64 {
	if problem != "" {
		return 1
	}
	return 0
}

// Disk adds what is wrong with the disk. It reports whether the disk answers: else
// nothing that may ask it is to be looked at.
func (r *Report) Disk(d durable.Disk) bool {
	if d.Stalled != nil {
		r.Fail("disk_stalled", "%v", d.Stalled)
	}
	if d.Full != nil {
		r.Fail("disk_full", "%v", d.Full)
	}
	return d.Stalled == nil
}

// certificateNear is how long before its end a certificate is warned of. One that
// the identity issues itself was renewed a long time before.
const certificateNear = 7 * 24 * time.Hour

// Configuration adds that a newer one could not be taken up.
func (r *Report) Configuration(l cli.Loaded) {
	if l.Problem != "" {
		r.Warn("configuration_not_read", "the configuration of %s is in force: %s", Moment(l.At), l.Problem)
	}
}

// Identity adds what is wrong with certificate and trust.
func (r *Report) Identity(c identity.CertificateStatus, t identity.TrustStatus, now time.Time) {
	switch left := c.NotAfter.Sub(now); {
	case c.NotAfter.IsZero():
		r.Fail("certificate_missing", "there is no certificate to show: %s", c.Problem)
	case left <= 0:
		r.Fail("certificate_ended", "the certificate ended on %s", Moment(c.NotAfter.Time))
	case left < certificateNear:
		r.Warn("certificate_ending", "the certificate ends in %s, on %s", Ago(left), Moment(c.NotAfter.Time))
	}
	if c.Problem != "" && !c.NotAfter.IsZero() {
		r.Warn("certificate_not_renewed", "%s", c.Problem)
	}
	if t.Problem != "" {
		r.Warn("trust_not_read", "%s", t.Problem)
	}
}

// IdentityFacts are certificate and trust for people.
func IdentityFacts(c identity.CertificateStatus, t identity.TrustStatus, now time.Time) []Fact {
	source := c.Source
	if source == "self" {
		source = "issued and renewed by the daemon itself"
	}
	facts := []Fact{
		{Name: "Certificate ends", Value: Moment(c.NotAfter.Time) + ", in " + Ago(c.NotAfter.Sub(now))}, {Name: "Certificate is", Value: source},
		{Name: "Trusted identities", Value: Number(float64(t.Identities))}, {Name: "Trusted authorities", Value: Number(float64(t.Authorities))},
	}
	for _, problem := range []string{c.Problem, t.Problem} {
		if problem != "" {
			facts = append(facts, Fact{Name: "Problem", Value: problem})
		}
	}
	return facts
}

// StoreFacts are the store and its disk for people.
func StoreFacts(m durable.Metrics, d durable.Disk) []Fact {
	return []Fact{
		{Name: "Store on disk", Value: Octets(m.DiskBytes)}, {Name: "Free on the disk", Value: Octets(d.Free)},
		{Name: "Held back for a full disk", Value: Octets(uint64(max(0, d.Ballast)))},
		{Name: "Tables at level 0", Value: Number(float64(m.L0Files))}, {Name: "Slow writes", Value: Number(float64(d.Stalls))},
	}
}
