package indexer

import (
	"context"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// probeTag is hashed before what a probe is answered from.
const probeTag = "uzpif-oi/probe/v1"

// maxProbes is how many probes a session has. Each may decompress one segment,
// and takes its turn among the batches that are being worked on.
const maxProbes = 8

// probe shows the publisher that the payload of one of its own pages is here,
// or says why it cannot be given out. What is asked is bounded before anything
// is read, and the payload itself never leaves.
func (s *session) probe(ctx context.Context, f *oiv1.Probe) error {
	s.probes++
	switch {
	case s.probes > maxProbes:
		return refuse(grants.ErrOversize, "more than %d probes in one session", maxProbes)
	case s.live[f.Series] == nil:
		return refuse(grants.ErrNoGrant, "series %.80q was not announced in this session", f.Series)
	case len(f.Nonce) != 32, len(f.Url) > grants.MaxURL:
		return refuse(grants.ErrMalformed, "a probe with a nonce of %d octets for a URL of %d", len(f.Nonce), len(f.Url))
	}
	answer := &oiv1.ProbeAnswer{Nonce: f.Nonce}
	proof, err := s.proveHeld(ctx, f)
	if err != nil {
		r, ok := asRefusal(err)
		if !ok {
			return err
		}
		answer.Refused = string(r.reason)
	} else {
		answer.Proof = proof[:]
	}
	return s.link.Send(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_ProbeAnswer{ProbeAnswer: answer}})
}

// proveHeld reads the payload in its turn. A page whose segment is damaged is
// not held: the publisher sends it again, which is what it needs.
func (s *session) proveHeld(ctx context.Context, f *oiv1.Probe) (envelope.Hash, error) {
	turn, cancel := s.x.patient(ctx)
	defer cancel()
	select {
	case s.x.slots <- struct{}{}:
		defer func() { <-s.x.slots }()
	case <-turn.Done():
		return envelope.Hash{}, context.Cause(turn)
	}
	payload, err := s.x.ownPayload(s.peer.Card.Identity, f.Series, f.Url)
	if err == nil {
		return envelope.TaggedHash(probeTag, f.Nonce, payload), nil
	}
	if _, known := asRefusal(err); !known && s.x.store.Err() == nil {
		s.x.log.Error("a page cannot be read", "publisher", s.peer.Card.Identity, "series", f.Series, "url", f.Url, "error", err)
		err = refuse(grants.ErrNotHeld, "the page cannot be read")
	}
	return envelope.Hash{}, err
}
