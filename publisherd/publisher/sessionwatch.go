package publisher

import (
	"context"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// Times of a session's watch.
const (
	lookEvery = 250 * time.Millisecond
	// leadTime is how long before the indexer's certificate ends the session is
	// left between two batches, so that it need not be cut.
	leadTime = 15 * time.Second
)

// watch looks until ctx ends whether the session may go on. It ends it at once
// when the indexer is not trusted any more, or its certificate has ended; it
// closes outdated when a new session is to take its place.
func (s *session) watch(ctx context.Context, hs *handshake) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var until, began time.Time
	var judged uint64
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		state, now := hs.state.Load(), s.p.now()
		if state == nil {
			continue // the handshake is under way
		}
		if version := s.p.trust.Version(); began.IsZero() || version != judged || !now.Before(until) {
			who, end, err := identity.VerifyPeer(*state, s.p.trust, identity.Indexer, now)
			if err != nil {
				s.lose(&Refused{Reason: grants.ErrUnknownPeer, Detail: err.Error()})
				return
			}
			if began.IsZero() {
				began = now
			}
			until, judged = end, version
			told = s.outdate(told, who != s.peer)
		}
		lead := until.Add(-leadTime)
		told = s.outdate(told, s.p.local.Certificate() != hs.shown.Load() || began.Before(lead) && !now.Before(lead))
	}
}

// outdate closes outdated, once, if there is a reason.
func (s *session) outdate(told, reason bool) bool {
	if reason && !told {
		close(s.anew)
	}
	return told || reason
}

// outdated is closed when another session is to take the place of this one.
func (s *session) outdated() <-chan struct{} { return s.anew }

// lose ends the session at once.
func (s *session) lose(err error) {
	s.lost.Store(&err)
	s.cancel(err)
}

// presentable refuses to dial with a certificate that no indexer would take.
func (p *Publisher) presentable() error {
	c := p.local.Certificate()
	if c != nil && p.now().Before(c.Leaf.NotAfter) {
		return nil
	}
	s := p.local.Status(p.now())
	detail := "there is no certificate to show"
	if c != nil {
		detail = "the own certificate ended at " + envelope.At(c.Leaf.NotAfter).String()
	}
	if s.Problem != "" {
		detail += ": " + s.Problem
	}
	return &Refused{Reason: grants.ErrUnknownPeer, Detail: detail}
}

// followFiles keeps trust and certificate in step with their files until the function
// that it returns is called; changed hears of each change.
func (p *Publisher) followFiles(ctx context.Context, changed func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		identity.Watch{Trust: p.trust, Local: p.local, Now: p.now, Log: p.log, Changed: changed}.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
