package indexer

import (
	"context"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// patience is how long a batch waits for memory and for its turn. It is well
// below the time after which a publisher gives its session up.
const patience = 30 * time.Second

// patient is ctx for at most as long as a batch waits.
func (x *Indexer) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, x.patience, &refusal{
		reason: grants.ErrExhausted, detail: "too many batches are being worked on", retryMS: retryOverload,
	})
}

// reserve takes memory for a batch before its first chunk is taken: a batch
// that finds none waits, and with it its publisher alone. On a disk that is
// nearly full there is no room either.
func (s *session) reserve(ctx context.Context, weight int64) error {
	if err := s.x.store.Room(); err != nil {
		return err
	}
	ctx, cancel := s.x.patient(ctx)
	defer cancel()
	if err := s.x.memory.Acquire(ctx, weight); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// turnAway answers a batch that there is no room for, whose frame nobody waits
// for: its publisher sends no more of it once it has the answer, and what it has
// sent by then is dropped. What was committed before is answered all the same.
func (s *session) turnAway(ctx context.Context, f *oiv1.Batch, why *refusal) error {
	s.strays = true
	id := envelope.Hash{}
	if o, err := envelope.Parse(f.Manifest); err == nil {
		id = o.ID
	}
	if h := s.live[f.Series]; h != nil {
		l := &lookup{sid: h.rec.SID, batch: id}
		if err := s.x.tlog.Commit(ctx, l); err != nil && exhausted(err) == nil {
			return err
		}
		if l.found {
			return s.answer(ctx, f.Series, id, &l.answer)
		}
	}
	return s.refuseBatch(ctx, f, id, why)
}
