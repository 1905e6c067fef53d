package indexer

import (
	"bytes"
	"errors"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// manyItems is from how many items on a batch is the last of its group of the log:
// what it saves to write its rows where nobody has to read them is more then than
// another group costs.
const manyItems = 256

// A shelf is where single rows are looked up.
type shelf interface {
	durable.Getter
	Lookup() (*durable.Lookup, error)
}

// lookUp finds what the store holds of each page, unless what was found ahead still
// stands: whatever changes a page of a series changes the row of the series, too. (The
// feed may have forgotten a tombstone since: to write over it does no harm.)
func (in *ingest) lookUp(r shelf) error {
	row, err := r.Get(seriesKey(in.rec.Publisher, in.rec.Series))
	if err != nil || in.before != nil && bytes.Equal(row, in.before) {
		return err
	}
	in.before = row
	in.order = make([]int, len(in.items))
	for i := range in.order {
		in.order[i] = i
	}
	slices.SortFunc(in.order, func(a, b int) int { return bytes.Compare(in.items[a].h[:], in.items[b].h[:]) })
	rows, err := r.Lookup()
	if err != nil {
		return err
	}
	defer rows.Close()
	sid := in.rec.SID
	for _, i := range in.order {
		it := &in.items[i]
		it.old, it.told = nil, toldPage{}
		old := new(catalogueRow)
		ok, err := readRow(rows, sidKey('C', sid, it.h[:]...), old)
		if err != nil {
			return err
		}
		if ok {
			it.old = old
		}
	}
	for _, i := range in.order {
		it := &in.items[i]
		if _, err := readRow(rows, feedSID(1, sid, it.h[:]...), &it.told); err != nil {
			return err
		}
	}
	return nil
}

// decide gives each item its decision, by what the catalogue holds.
func (in *ingest) decide() {
	for i := range in.items {
		it := &in.items[i]
		held := it.old != nil && it.old.Held
		switch {
		case it.reason != "":
			it.decision = translog.Exclude
		case it.op == translog.OpTombstone && !held:
			it.decision, it.reason = translog.Exclude, grants.ErrNotHeld
		case it.op == translog.OpTombstone:
			it.decision = translog.DeleteAck
		case held:
			it.decision = translog.Update
		default:
			it.decision = translog.Include
		}
	}
	in.sets = setsOf(in.items, in.body.Offered)
}

// isTold reports whether the feed has to tell of the item: who never was told of a page
// need not be told that it is not here.
func (it *item) isTold() (told, gone bool) {
	held := it.decision == translog.Include || it.decision == translog.Update
	return held || it.old != nil && it.old.Held, !held
}

// writeItems writes the catalogue's rows to b, and tells the feed. The rows of a kind
// come by ascending key, by which they are far cheaper for the store to take.
func (in *ingest) writeItems(tx *translog.Tx, b *durable.Batch) error {
	rec := in.rec
	tell, err := newTeller(tx.Batch())
	if err != nil {
		return err
	}
	places, changes := make([]int, len(in.items)), make([]uint64, len(in.items))
	counts := make(map[translog.Decision]int, 4)
	for i := range in.items {
		it := &in.items[i]
		places[i] = counts[it.decision]
		counts[it.decision]++
		if it.old != nil && it.old.Held {
			rec.Pages--
			rec.PayloadBytes -= it.old.Length
			in.left.add(it.old)
		}
		if told, _ := it.isTold(); told {
			changes[i] = tell.next()
		}
	}
	row := new(catalogueRow)
	for _, i := range in.order {
		if err := in.writeItem(tx, b, &in.items[i], places[i], row); err != nil {
			return err
		}
	}
	for _, i := range in.order {
		if it := &in.items[i]; changes[i] != 0 {
			_, gone := it.isTold()
			if err := tell.row(b, rec.SID, it.h[:], changes[i], it.told, gone, tx.Now()); err != nil {
				return err
			}
		}
	}
	for i := range in.items {
		if it := &in.items[i]; changes[i] != 0 {
			_, gone := it.isTold()
			if err := tell.change(b, rec.SID, it.h[:], changes[i], it.told, gone); err != nil {
				return err
			}
		}
	}
	return tell.end()
}

// writeItem writes the catalogue row of one item, which is at a place of its set. row is
// what it is put together in.
func (in *ingest) writeItem(tx *translog.Tx, b *durable.Batch, it *item, place int, row *catalogueRow) error {
	rec := in.rec
	key := sidKey('C', rec.SID, it.h[:]...)
	entry := tx.NextIndex() + uint64(in.setIndex(it.decision))
	if it.op == translog.OpTombstone {
		// URL and digest go; what proves the deletion stays.
		row := deletedRow{JournalEpoch: in.body.JournalEpoch, Revision: it.revision, Log: tx.Log(), Entry: entry, Place: place}
		return errors.Join(b.Delete(key), durable.WriteJSON(b, sidKey('D', rec.SID, it.h[:]...), row))
	}
	*row = catalogueRow{
		URL: it.url, Digest: it.digest, Format: it.format, JournalEpoch: in.body.JournalEpoch, Revision: it.revision,
		Modified: it.modified, GrantID: in.body.GrantID, Log: tx.Log(), Entry: entry, Place: place, At: tx.Now().Unix(),
	}
	if it.decision == translog.Exclude {
		row.Reason = string(it.reason)
		rec.Refused++
	} else {
		row.Held, row.Segment, row.File, row.Offset, row.Length, row.DataKey = true, in.segment, in.large.file, it.offset, it.length, in.dataKey
		rec.Pages++
		rec.PayloadBytes += it.length
	}
	in.value = row.AppendRow(in.value[:0])
	return b.Set(key, in.value)
}
