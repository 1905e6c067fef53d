package main

import "github.com/uzpif-oi/uzpif-oi/indexerd/indexer"

// identityMetrics are those of the certificate and of the trust. An alarm is a
// file that was not taken up; what it is, the log and "status" say.
func identityMetrics() []metric {
	const p = "uzpif_oi_"
	return []metric{
		gauge(p+"certificate_not_after_timestamp_seconds", "Unix time at which the certificate ends; 0 if there is none.", func(f *indexer.Figures) float64 {
			if f.Certificate.NotAfter.IsZero() {
				return 0
			}
			return float64(f.Certificate.NotAfter.Unix())
		}),
		gauge(p+"certificate_alarm", "1 while the certificate is not renewed as it should be.", func(f *indexer.Figures) float64 { return alarm(f.Certificate.Problem) }),
		gauge(p+"trust_identities", "Identities that are trusted.", func(f *indexer.Figures) float64 { return float64(f.Trust.Identities) }),
		gauge(p+"trust_authorities", "Trust domains whose authority is trusted.", func(f *indexer.Figures) float64 { return float64(f.Trust.Authorities) }),
		gauge(p+"trust_alarm", "1 while a file of the trust is not taken up.", func(f *indexer.Figures) float64 { return alarm(f.Trust.Problem) }),
	}
}

func alarm(problem string) float64 {
	if problem != "" {
		return 1
	}
	return 0
}
