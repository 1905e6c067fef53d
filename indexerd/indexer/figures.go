package indexer

import (
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// Figures are what an operator watches.
type Figures struct {
	Log          translog.Stats
	Publications translog.Publications
	Witnesses    []witness.State // none without a policy
	Sessions     int
	Pulse        PulseFigures
	Frozen       *Frozen
	Asks         AskFigures
	Store        durable.Metrics
	Disk         durable.Disk
	Certificate  identity.CertificateStatus
	Trust        identity.TrustStatus
	Feed         FeedFigures
	// Gateway is filled in by the program that serves it.
	Gateway struct{ Requests, Limited, Refused, Cut, Crowded uint64 }
}

// Figures reads them all; it costs some microseconds, and waits for nobody.
func (x *Indexer) Figures() (Figures, error) {
	f := Figures{Log: x.tlog.Stats(), Publications: x.tlog.Publications(), Sessions: x.sessions.count(), Disk: x.store.Disk(), Asks: x.asks.figures(), Pulse: x.pulse.figures(), Frozen: x.frozen}
	f.Certificate, f.Trust = x.local.Status(x.cfg.Now()), x.trust.Status()
	if x.cfg.Witnesses != nil {
		f.Witnesses = x.cfg.Witnesses.States()
	}
	var err error
	if f.Feed, err = x.feedFigures(); err != nil {
		return f, err
	}
	f.Store, err = x.store.Metrics()
	return f, err
}
