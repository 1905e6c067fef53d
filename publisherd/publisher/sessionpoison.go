package publisher

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// A poison page is one for which an indexer refuses a whole batch. It is found by
// halves, becomes a dead letter, and the rest goes on
// (TestAPoisonPageIsFoundAndTheRestGoesOn).

// maxPoison bounds how many of them one push looks for: where it is the indexer
// that is wrong, and not a page, the agreement is better held.
const maxPoison = 16

// poisons reports whether a whole batch may be refused for what one page is.
func poisons(r grants.Reason) bool {
	return r == grants.ErrMalformed || r == grants.ErrOversize || r == grants.ErrPayload
}

// isolate sends a draft, and when it is refused for what is in it, its halves.
func (s *session) isolate(ctx context.Context, a agreement, c cursor, d *drafter, dr *draft, report *Result) (cursor, error) {
	if err := errors.Join(a.buryAll(dr.dead, dr.over), dr.from(c.Acked)); err != nil {
		return c, err
	}
	next, err := s.deliverOne(ctx, a, c, dr, report)
	var refused *Refused
	if !errors.As(err, &refused) || !poisons(refused.Reason) || len(dr.items) == 0 || s.poison >= maxPoison {
		return next, err
	}
	if refused.ended && dr.alone == nil {
		return next, err // of a line that is too slow for a batch, say: no page is at fault
	}
	if len(dr.items) == 1 {
		s.poison++
		return s.buryPoison(a, c, dr, refused, report)
	}
	for _, half := range dr.halves() {
		if c, err = s.isolate(ctx, a, c, d, half, report); err != nil {
			return c, err
		}
	}
	return c, nil
}

// buryPoison passes the one page of a draft over.
func (s *session) buryPoison(a agreement, c cursor, dr *draft, why *Refused, report *Result) (cursor, error) {
	it := dr.items[0]
	s.p.log.Error("page refused with every batch", "indexer", s.name(), "collection", a.rel.Collection, "url", it.URL, "reason", why.Reason, "detail", why.Detail)
	report.refuse(it.URL, string(why.Reason))
	l := letter{URL: it.URL, Reason: string(why.Reason), Detail: why.Detail, Revision: it.Revision, Since: envelope.At(s.p.now())}
	if err := a.buryAll([]letter{l}, nil); err != nil {
		return c, err
	}
	c.Seen = dr.through
	return c, a.setCursor(c)
}

// halves are two drafts with what is in one of more than one page.
func (dr *draft) halves() [2]*draft {
	m := len(dr.items) / 2
	part := func(lo, hi int) *draft {
		n := &draft{items: dr.items[lo:hi], bodies: dr.bodies[lo:hi], through: dr.items[hi-1].Revision}
		n.wire.Items = dr.wire.Items[lo:hi]
		return n
	}
	first, second := part(0, m), part(m, len(dr.items))
	second.through, second.last = dr.through, dr.last
	return [2]*draft{first, second}
}

// from makes the draft one that begins at the revision that was acknowledged last.
// Nothing is to be done for what was made to begin there.
func (dr *draft) from(acked uint64) error {
	if len(dr.items) == 0 || dr.begins == acked && (dr.frame != nil || dr.alone != nil) {
		return nil
	}
	dr.begins, dr.patch = acked, nil
	dr.wire.Items[0].RevisionDelta = dr.items[0].Revision - acked
	list, err := (proto.MarshalOptions{Deterministic: true}).Marshal(&dr.wire)
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	raw := list
	for _, b := range dr.bodies {
		raw = append(raw, b...)
	}
	dr.itemsBytes, dr.rawBytes = len(list), len(raw)
	if dr.alone != nil {
		dr.alone.list = list
		return nil
	}
	dr.frame, err = encodeFrame(raw, nil)
	return err
}
