package indexer

import (
	"context"
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// expire puts into the log which series a grant's expiry has closed, once each.
// The exits were closed in that second, by the clock.
func (x *Indexer) expire(ctx context.Context) error {
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return err
	}
	now := x.cfg.Now()
	for _, rec := range recs {
		var p *grants.Pair
		due, err := x.mayHaveExpired(rec, now)
		if err == nil && due {
			p, err = rec.expired(x.store, now)
		}
		if err != nil {
			return err
		}
		if p == nil {
			continue
		}
		if err := x.tlog.CommitUrgent(ctx, &expiry{publisher: rec.Publisher, series: rec.Series}); err != nil {
			return err
		}
		x.log.Info("grant expired", "publisher", rec.Publisher, "series", rec.Series, "grant", p.Grant.Object.ID)
		x.sessions.wake(rec.Publisher)
	}
	return nil
}

// mayHaveExpired reports whether a grant of the series has ended, by what was
// read once. The tender alone calls it.
func (x *Indexer) mayHaveExpired(rec *seriesRecord, now time.Time) (bool, error) {
	for _, id := range []envelope.Hash{rec.Bound, rec.Grant.ID} {
		if id.IsZero() {
			continue
		}
		end, ok := x.tender.ends[id]
		if !ok {
			p, err := pairOf(x.store, id)
			if err != nil {
				return false, err
			}
			end = p.ExpiresAt()
			x.tender.ends[id] = end
		}
		if !now.Before(end) {
			return true, nil
		}
	}
	return false, nil
}

// expired is the pair whose end has closed the series while the log does not
// say so: the one under which the state is held, or a newer one that ends
// before it. It is nil where nothing is held, and where a revocation has closed
// the series already.
func (r *seriesRecord) expired(rd durable.Reader, now time.Time) (*grants.Pair, error) {
	if !r.Expired.IsZero() || r.Revoked != nil || r.Bound.IsZero() && r.Pages == 0 {
		return nil, nil
	}
	newest, bound, err := r.pairs(rd)
	if err != nil {
		return nil, err
	}
	for _, p := range []grants.Pair{bound, newest} {
		if !now.Before(p.ExpiresAt()) {
			return &p, nil
		}
	}
	return nil, nil
}

// An expiry is the proposal of one entry.
type expiry struct {
	publisher envelope.Name
	series    string
}

// Prepare looks again: a rebind may have come first.
func (p *expiry) Prepare(tx *translog.Tx) error {
	rec, err := readSeries(tx.Batch(), p.publisher, p.series)
	if err != nil || rec == nil {
		return err
	}
	pair, err := rec.expired(tx.Batch(), tx.Now())
	if err != nil || pair == nil {
		return err
	}
	rec.Expired = pair.Grant.Object.ID
	e := rec.entry(*pair, rec.State)
	e.Decision, e.Status, e.Objects = translog.Exclude, translog.GrantExpired, counted(rec.Pages)
	return errors.Join(rec.write(tx.Batch()), rec.append(tx, *pair, e, nil))
}

// Finish has nothing to add.
func (p *expiry) Finish(*translog.Tx, *translog.Committed) error { return nil }
