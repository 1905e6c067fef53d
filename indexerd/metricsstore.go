package main

import (
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
)

func storeMetrics() []metric {
	return monitor.StoreMetrics(func(f *indexer.Figures) (durable.Metrics, durable.Disk) { return f.Store, f.Disk })
}

// identityMetrics are those of the certificate and of the trust.
func identityMetrics() []metric {
	return monitor.IdentityMetrics(func(f *indexer.Figures) (identity.CertificateStatus, identity.TrustStatus) {
		return f.Certificate, f.Trust
	})
}
