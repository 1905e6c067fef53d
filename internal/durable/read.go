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
		if err := src.s.Err(); err != nil {
			yield(Row{}, err)
			return
		}
		it, err := src.r.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
		if err != nil {
			yield(Row{}, fmt.Errorf("scan %.64q: %w", lo, err))
			return
		}
		open := true
		defer func() {
			if open { // the loop was left
				_ = it.Close() // what it would say was not asked for
			}
		}()
		for ok := first(it); ok; ok = next(it) {
			v, err := it.ValueAndErr()
			if err != nil {
				yield(Row{}, fmt.Errorf("scan %.64q: %w", lo, err))
				return
			}
			if !yield(Row{it.Key(), v}, nil) {
				return
			}
		}
		open = false
		if err := it.Close(); err != nil {
			yield(Row{}, fmt.Errorf("scan %.64q: %w", lo, err))
		}
	}
}

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
