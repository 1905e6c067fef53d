package indexer

import (
	"context"
	"errors"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// sweepSegment writes the pages that a segment is still named for into a new one,
// which takes its place, so that what nothing names is gone. The work is done
// outside the log's writer, which only looks whether the pages are as they were;
// if one is not, the next round begins anew.
func (x *Indexer) sweepSegment(ctx context.Context, rec *seriesRecord, d dueSegment, pages [][32]byte) error {
	if err := x.store.Room(); err != nil { // to copy what stays needs some
		return err
	}
	p := &move{x: x, rec: rec, from: d.number, to: x.segment.Add(1), held: heldRow{At: d.row.At}}
	var frame, raw []byte
	for _, h := range pages {
		var row catalogueRow
		ok, err := readRow(x.store, sidKey('C', rec.SID, h[:]...), &row)
		if err != nil {
			return err
		}
		if !ok || !row.Held || row.Segment != d.number {
			continue
		}
		if frame == nil {
			if frame, err = x.frame(x.store, rec, &row); err != nil {
				return err
			}
		}
		payload, err := row.payload(frame)
		if err != nil {
			return err
		}
		p.pages = append(p.pages, moved{h, uint64(len(raw))})
		raw = append(raw, payload...)
	}
	if len(p.pages) == 0 {
		return nil // none is left; the next round drops it
	}
	encoder, err := newFrameEncoder()
	if err != nil {
		return err
	}
	frame = encoder.EncodeAll(raw, nil)
	if err := encoder.Close(); err != nil {
		return err
	}
	a, err := x.keys.aead(rec.Publisher, rec.Series, rec.DataKey, true)
	if err != nil {
		return err
	}
	if p.sealed, err = seal(a, rec.Publisher, rec.Series, p.to, frame); err != nil {
		return err
	}
	if err := x.tender.pause(ctx); err != nil {
		return err
	}
	return x.tlog.Commit(ctx, p)
}

// A move is the proposal that puts one segment in the place of another.
type move struct {
	x        *Indexer
	rec      *seriesRecord // as it was
	from, to uint64
	held     heldRow
	pages    []moved
	sealed   []byte
}

type moved struct {
	h      [32]byte
	offset uint64
}

// Prepare moves all pages, or none.
func (p *move) Prepare(tx *translog.Tx) error {
	b, sid := tx.Batch(), p.rec.SID
	rec, err := readSeries(b, p.rec.Publisher, p.rec.Series)
	if err != nil || rec == nil || rec.Deletions > 0 || rec.DataKey != p.rec.DataKey {
		return err
	}
	rows := make([]catalogueRow, len(p.pages))
	for i, m := range p.pages {
		ok, err := readRow(b, sidKey('C', sid, m.h[:]...), &rows[i])
		if err != nil {
			return err
		}
		if !ok || !rows[i].Held || rows[i].Segment != p.from {
			return nil
		}
	}
	for i, m := range p.pages {
		row := rows[i]
		row.Segment, row.Offset, row.DataKey = p.to, m.offset, rec.DataKey
		if err := writeRow(b, sidKey('C', sid, m.h[:]...), &row); err != nil {
			return err
		}
	}
	rec.Moves++ // who has read the rows sees that they have changed
	left := openPurge{Publisher: rec.Publisher, Series: rec.Series, SID: sid, Step: p.x.segment.Add(1), Numbers: []uint64{p.from}}
	return errors.Join(
		b.Set(segmentKey(sid, p.to), p.sealed), durable.WriteJSON(b, heldKey(sid, p.to), p.held),
		b.Delete(segmentKey(sid, p.from)), b.Delete(heldKey(sid, p.from)),
		durable.WriteJSON(b, openPurgeKey(sid, left.Step), left), rec.write(b),
	)
}

// Finish has nothing to add.
func (p *move) Finish(*translog.Tx, *translog.Committed) error { return nil }
