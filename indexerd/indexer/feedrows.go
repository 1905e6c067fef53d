package indexer

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The feed is a sequence of changes, each with a number. Whatever changes what may
// be read writes its change by the very commit that does it, so that neither can be
// there without the other. It is compacted: a page, and a series, has one change in
// force, and an older one goes when a newer comes.
//
//	F 0 number     the sid, and the hash of the page's URL if it is of a page
//	F 1 sid h      what was told of a page
//	F 2 sid        the number of the change of a series
//	F 3            the feed's identity
//	F 4 sid number the hash of a page that is gone
//	F 5            the next number
//	F 6            the number of the last change of any series
//	F 7 sid        the key of a series' record
//
// Only the log's writer writes them, but for those of a whole series that is being
// deleted, of which nobody else writes any.

// feedKey is a row of the feed.
func feedKey(kind byte, rest ...byte) []byte { return append([]byte{'F', kind}, rest...) }

func changeKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 2+8), 'F', 0), number)
}

func feedSID(kind byte, sid uint32, rest ...byte) []byte {
	k := binary.BigEndian.AppendUint32(append(make([]byte, 0, 2+4+len(rest)), 'F', kind), sid)
	return append(k, rest...)
}

func goneKey(sid uint32, number uint64) []byte {
	return binary.BigEndian.AppendUint64(feedSID(4, sid), number)
}

// A toldPage is what was told of a page last.
type toldPage struct {
	Number uint64
	// First is the number of the first change of the page. Whoever was handed
	// nothing of the series since cannot hold it.
	First uint64
	Gone  int64 // since when it is gone, in Unix seconds; 0: it is not
}

// number reads a row of one number, 0 if there is none.
func number(r durable.Reader, key []byte) (uint64, error) {
	b, err := r.Get(key)
	if errors.Is(err, durable.ErrNotFound) {
		return 0, nil
	}
	if err == nil && len(b) != 8 {
		err = fmt.Errorf("row %x has %d octets, want 8", key, len(b))
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

func writeNumber(b *durable.Batch, key []byte, n uint64) error {
	return b.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// nextChange gives the next number; the first is 1.
func nextChange(b *durable.Batch) (uint64, error) {
	n, err := number(b, feedKey(5))
	if err != nil {
		return 0, err
	}
	return n + 1, writeNumber(b, feedKey(5), n+1)
}

// A teller notes changes of pages in a commit. Nobody else may tell in it until
// the teller has ended.
type teller struct {
	b    *durable.Batch
	last uint64 // the last number that was given
	any  bool   // it gave one
}

// newTeller begins to tell in b; end must be called when all is told.
func newTeller(b *durable.Batch) (*teller, error) {
	last, err := number(b, feedKey(5))
	return &teller{b: b, last: last}, err
}

// next gives the number of the next change.
func (t *teller) next() uint64 {
	t.last, t.any = t.last+1, true
	return t.last
}

// tellGone notes that pages are gone, whose URLs have these hashes, each once.
func tellGone(tx *translog.Tx, sid uint32, hashes [][]byte) error {
	b := tx.Batch()
	t, err := newTeller(b)
	if err != nil {
		return err
	}
	rows, err := b.Lookup()
	if err != nil {
		return err
	}
	defer rows.Close()
	for _, h := range hashes {
		var old toldPage
		if _, err := readRow(rows, feedSID(1, sid, h...), &old); err != nil {
			return err
		}
		n := t.next()
		if err := errors.Join(t.row(b, sid, h, n, old, true, tx.Now()), t.change(b, sid, h, n, old, true)); err != nil {
			return err
		}
	}
	return t.end()
}

// row writes to b what is told of a page by a change: old is what was told before, zero
// if nothing was.
func (t *teller) row(b *durable.Batch, sid uint32, h []byte, n uint64, old toldPage, gone bool, now time.Time) error {
	told := toldPage{Number: n, First: cmp.Or(old.First, n)}
	if gone {
		told.Gone = now.Unix()
	}
	return b.Set(feedSID(1, sid, h...), told.AppendRow(make([]byte, 0, 24)))
}

// change writes to b that a page has changed, in place of what was told of it before.
func (t *teller) change(b *durable.Batch, sid uint32, h []byte, n uint64, old toldPage, gone bool) (err error) {
	if old.Number != 0 {
		err = b.Delete(changeKey(old.Number))
	}
	if old.Gone != 0 {
		err = errors.Join(err, b.Delete(goneKey(sid, old.Number)))
	}
	if gone {
		err = errors.Join(err, b.Set(goneKey(sid, n), h))
	}
	change := binary.BigEndian.AppendUint32(make([]byte, 0, 4+32), sid)
	return errors.Join(err, b.Set(changeKey(n), append(change, h...)))
}

// end writes the last number.
func (t *teller) end() error {
	if !t.any {
		return nil
	}
	return writeNumber(t.b, feedKey(5), t.last)
}

// tellSeries notes that what may be read of a series has changed.
func tellSeries(b *durable.Batch, sid uint32, record []byte) error {
	n, err := nextChange(b)
	if err != nil {
		return err
	}
	key := feedSID(2, sid)
	old, err := number(b, key)
	if err == nil && old != 0 {
		err = b.Delete(changeKey(old))
	}
	return errors.Join(err, writeNumber(b, key, n), writeNumber(b, feedKey(6), n), b.Set(feedSID(7, sid), record),
		b.Set(changeKey(n), binary.BigEndian.AppendUint32(nil, sid)))
}

// sameExits reports whether r lets out what old did, time apart. What else stands
// in a series' record closes and opens nothing.
func (r *seriesRecord) sameExits(old *seriesRecord) bool {
	if old == nil || r.Grant != old.Grant || r.Bound != old.Bound || r.Expired != old.Expired || r.Rebound != old.Rebound ||
		(r.Revoked == nil) != (old.Revoked == nil) || len(r.Partial) != len(old.Partial) {
		return false
	}
	if r.Revoked != nil && r.Revoked.ID != old.Revoked.ID {
		return false
	}
	for i := range r.Partial {
		if r.Partial[i].ID != old.Partial[i].ID {
			return false
		}
	}
	return true
}

// A feedIdentity names one life of the sequence. A cursor of another one leads
// nowhere: in a store that was restored the numbers begin again, for other changes.
type feedIdentity struct {
	ID  [8]byte  `json:"id"`
	Key [32]byte `json:"key"` // authenticates cursors
	// Floor is the number of the last tombstone that was forgotten: whoever stands
	// before it may have missed one.
	Floor uint64 `json:"floor,omitzero"`
}

// openFeed reads the feed's identity, and draws one for a store that has none, or
// that was restored.
func openFeed(s *durable.Store, restored bool) (id feedIdentity, err error) {
	ok, err := durable.ReadJSON(s, feedKey(3), &id)
	if err != nil || ok && !restored {
		return id, err
	}
	rand.Read(id.ID[:])
	rand.Read(id.Key[:])
	b := s.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := durable.WriteJSON(b, feedKey(3), id); err != nil {
		return id, err
	}
	return id, b.Commit()
}

// A feedChange is one change as read.
type feedChange struct {
	number uint64
	sid    uint32
	h      []byte // of a page; nil: of the series
}

// changesAfter reads at most limit changes behind a number, in order.
func changesAfter(r durable.Reader, after uint64, limit int) ([]feedChange, error) {
	var all []feedChange
	for kv, err := range r.Scan(changeKey(after+1), feedKey(1)) {
		if err != nil {
			return nil, err
		}
		if len(kv.Key) != 10 || len(kv.Value) != 4 && len(kv.Value) != 36 {
			return nil, fmt.Errorf("row %x is no change of the feed", kv.Key)
		}
		c := feedChange{number: segmentNumber(kv.Key), sid: binary.BigEndian.Uint32(kv.Value)}
		if len(kv.Value) == 36 {
			c.h = append([]byte(nil), kv.Value[4:]...)
		}
		if all = append(all, c); len(all) == limit {
			break
		}
	}
	return all, nil
}
