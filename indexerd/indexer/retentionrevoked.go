package indexer

import (
	"context"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A waiting deletion is one after a revocation with disposition retention: its
// pages go one by one as the time of each is over, and when none of them is held
// any more it becomes a deletion like any other, which takes their rows out of the
// state and ends in the acknowledgement.
func waitingKey(sid uint32, revocation envelope.Hash) []byte {
	return sidKey('W', sid, revocation[:]...)
}

// ripen looks at every deletion that waits. What is looked at is remembered by
// how many pages its series held then.
func (x *Indexer) ripen(ctx context.Context) error {
	waiting, err := deletionsIn(x.store, 'W')
	if err != nil {
		return err
	}
	for _, d := range waiting {
		rec, err := readSeries(x.store, d.Publisher, d.Series)
		if err != nil {
			return err
		}
		if rec == nil {
			return fmt.Errorf("a deletion waits in series %s, which is not there", d.Series)
		}
		stand := standing{rec.Pages, rec.Bound}
		if seen, ok := x.tender.waits[d.Revocation]; ok && seen == stand || rec.Deletions > 0 {
			continue
		}
		r := &ripening{deletion: d}
		if err := r.look(x.store, rec); err != nil {
			return err
		}
		if !r.ripe && !r.void {
			x.tender.waits[d.Revocation] = stand
			continue
		}
		if err := x.tlog.CommitUrgent(ctx, r); err != nil {
			return err
		}
		delete(x.tender.waits, d.Revocation)
	}
	return nil
}

type standing struct {
	pages uint64
	bound envelope.Hash
}

// A ripening is the proposal that ends the waiting of a deletion.
type ripening struct {
	*deletion
	ripe bool // nothing that the revocation reaches is held
	void bool // a grant that it does not reach has taken the pages over
}

// look finds out where the deletion stands.
func (r *ripening) look(rd durable.Reader, rec *seriesRecord) error {
	_, bound, err := rec.pairs(rd)
	if err != nil {
		return err
	}
	var stored storedRevocation
	if _, err := durable.ReadJSON(rd, revocationKey(r.Publisher, r.Revocation), &stored); err != nil {
		return err
	}
	rev, err := stored.open()
	if err != nil {
		return err
	}
	if r.void = !rev.Reaches(bound.Grant); r.void {
		return nil
	}
	if r.ripe = rec.Pages == 0; r.ripe || r.Whole {
		return nil
	}
	r.ripe = true
	err = eachPage(rd, rec.SID, func(_ []byte, row *catalogueRow) error {
		if row.Held && rev.ReachesPage(bound.Grant, row.URL) {
			r.ripe = false
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a scan that has found what it looks for.
var errEnough = errors.New("enough was seen")

// Prepare looks again, and makes of it a deletion.
func (r *ripening) Prepare(tx *translog.Tx) error {
	b := tx.Batch()
	key := waitingKey(r.SID, r.Revocation)
	if ok, err := durable.ReadJSON(b, key, new(deletion)); err != nil || !ok {
		return err
	}
	rec, err := readSeries(b, r.Publisher, r.Series)
	if err != nil || rec == nil {
		return err
	}
	if err := r.look(b, rec); err != nil {
		return err
	}
	switch {
	case r.void:
		return b.Delete(key)
	case !r.ripe || rec.Deletions > 0:
		return nil
	}
	rec.DataKey++
	rec.Deletions++
	d := *r.deletion
	d.DataKey, d.State = rec.DataKey, rec.State
	return errors.Join(b.Delete(key), d.write(b), rec.write(b))
}

// Finish has nothing to add.
func (r *ripening) Finish(*translog.Tx, *translog.Committed) error { return nil }
