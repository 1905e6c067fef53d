package indexer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The retention of a page (UZPIF-OI 11.1) runs from its last include, update or
// rebind, for as many days as the policy says and the grant does not cut short.
// Readers are refused from its very second. The payload goes soon after: all
// pages of a segment came with one commit, so that segments go whole, and no
// index of pages is kept for it. The row of the page stays in the state, and so
// nothing is sent again because of it.
//
// Retention runs on whatever becomes of the grant: at its expiry, and after a
// revocation of any disposition that leaves the pages where they are.

// erase is how long what no page names any more may lie in a segment: superseded
// payloads, deleted pages, excluded ones.
const erase = 24 * time.Hour

const secondsPerDay = 24 * 60 * 60

// A heldRow is what retention knows of a segment, or of the file of a large page.
// It is written by the commit of the batch, and goes with what it speaks of.
type heldRow struct {
	At   int64         `json:"at"`            // when its payloads came, in Unix seconds
	Dead int64         `json:"dead,omitzero"` // since when no page names all of it; 0: all is named
	Page envelope.Hash `json:"page,omitzero"` // of a file: the hash of its page's URL
}

func heldKey(sid uint32, number uint64) []byte { return numberKey('H', sid, number) }

// number is that of the segment or file in which the page lies.
func (row *catalogueRow) number() uint64 { return max(row.Segment, row.File) }

// leftBehind collects the segments of pages that leave them.
type leftBehind struct{ segments, files map[uint64]bool }

func (l *leftBehind) add(row *catalogueRow) {
	if l.segments == nil {
		l.segments, l.files = make(map[uint64]bool), make(map[uint64]bool)
	}
	if row.File != 0 {
		l.files[row.File] = true // it is removed as soon as the commit is durable
	} else {
		l.segments[row.Segment] = true
	}
}

// mark notes since when not all of them is named.
func (l *leftBehind) mark(b *durable.Batch, sid uint32, now time.Time) error {
	for number := range l.files {
		if err := b.Delete(heldKey(sid, number)); err != nil {
			return err
		}
	}
	for number := range l.segments {
		var row heldRow
		ok, err := durable.ReadJSON(b, heldKey(sid, number), &row)
		if err == nil && ok && row.Dead == 0 {
			row.Dead = now.Unix()
			err = durable.WriteJSON(b, heldKey(sid, number), row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepUntil notes since when the segment or file of the batch is kept, and which
// older ones are not named whole any more.
func (in *ingest) keepUntil(tx *translog.Tx) error {
	b, sid, now := tx.Batch(), in.rec.SID, tx.Now()
	if err := in.left.mark(b, sid, now); err != nil {
		return err
	}
	row, number := heldRow{At: now.Unix()}, in.segment
	held := false
	for i := range in.items {
		if it := &in.items[i]; it.decision == translog.Include || it.decision == translog.Update {
			held = true
		} else {
			row.Dead = row.At // it is in the frame all the same, if only by its URL
		}
	}
	switch {
	case len(in.items) == 0 || in.large != (largeName{}) && !held:
		return nil // nothing is kept
	case in.large != (largeName{}):
		row.Page, number = in.large.h, in.large.file
	}
	return durable.WriteJSON(b, heldKey(sid, number), row)
}

// keeping is how a series' pages are kept: for how long copies and features may
// be, from what time on at the earliest.
type keeping struct {
	copies, features int64 // seconds
	from             int64 // of the last rebind, in Unix seconds
}

// keeping is the stricter of what the grant allows under which the state is held
// and of what the newest one does.
func (r *seriesRecord) keeping(newest, bound grants.Pair) keeping {
	a, b := newest.Retention(), bound.Retention()
	return keeping{
		copies:   int64(min(a.CachedCopyDays, b.CachedCopyDays)) * secondsPerDay,
		features: int64(min(a.FeatureDays, b.FeatureDays)) * secondsPerDay,
		from:     r.Rebound,
	}
}

// until is when copies of what came at a time end.
func (k keeping) until(at int64) int64 { return max(at, k.from) + k.copies }

// what is to be done about a segment at a time, and if it is nothing, until when.
func (k keeping) due(row *heldRow, now int64) (drop, sweep bool, next int64) {
	end, clean := k.until(row.At), row.Dead+int64(erase/time.Second)
	switch {
	case end <= now:
		return true, false, 0
	case row.Dead != 0 && clean <= now:
		return false, true, 0
	case row.Dead != 0:
		return false, false, min(end, clean)
	}
	return false, false, end
}

// A duty is the next time at which something of a series may be due, as long as
// what it was reckoned by stands.
type duty struct {
	newest, bound envelope.Hash
	rebound       int64
	next          int64
}

// A dueSegment is one of which something is to be done.
type dueSegment struct {
	number uint64
	row    heldRow
	drop   bool
}

// dueAtOnce is the most segments that one pass over the catalogue looks after.
const dueAtOnce = 64

// due lists what is to be done about a series at now, at most dueAtOnce segments.
// The tender alone calls it.
func (x *Indexer) due(rec *seriesRecord, k keeping, now int64) ([]dueSegment, error) {
	known, ok := x.tender.duties[rec.SID]
	if ok && known.newest == rec.Grant.ID && known.bound == rec.Bound && known.rebound == rec.Rebound && now < known.next {
		return nil, nil
	}
	var all []dueSegment
	// What comes from now on is due no earlier.
	next := now + min(k.copies, int64(erase/time.Second))
	lo := sidKey('H', rec.SID)
	for kv, err := range x.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return nil, err
		}
		d := dueSegment{number: segmentNumber(kv.Key)}
		if err := json.Unmarshal(kv.Value, &d.row); err != nil {
			return nil, fmt.Errorf("row %x: %w", kv.Key, err)
		}
		drop, sweep, later := k.due(&d.row, now)
		if !drop && !sweep {
			next = min(next, later)
			continue
		}
		d.drop = drop
		if all = append(all, d); len(all) == dueAtOnce {
			return all, nil // there may be more
		}
	}
	if len(all) == 0 {
		x.tender.duties[rec.SID] = duty{rec.Grant.ID, rec.Bound, rec.Rebound, max(next, now+1)}
	}
	return all, nil
}

// retain is one round: of each series at most dueAtOnce segments, so that neither
// an expiry nor a deletion waits long for it. It reports whether more is due.
func (x *Indexer) retain(ctx context.Context) (more bool, err error) {
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return false, err
	}
	for _, rec := range recs {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if rec.Deletions > 0 || rec.JournalEpoch == 0 {
			continue // what there is goes, or nothing came yet
		}
		again, err := x.retainSeries(ctx, rec)
		if err != nil {
			return false, fmt.Errorf("retention in series %s: %w", rec.Series, err)
		}
		more = more || again
	}
	return more, x.concludePurges(ctx)
}

// retainSeries makes one pass over one series.
func (x *Indexer) retainSeries(ctx context.Context, rec *seriesRecord) (more bool, err error) {
	newest, bound, err := rec.pairs(x.store)
	if err != nil {
		return false, err
	}
	all, err := x.due(rec, rec.keeping(newest, bound), x.cfg.Now().Unix())
	if err != nil || len(all) == 0 {
		return false, err
	}
	pages, err := x.pagesIn(rec.SID, all)
	if err != nil {
		return false, err
	}
	var drop []dueSegment
	for _, d := range all {
		if d.drop || len(pages[d.number]) == 0 {
			drop = append(drop, d)
			continue
		}
		if err := x.sweepSegment(ctx, rec, d, pages[d.number]); err != nil {
			return false, err
		}
	}
	return true, x.purge(ctx, rec, drop, pages)
}

// pagesIn finds the pages that lie in segments: hashes of URLs, by the number of
// the segment, in ascending order.
func (x *Indexer) pagesIn(sid uint32, all []dueSegment) (map[uint64][][32]byte, error) {
	pages := make(map[uint64][][32]byte, len(all))
	for _, d := range all {
		pages[d.number] = nil
	}
	err := eachPage(x.store, sid, func(key []byte, row *catalogueRow) error {
		if !row.Held {
			return nil
		}
		if in, ok := pages[row.number()]; ok {
			pages[row.number()] = append(in, [32]byte(key[len(key)-32:]))
		}
		return nil
	})
	return pages, err
}
