package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// keepGone is how long the feed tells of a page that is gone. Whoever comes back
// later than that begins anew.
const keepGone = 90 * 24 * time.Hour

// pruneEvery is how often old tombstones are looked for, and pruneStep the most
// that one commit forgets.
const (
	pruneEvery = time.Hour
	pruneStep  = 1000
)

// dropTold makes the feed forget the pages of a series that is deleted whole. The
// end of the series stays told, and says it of all of them.
func (w *deleter) dropTold(ctx context.Context) error {
	lo := feedSID(1, w.SID)
	for {
		n, err := w.dropSomeTold(ctx, lo)
		if err != nil || n == 0 {
			return err
		}
	}
}

func (w *deleter) dropSomeTold(ctx context.Context, lo []byte) (n int, err error) {
	b := w.x.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	for kv, err := range w.x.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return 0, err
		}
		var told toldPage
		if err := told.ParseRow(kv.Value); err != nil {
			return 0, fmt.Errorf("row %x: %w", kv.Key, err)
		}
		if err := errors.Join(b.Delete(kv.Key), b.Delete(changeKey(told.Number)), b.Delete(goneKey(w.SID, told.Number))); err != nil {
			return 0, err
		}
		if n++; n == w.x.tender.rows {
			break
		}
	}
	if n == 0 {
		return 0, nil
	}
	return n, w.commit(ctx, b)
}

// tell tells the feed which pages a deletion of a part has taken.
func (p *conclusion) tell(tx *translog.Tx) error {
	if p.Whole {
		return nil
	}
	hashes := make([][]byte, len(p.gone))
	for i := range p.gone {
		hashes[i] = p.gone[i].URLHash[:]
	}
	return tellGone(tx, p.SID, hashes)
}

// pruneFeed forgets tombstones that are old enough, a step at a time.
func (x *Indexer) pruneFeed(ctx context.Context) error {
	now := x.cfg.Now()
	if now.Before(x.tender.pruned.Add(pruneEvery)) {
		return nil
	}
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return err
	}
	for _, rec := range recs {
		for {
			p := &pruning{sid: rec.SID, before: now.Add(-keepGone).Unix()}
			if err := p.look(x.store); err != nil {
				return err
			}
			if len(p.pages) == 0 {
				break
			}
			if err := x.tender.pause(ctx); err != nil {
				return err
			}
			if err := x.tlog.Commit(ctx, p); err != nil {
				return err
			}
		}
	}
	x.tender.pruned = now
	return nil
}

// A pruning is the proposal that forgets tombstones of a series.
type pruning struct {
	sid    uint32
	before int64 // Unix seconds
	pages  [][]byte
}

// look finds the oldest.
func (p *pruning) look(r durable.Reader) error {
	lo := feedSID(4, p.sid)
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		var told toldPage
		if _, err := readRow(r, feedSID(1, p.sid, kv.Value...), &told); err != nil {
			return err
		}
		if told.Gone >= p.before || len(p.pages) == pruneStep {
			return nil // those behind it went later
		}
		p.pages = append(p.pages, append([]byte(nil), kv.Value...))
	}
	return nil
}

// Prepare looks at each again: it may have come back.
func (p *pruning) Prepare(tx *translog.Tx) error {
	b := tx.Batch()
	var id feedIdentity
	if _, err := durable.ReadJSON(b, feedKey(3), &id); err != nil {
		return err
	}
	for _, h := range p.pages {
		key := feedSID(1, p.sid, h...)
		var told toldPage
		ok, err := readRow(b, key, &told)
		if err != nil {
			return err
		}
		if !ok || told.Gone == 0 || told.Gone >= p.before {
			continue
		}
		id.Floor = max(id.Floor, told.Number)
		if err := errors.Join(b.Delete(key), b.Delete(changeKey(told.Number)), b.Delete(goneKey(p.sid, told.Number))); err != nil {
			return err
		}
	}
	return durable.WriteJSON(b, feedKey(3), id)
}

// Finish has nothing to add.
func (p *pruning) Finish(*translog.Tx, *translog.Committed) error { return nil }
