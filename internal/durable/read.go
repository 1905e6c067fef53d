package durable

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"
)

// A Row is a key and its value. Both are valid until the next step of the scan
// that yielded them, and must not be changed.
type Row struct{ Key, Value []byte }

// A RowLength is a key and how many octets its value has. The key is valid until the
// next step of the scan that yielded it.
type RowLength struct {
	Key    []byte
	Length int
}

// A Getter reads single rows: a Reader, or a Lookup.
type Getter interface {
	Get(key []byte) ([]byte, error)
}

// A Reader reads rows: of the latest commits (Store), of one instant
// (Snapshot), or of the latest commits and what is about to be (Batch).
type Reader interface {
	// Get returns a copy of the value of key, or ErrNotFound.
	Get(key []byte) ([]byte, error)
	// Scan yields the rows with lo <= key < hi, in ascending order, stops at
	// the first error, and holds one row in memory. hi nil has no end.
	Scan(lo, hi []byte) iter.Seq2[Row, error]
	// ScanReverse is Scan in descending order.
	ScanReverse(lo, hi []byte) iter.Seq2[Row, error]
}

// PrefixEnd is the smallest key above every key that begins with prefix, or
// nil if there is none.
func PrefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// source is the Reader over what Pebble calls one.
type source struct {
	s *Store
	r pebble.Reader
}

func (src source) Get(key []byte) ([]byte, error) {
	if err := src.s.Err(); err != nil {
		return nil, err
	}
	v, release, err := src.r.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, ErrNotFound
		}
		return nil, fmt.Errorf("read %.64q: %w", key, err)
	}
	v = bytes.Clone(v)
	if v == nil {
		v = []byte{}
	}
	return v, release.Close()
}

func (src source) Scan(lo, hi []byte) iter.Seq2[Row, error] {
	return src.scan(lo, hi, (*pebble.Iterator).First, (*pebble.Iterator).Next)
}

func (src source) ScanReverse(lo, hi []byte) iter.Seq2[Row, error] {
	return src.scan(lo, hi, (*pebble.Iterator).Last, (*pebble.Iterator).Prev)
}

func (src source) scan(lo, hi []byte, first, next func(*pebble.Iterator) bool) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for it, err := range src.iterate(lo, hi, first, next) {
			var v []byte
			if err == nil {
				if v, err = it.ValueAndErr(); err != nil {
					err = fmt.Errorf("scan %.64q: %w", lo, err)
				}
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			if !yield(Row{it.Key(), v}, nil) {
				return
			}
		}
	}
}

// ScanLengths is Scan of keys alone, with the length of each value, which is not
// read: values of some size lie in files of their own.
func (src source) ScanLengths(lo, hi []byte) iter.Seq2[RowLength, error] {
	return func(yield func(RowLength, error) bool) {
		for it, err := range src.iterate(lo, hi, (*pebble.Iterator).First, (*pebble.Iterator).Next) {
			if err != nil {
				yield(RowLength{}, err)
				return
			}
			v := it.LazyValue()
			if !yield(RowLength{it.Key(), v.Len()}, nil) {
				return
			}
		}
	}
}

// iterate yields one iterator at each of its places.
func (src source) iterate(lo, hi []byte, first, next func(*pebble.Iterator) bool) iter.Seq2[*pebble.Iterator, error] {
	return func(yield func(*pebble.Iterator, error) bool) {
		if err := src.s.Err(); err != nil {
			yield(nil, err)
			return
		}
		it, err := src.r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
		if err != nil {
			yield(nil, fmt.Errorf("scan %.64q: %w", lo, err))
			return
		}
		open := true
		defer func() {
			if open { // the loop was left
				_ = it.Close() // what it would say was not asked for
			}
		}()
		for ok := first(it); ok; ok = next(it) {
			if !yield(it, nil) {
				return
			}
		}
		open = false
		if err := it.Close(); err != nil {
			yield(nil, fmt.Errorf("scan %.64q: %w", lo, err))
		}
	}
}

// A Lookup reads single rows, many one after the other, as of the moment at which it
// was opened, and without reading a block for nearly any that is not there: Get of a
// Reader does not ask the filters of the bottom level, where most rows lie. It is for
// one goroutine.
type Lookup struct{ it *pebble.Iterator }

// Lookup opens what rows are looked up with. It must be closed.
func (src source) Lookup() (*Lookup, error) {
	if err := src.s.Err(); err != nil {
		return nil, err
	}
	it, err := src.r.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return nil, fmt.Errorf("look up: %w", err)
	}
	return &Lookup{it}, nil
}

// Get is that of Reader, but for the value, which is good until the next one.
func (l *Lookup) Get(key []byte) ([]byte, error) {
	if !l.it.SeekPrefixGE(key) || !bytes.Equal(l.it.Key(), key) {
		if err := l.it.Error(); err != nil {
			return nil, fmt.Errorf("read %.64q: %w", key, err)
		}
		return nil, ErrNotFound
	}
	v, err := l.it.ValueAndErr()
	if err != nil {
		return nil, fmt.Errorf("read %.64q: %w", key, err)
	}
	return v, nil
}

// Close frees what was opened. What it would say was said by the last Get.
func (l *Lookup) Close() { _ = l.it.Close() }

// A Walk reads ranges one after the other with what was opened once, as of that
// moment; Scan of a Reader opens all of it for each range. It is for one goroutine.
type Walk struct {
	it *pebble.Iterator
	// No row lies from bare on to where it stands, if known.
	bare  []byte
	known bool
}

// Walk opens what is read within lo <= key < hi. It must be closed.
func (src source) Walk(lo, hi []byte) (*Walk, error) {
	if err := src.s.Err(); err != nil {
		return nil, err
	}
	it, err := src.r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, fmt.Errorf("scan %.64q: %w", lo, err)
	}
	return &Walk{it: it}, nil
}

// seek goes to the first row from key on, where it may stand already: often the next
// range lies next to the one that was read.
func (w *Walk) seek(key []byte) bool {
	if w.known && bytes.Compare(w.bare, key) <= 0 && w.it.Valid() && bytes.Compare(key, w.it.Key()) <= 0 {
		return true
	}
	w.bare, w.known = append(w.bare[:0], key...), true
	return w.it.SeekGE(key)
}

// Scan is that of Reader. It is cheapest when each range lies behind the one before.
func (w *Walk) Scan(lo, hi []byte) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for ok := w.seek(lo); ok; ok = w.it.Next() {
			if hi != nil && bytes.Compare(w.it.Key(), hi) >= 0 {
				w.bare, w.known = append(w.bare[:0], hi...), true
				return
			}
			w.known = false
			v, err := w.it.ValueAndErr()
			if err != nil {
				yield(Row{}, fmt.Errorf("scan %.64q: %w", lo, err))
				return
			}
			if !yield(Row{w.it.Key(), v}, nil) {
				return
			}
		}
		if err := w.it.Error(); err != nil {
			yield(Row{}, fmt.Errorf("scan %.64q: %w", lo, err))
		}
	}
}

// Close frees what was opened. What it would say was said by the last Scan.
func (w *Walk) Close() { _ = w.it.Close() }

// Lookup is that of Snapshot and Batch, of the latest commits.
func (s *Store) Lookup() (*Lookup, error) { return s.reads.Lookup() }

// Walk is that of Snapshot and Batch, of the latest commits.
func (s *Store) Walk(lo, hi []byte) (*Walk, error) { return s.reads.Walk(lo, hi) }

// Get is that of Reader.
func (s *Store) Get(key []byte) ([]byte, error) { return s.reads.Get(key) }

// Scan is that of Reader.
func (s *Store) Scan(lo, hi []byte) iter.Seq2[Row, error] { return s.reads.Scan(lo, hi) }

// ScanReverse is that of Reader.
func (s *Store) ScanReverse(lo, hi []byte) iter.Seq2[Row, error] { return s.reads.ScanReverse(lo, hi) }

// A Snapshot is the store as it was when the Snapshot was taken. It is safe
// for concurrent use, and holds disk space until it is closed.
type Snapshot struct {
	source
	snap *pebble.Snapshot
}

// Snapshot takes a snapshot of what has been committed.
func (s *Store) Snapshot() (*Snapshot, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	snap := s.db.NewSnapshot()
	return &Snapshot{source{s, snap}, snap}, nil
}

// Close frees the snapshot. Scans of it must have ended.
func (s *Snapshot) Close() error {
	if s.s.guard.err() != nil {
		return nil // nothing is freed in a store that has failed
	}
	return s.snap.Close()
}
