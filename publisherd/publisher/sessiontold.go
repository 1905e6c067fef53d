package publisher

import (
	"context"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// hear asks what became of revocations before a push, if the indexer said by
// itself that something did, or holds another state than the last receipt says
// while a deletion is outstanding: that may have come since, and is no reason to
// compare all that is held (TestADeletionThatCameSinceIsAskedAfter).
func (s *session) hear(ctx context.Context, a agreement, c cursor) (cursor, error) {
	agrees := s.agrees(a, c)
	if !s.told && agrees {
		return c, nil
	}
	outstanding, err := s.p.askAnew(s.name())
	if err != nil || !outstanding {
		s.told = false
		return c, err
	}
	if err := s.p.DeliverRevocations(ctx, s.name()); err != nil {
		return c, err
	}
	s.told = false
	if c, err = a.cursor(s.p.store); err != nil {
		return c, err
	}
	if agrees { // by what it said when the session began
		s.held[a.rel.Series].StateRoot = c.State[:]
	}
	return c, nil
}

// askAnew makes every revocation due whose deletion an indexer has not
// acknowledged, and reports whether there is one.
func (p *Publisher) askAnew(indexer envelope.Name) (outstanding bool, err error) {
	p.revocationsMu.Lock()
	defer p.revocationsMu.Unlock()
	all, err := Revocations(p.dir)
	if err != nil {
		return false, err
	}
	for _, v := range all {
		if v.Indexer != indexer || v.Signed.Body.Disposition == grants.DispositionStop || !v.open() {
			continue
		}
		outstanding = true
		if v.Asked = (envelope.Time{}); v.Settled() {
			if err := v.write(p.dir); err != nil {
				return true, err
			}
		}
	}
	return outstanding, nil
}

// open reports whether pages were stopped of which it was not acknowledged that
// they are deleted.
func (v *Revocation) open() bool {
	for _, a := range v.Acknowledgements {
		if !v.acknowledged(a.Series, translog.DeleteAck) {
			return true
		}
	}
	return false
}
