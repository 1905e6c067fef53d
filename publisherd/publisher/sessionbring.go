package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// bring pushes one series over the session. When stop is closed it ends, with
// ErrStopping, behind the batch that is in flight.
func (s *session) bring(ctx context.Context, stop <-chan struct{}, r *Relationship, sc *scanned) (Result, error) {
	return s.within(ctx, stop, r, sc, func(ctx context.Context, result *Result) error {
		s.partly = sc.grows()
		err := s.push(ctx, r, sc.col, result)
		if err == nil {
			err = s.answerAsked(ctx, r, sc.col, result)
		}
		if err == nil {
			err = s.follow(r, result)
		}
		if s.partly {
			return err
		}
		if err == nil {
			err = s.probe(ctx, agreement{s.p.store, r}, sc.col, result)
		}
		if err == nil && len(result.Unshown) == 0 {
			err = s.p.calm(r)
		}
		return err
	})
}

// answerOnly is bring for a series that waits: what the indexer asked for is answered,
// and nothing else is done.
func (s *session) answerOnly(ctx context.Context, stop <-chan struct{}, r *Relationship, sc *scanned) (Result, error) {
	if s.asking.requests[r.Series] == nil {
		return Result{Indexer: r.Indexer, Collection: r.Collection}, nil
	}
	return s.within(ctx, stop, r, sc, func(ctx context.Context, result *Result) error {
		err := s.answerAsked(ctx, r, sc.col, result)
		if err == nil {
			err = s.follow(r, result)
		}
		return err
	})
}

// within does something for one series, and counts what it took.
func (s *session) within(ctx context.Context, stop <-chan struct{}, r *Relationship, sc *scanned, do func(context.Context, *Result) error) (Result, error) {
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	result := Result{Indexer: r.Indexer, Collection: r.Collection, Refused: []RefusedItem{}, Skipped: []SkippedItem{}, Receipts: []envelope.Hash{}, TreeSize: s.tree.Size}
	result.acked = func() {
		select {
		case <-stop:
			cancel(ErrStopping)
		default:
		}
	}
	found := sc.found()
	for _, k := range found.Skipped {
		result.Skipped = append(result.Skipped, SkippedItem{k.Location, k.Reason})
	}
	result.SkippedCount = found.SkippedCount
	err := s.refused[r.Series]
	if err == nil {
		err = r.withheld(s.p.dir)
	}
	if err == nil {
		err = do(ctx, &result)
	}
	result.acked = nil
	result.WireOut, result.WireIn, result.Handshake = s.wire.out.Swap(0), s.wire.in.Swap(0), s.wire.handshake.Swap(0)
	result.RoundTrips = s.wire.trips.Swap(0)
	result.Seconds = time.Since(start).Seconds()
	if err != nil {
		return result, s.p.judged([]*Relationship{r}, fmt.Errorf("%s, collection %s: %w", r.Indexer, r.Collection, err))
	}
	return result, nil
}

// follow takes note of where the series stands after a push: the session may
// push it again.
func (s *session) follow(r *Relationship, result *Result) error {
	c, err := agreement{s.p.store, r}.cursor(s.p.store)
	if err != nil {
		return err
	}
	sum, err := agreement{s.p.store, r}.letterSum(s.p.store)
	if err != nil {
		return err
	}
	pages := sum.delivered(c)
	result.Unchanged, result.Undelivered = pages-min(pages, uint64(result.Sent)), sum.Count
	if held := s.held[r.Series]; held != nil && !c.Receipt.IsZero() {
		held.JournalEpoch, held.Revision, held.StateRoot, held.Receipt = c.JournalEpoch, c.Acked, c.State[:], c.Receipt[:]
	}
	return nil
}
