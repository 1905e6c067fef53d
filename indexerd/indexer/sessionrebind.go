package indexer

import (
	"context"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// rebind takes one Rebind to its answer, which names the grant in place of a
// batch. The same Rebind again is answered with the same octets.
func (s *session) rebind(ctx context.Context, f *oiv1.Rebind) error {
	p, err := s.newRebind(f)
	if err == nil {
		err = s.x.tlog.Commit(ctx, p)
	}
	if err == nil {
		return s.answer(ctx, f.Series, p.pair.Grant.Object.ID, p.answered)
	}
	r, ok := asRefusal(err)
	if !ok {
		return err
	}
	s.x.log.Warn("rebind refused", "publisher", s.peer.Card.Identity, "series", f.Series, "reason", string(r.reason), "detail", r.detail)
	return s.link.Urgent(ctx, batchResult(&oiv1.BatchResult{Series: f.Series, BatchId: f.GrantId, Refused: r.fault()}))
}

func (s *session) newRebind(f *oiv1.Rebind) (*rebind, error) {
	h := s.live[f.Series]
	switch {
	case h == nil:
		return nil, refuse(grants.ErrNoGrant, "series %.80q was not announced in this session", f.Series)
	case len(f.GrantId) != 32 || len(f.StateRoot) != 32:
		return nil, refuse(grants.ErrMalformed, "grant_id and state_root are 32 octets each")
	case envelope.Hash(f.GrantId) != h.pair.Grant.Object.ID:
		return nil, refuse(grants.ErrNoGrant, "the session announced grant %s", h.pair.Grant.Object.ID)
	}
	return &rebind{s: s, pair: h.pair, journalEpoch: f.JournalEpoch, revision: f.Revision, state: envelope.Hash(f.StateRoot)}, nil
}
