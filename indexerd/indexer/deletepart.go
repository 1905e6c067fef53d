package indexer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A survivor is a page that stays while others of its segment are deleted.
type survivor struct {
	segment uint64
	h       [32]byte
}

// rewrite moves what stays into new segments under the new data key, one old
// segment a step. A segment may hold pages that came long apart in the order
// of the catalogue, so they are put in the order of segments first: about 40
// octets of memory a page.
func (w *deleter) rewrite(ctx context.Context) error {
	var stay []survivor
	err := eachPage(w.x.store, w.SID, func(key []byte, row *catalogueRow) error {
		if row.Held && row.File == 0 && row.DataKey < w.DataKey {
			stay = append(stay, survivor{row.Segment, [32]byte(key[len(key)-32:])})
		}
		return nil
	})
	if err != nil || len(stay) == 0 {
		return err
	}
	slices.SortStableFunc(stay, func(a, b survivor) int { return cmp.Compare(a.segment, b.segment) })
	encoder, err := newFrameEncoder()
	if err != nil {
		return err
	}
	defer encoder.Close()
	for len(stay) > 0 {
		if err := w.x.store.Room(); err != nil { // to copy what stays needs some
			return err
		}
		n := slices.IndexFunc(stay, func(s survivor) bool { return s.segment != stay[0].segment })
		if n < 0 {
			n = len(stay)
		}
		if err := w.rewriteOne(ctx, encoder, stay[:n]); err != nil {
			return err
		}
		stay = stay[n:]
	}
	return nil
}

// rewriteOne moves the survivors of one segment.
func (w *deleter) rewriteOne(ctx context.Context, encoder *zstd.Encoder, stay []survivor) (err error) {
	x, old := w.x, stay[0].segment
	b := x.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	segment := x.segment.Add(1)
	var frame, raw []byte
	var at int64
	for _, s := range stay {
		var row catalogueRow
		key := sidKey('C', w.SID, s.h[:]...)
		if ok, err := readRow(x.store, key, &row); err != nil || !ok {
			return errors.Join(err, fmt.Errorf("row %q is there: %t", key, ok))
		}
		if frame == nil {
			if frame, err = x.frame(x.store, w.rec, &row); err != nil {
				return err
			}
		}
		payload, err := row.payload(frame)
		if err != nil {
			return err
		}
		at = max(at, row.At)
		row.Segment, row.Offset, row.DataKey = segment, uint64(len(raw)), w.DataKey
		raw = append(raw, payload...)
		if err := writeRow(b, key, &row); err != nil {
			return err
		}
	}
	a, err := x.keys.aead(w.Publisher, w.Series, w.DataKey, true)
	if err != nil {
		return err
	}
	sealed, err := seal(a, w.Publisher, w.Series, segment, encoder.EncodeAll(raw, nil))
	if err != nil {
		return err
	}
	err = errors.Join(
		b.Set(segmentKey(w.SID, segment), sealed), b.Delete(segmentKey(w.SID, old)),
		durable.WriteJSON(b, heldKey(w.SID, segment), heldRow{At: at}), b.Delete(heldKey(w.SID, old)),
	)
	if err != nil {
		return err
	}
	return w.commit(ctx, b)
}

// dropDead drops the segments in which nothing is left.
func (w *deleter) dropDead(ctx context.Context) (err error) {
	var used []uint64
	err = eachPage(w.x.store, w.SID, func(_ []byte, row *catalogueRow) error {
		if row.Held && row.File == 0 && (len(used) == 0 || used[len(used)-1] != row.Segment) {
			used = append(used, row.Segment)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(used)
	b := w.x.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	lo := sidKey('G', w.SID)
	end := durable.PrefixEnd(lo)
	for _, segment := range slices.Compact(used) {
		if err := b.DeleteRange(lo, segmentKey(w.SID, segment)); err != nil {
			return err
		}
		lo = segmentKey(w.SID, segment+1)
	}
	if err := b.DeleteRange(lo, end); err != nil {
		return err
	}
	return w.commit(ctx, b)
}
