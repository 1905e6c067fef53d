package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A purge at the end of a retention has three steps. The first is one commit:
// payloads leave the catalogue, their segments the store, and a row says what is
// left to do. Then the store's files forget them. Then the log says so. A crash
// between two of them is followed by the rest (TestPurgeResumes), and what the log
// says is true when it is said.

// purgeStep is about how many pages one commit purges: the segments of a step are
// filled up to it, and one of them may have as many as a batch may.
const purgeStep = 1000

// A purgedPage is what a catalogue row says of its payload's end.
type purgedPage struct {
	At    int64  // Unix seconds
	Step  uint64 // whose row tells the entry
	Place int    // in the entry's set
}

// An openPurge is a purge that is not in the log yet.
type openPurge struct {
	Publisher envelope.Name `json:"publisher"`
	Series    string        `json:"series"`
	SID       uint32        `json:"sid"`
	Step      uint64        `json:"step"`
	Grant     envelope.Hash `json:"grant"` // under which the pages were held
	Numbers   []uint64      `json:"numbers"`
	Files     []purgedFile  `json:"files,omitempty"`
	Leaves    [][32]byte    `json:"leaves,omitempty"` // of the entry; without any there is none
}

type purgedFile struct {
	File uint64        `json:"file"`
	Page envelope.Hash `json:"page"`
}

// A donePurge is one that is in the log.
type donePurge struct {
	Log   uint32 `json:"log,omitzero"`
	Entry uint64 `json:"entry"`
}

func openPurgeKey(sid uint32, step uint64) []byte { return numberKey('Q', sid, step) }
func donePurgeKey(sid uint32, step uint64) []byte { return numberKey('P', sid, step) }

// purge drops segments whose time is over, some of them a commit.
func (x *Indexer) purge(ctx context.Context, rec *seriesRecord, drop []dueSegment, pages map[uint64][][32]byte) error {
	for len(drop) > 0 {
		p := &purge{x: x, publisher: rec.Publisher, series: rec.Series, empty: make(map[uint64]bool)}
		for len(drop) > 0 && (len(p.pages) == 0 || len(p.pages)+len(pages[drop[0].number]) <= purgeStep) {
			p.segments = append(p.segments, drop[0].number)
			p.pages = append(p.pages, pages[drop[0].number]...)
			p.empty[drop[0].number] = len(pages[drop[0].number]) == 0
			drop = drop[1:]
		}
		slices.SortFunc(p.pages, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
		if err := x.tender.pause(ctx); err != nil {
			return err
		}
		if err := x.tlog.Commit(ctx, p); err != nil {
			return err
		}
		if n := len(p.open.Leaves); n > 0 {
			x.pulse.purged.Add(uint64(n))
			x.log.Info("retention over", "publisher", rec.Publisher, "series", rec.Series, "pages", n)
		}
	}
	return nil
}

// A purge is the proposal of one step.
type purge struct {
	x         *Indexer
	publisher envelope.Name
	series    string
	segments  []uint64
	pages     [][32]byte      // ascending
	empty     map[uint64]bool // segments that no page named: none ever will
	open      openPurge
}

// Prepare looks again at what has become of segments and pages: one may have been
// updated since, the state rebound, or a deletion begun.
func (p *purge) Prepare(tx *translog.Tx) error {
	b := tx.Batch()
	rec, err := readSeries(b, p.publisher, p.series)
	if err != nil || rec == nil || rec.Deletions > 0 {
		return err
	}
	newest, bound, err := rec.pairs(b)
	if err != nil {
		return err
	}
	p.open = openPurge{Publisher: rec.Publisher, Series: rec.Series, SID: rec.SID, Step: p.x.segment.Add(1), Grant: bound.Grant.Object.ID}
	k, still := rec.keeping(newest, bound), make(map[uint64]bool)
	for _, number := range p.segments {
		var row heldRow
		ok, err := durable.ReadJSON(b, heldKey(rec.SID, number), &row)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		over, sweep, _ := k.due(&row, tx.Now().Unix())
		if !over && !(sweep && p.empty[number]) {
			continue
		}
		still[number] = true
		p.open.Numbers = append(p.open.Numbers, number)
		if !row.Page.IsZero() {
			p.open.Files = append(p.open.Files, purgedFile{number, row.Page})
		}
	}
	if len(p.open.Numbers) == 0 {
		return nil
	}
	if err := p.dropPages(tx, rec, still); err != nil {
		return err
	}
	for _, number := range p.open.Numbers {
		if err := errors.Join(b.Delete(segmentKey(rec.SID, number)), b.Delete(heldKey(rec.SID, number))); err != nil {
			return err
		}
	}
	return errors.Join(rec.write(b), durable.WriteJSON(b, openPurgeKey(rec.SID, p.open.Step), p.open))
}

// dropPages takes the payloads of the pages out of the catalogue. Their rows stay.
func (p *purge) dropPages(tx *translog.Tx, rec *seriesRecord, still map[uint64]bool) error {
	b := tx.Batch()
	var gone [][]byte
	for _, h := range p.pages {
		key := sidKey('C', rec.SID, h[:]...)
		var row catalogueRow
		ok, err := readRow(b, key, &row)
		if err != nil {
			return err
		}
		if !ok || !row.Held || !still[row.number()] {
			continue
		}
		rec.Pages--
		rec.PayloadBytes -= row.Length
		row.Purged = &purgedPage{At: tx.Now().Unix(), Step: p.open.Step, Place: len(p.open.Leaves)}
		row.Held, row.Reason = false, string(grants.ErrRetention)
		row.Segment, row.File, row.Offset, row.Length, row.DataKey = 0, 0, 0, 0, 0
		p.open.Leaves = append(p.open.Leaves, rec.leafKey().Leaf(translog.OpTombstone, row.JournalEpoch, row.Revision, row.URL, [32]byte{}).Hash())
		if err := writeRow(b, key, &row); err != nil {
			return err
		}
		gone = append(gone, h[:])
	}
	return tellGone(tx, rec.SID, gone)
}

// Finish has nothing to add.
func (p *purge) Finish(*translog.Tx, *translog.Committed) error { return nil }

// concludePurges ends every purge that was begun.
func (x *Indexer) concludePurges(ctx context.Context) error {
	var all []*openPurge
	for kv, err := range x.store.Scan([]byte{'Q'}, []byte{'Q' + 1}) {
		if err != nil {
			return err
		}
		p := new(openPurge)
		if err := json.Unmarshal(kv.Value, p); err != nil {
			return fmt.Errorf("row %x: %w", kv.Key, err)
		}
		if all = append(all, p); len(all) == dueAtOnce {
			break // the others come next
		}
	}
	for i, p := range all {
		if i == 0 || p.SID != all[i-1].SID {
			if err := x.wipe(ctx, all[i:]); err != nil {
				return fmt.Errorf("retention in series %s: %w", p.Series, err)
			}
		}
		if gone, err := x.filesGone(p); err != nil || !gone {
			if err != nil {
				return fmt.Errorf("retention in series %s: %w", p.Series, err)
			}
			continue // somebody reads an earlier instant; the next round comes
		}
		if err := x.tender.pause(ctx); err != nil {
			return err
		}
		if err := x.tlog.Commit(ctx, &purgeEnd{openPurge: p}); err != nil {
			return err
		}
	}
	return nil
}

// wipe has the store's files forget the segments of the first series in all.
func (x *Indexer) wipe(ctx context.Context, all []*openPurge) error {
	if err := x.tender.pause(ctx); err != nil {
		return err
	}
	if err := x.store.Room(); err != nil { // to write anew what lies beside them needs some
		return err
	}
	sid := all[0].SID
	x.frames.forget(sid)
	lo, hi := all[0].Numbers[0], all[0].Numbers[0]
	for _, p := range all {
		if p.SID == sid {
			lo, hi = min(lo, slices.Min(p.Numbers)), max(hi, slices.Max(p.Numbers))
		}
	}
	return x.store.Wipe(ctx, segmentKey(sid, lo), segmentKey(sid, hi+1))
}

// filesGone removes the files of a purge, and reports whether none is left.
func (x *Indexer) filesGone(p *openPurge) (bool, error) {
	for _, f := range p.Files {
		n := largeName{p.SID, f.File, f.Page}
		if err := x.removeOrphans(n); err != nil {
			return false, err
		}
		all, err := x.large.list(p.SID)
		if err != nil || slices.Contains(all, n) {
			return false, err
		}
	}
	return true, nil
}

// A purgeEnd is the proposal that puts a purge into the log.
type purgeEnd struct{ *openPurge }

// Prepare looks whether it is still open.
func (p *purgeEnd) Prepare(tx *translog.Tx) error {
	b, key := tx.Batch(), openPurgeKey(p.SID, p.Step)
	if ok, err := durable.ReadJSON(b, key, new(openPurge)); err != nil || !ok {
		return err
	}
	if len(p.Leaves) == 0 {
		return b.Delete(key)
	}
	rec, err := readSeries(b, p.Publisher, p.Series)
	if err != nil {
		return err
	}
	if rec == nil {
		return fmt.Errorf("a purge in series %s, which is not there", p.Series)
	}
	pair, err := pairOf(b, p.Grant)
	if err != nil {
		return err
	}
	e := rec.entry(pair, rec.State)
	e.Decision, e.Status, e.Objects = translog.DeleteAck, translog.Retention, translog.SetOf(p.Leaves)
	return errors.Join(
		b.Delete(key), durable.WriteJSON(b, donePurgeKey(p.SID, p.Step), donePurge{tx.Log(), tx.NextIndex()}),
		rec.append(tx, pair, e, p.Leaves),
	)
}

// Finish has nothing to add.
func (p *purgeEnd) Finish(*translog.Tx, *translog.Committed) error { return nil }

// purgedAt is when the payload of a page was purged.
func (row *catalogueRow) purgedAt() time.Time {
	if row.Purged == nil {
		return time.Time{}
	}
	return time.Unix(row.Purged.At, 0).UTC()
}
