package indexer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// The queue of pages that are wanted of a series, in two rows a page:
//
//	Y sid class order   the page, in the order in which it may be asked for
//	y sid h             class and order of the page whose URL has the hash h
//
// It is written by the log's writer alone, in the commit of what changes it:
// signals add to it, batches and deletions take from it, and so does a publisher
// that refuses a page. What was asked for stays until its batch is committed:
// nothing but a session's own memory says that it is on its way, so that every
// session, and every start, asks anew for what never came.
const (
	classAsked     byte = 0 // by the operator; order counts up from 1
	classSignalled byte = 1 // order is the revision
)

// A wantedPage is a page that is to be asked for. Digest, Revision and Modified
// are those of its signal, absent if the operator asked.
type wantedPage struct {
	URL      string        `json:"url"`
	Digest   envelope.Hash `json:"digest,omitzero"`
	Revision uint64        `json:"revision,omitzero"`
	Modified int64         `json:"modified,omitzero"`
}

// placeLength is the length of class and order.
const placeLength = 1 + 8

func wantedPlace(class byte, order uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{class}, order)
}

// want adds a page, in place of what was wanted of it before. What the operator
// asked for keeps its turn.
func (r *seriesRecord) want(b *durable.Batch, class byte, order uint64, p wantedPage) error {
	h := sha256.Sum256([]byte(p.URL))
	key := sidKey('y', r.SID, h[:]...)
	old, err := b.Get(key)
	switch {
	case errors.Is(err, durable.ErrNotFound):
		r.Wanted++
	case err != nil:
		return err
	case len(old) != placeLength:
		return fmt.Errorf("row %q: %d octets", key, len(old))
	case old[0] < class:
		class, order = old[0], binary.BigEndian.Uint64(old[1:])
	default:
		if err := b.Delete(sidKey('Y', r.SID, old...)); err != nil {
			return err
		}
	}
	place := wantedPlace(class, order)
	return errors.Join(durable.WriteJSON(b, sidKey('Y', r.SID, place...), p), b.Set(key, place))
}

// unwant takes a page out of the queue, unless it was signalled again with a
// revision above through. It reports whether the page was there.
func (r *seriesRecord) unwant(b *durable.Batch, h [32]byte, through uint64) (bool, error) {
	key := sidKey('y', r.SID, h[:]...)
	place, err := b.Get(key)
	if errors.Is(err, durable.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(place) != placeLength {
		return false, fmt.Errorf("row %q: %d octets", key, len(place))
	}
	if place[0] == classSignalled && binary.BigEndian.Uint64(place[1:]) > through {
		return false, nil
	}
	r.Wanted -= min(r.Wanted, 1)
	return true, errors.Join(b.Delete(sidKey('Y', r.SID, place...)), b.Delete(key))
}

// unwantAll empties the queue of what keep does not hold; nil holds nothing.
func (r *seriesRecord) unwantAll(b *durable.Batch, keep func(class byte, p *wantedPage) bool) error {
	if r.Wanted == 0 {
		return nil
	}
	if keep == nil {
		r.Wanted = 0
		for _, space := range []byte{'Y', 'y'} {
			if err := b.DeleteRange(sidKey(space, r.SID), durable.PrefixEnd(sidKey(space, r.SID))); err != nil {
				return err
			}
		}
		return nil
	}
	var gone [][32]byte
	err := r.eachWanted(b, false, func(place []byte, p *wantedPage) (bool, error) {
		if !keep(place[0], p) {
			gone = append(gone, sha256.Sum256([]byte(p.URL)))
		}
		return true, nil
	})
	for _, h := range gone {
		if err == nil {
			_, err = r.unwant(b, h, envelope.MaxInteger)
		}
	}
	return err
}

// trim drops what would be asked for last, until the queue holds no more than
// most. What the operator asked for stays.
func (r *seriesRecord) trim(b *durable.Batch, most uint64, oldest bool) error {
	if r.Wanted <= most {
		return nil
	}
	excess := r.Wanted - most
	var gone [][32]byte
	err := r.eachSignalled(b, !oldest, func(_ []byte, p *wantedPage) (bool, error) {
		gone = append(gone, sha256.Sum256([]byte(p.URL)))
		return uint64(len(gone)) < excess, nil
	})
	for _, h := range gone {
		if err == nil {
			_, err = r.unwant(b, h, envelope.MaxInteger)
			r.Dropped++
		}
	}
	return err
}

// eachWanted yields the queue in the order in which it is asked for: first what
// the operator asked for, then what was signalled, the oldest or the newest
// first, until f returns false. f must not keep the place.
func (r *seriesRecord) eachWanted(rd durable.Reader, oldest bool, f func(place []byte, p *wantedPage) (bool, error)) error {
	more := true
	see := func(place []byte, p *wantedPage) (bool, error) {
		var err error
		more, err = f(place, p)
		return more, err
	}
	lo := sidKey('Y', r.SID, classAsked)
	if err := scanWanted(rd.Scan(lo, durable.PrefixEnd(lo)), see); err != nil || !more {
		return err
	}
	return r.eachSignalled(rd, oldest, see)
}

func (r *seriesRecord) eachSignalled(rd durable.Reader, oldest bool, f func(place []byte, p *wantedPage) (bool, error)) error {
	lo := sidKey('Y', r.SID, classSignalled)
	if oldest {
		return scanWanted(rd.Scan(lo, durable.PrefixEnd(lo)), f)
	}
	return scanWanted(rd.ScanReverse(lo, durable.PrefixEnd(lo)), f)
}

func scanWanted(rows func(func(durable.Row, error) bool), f func(place []byte, p *wantedPage) (bool, error)) error {
	for kv, err := range rows {
		if err != nil {
			return err
		}
		var p wantedPage
		if err := json.Unmarshal(kv.Value, &p); err != nil {
			return fmt.Errorf("row %q: %w", kv.Key, err)
		}
		if len(kv.Key) != 5+placeLength {
			return fmt.Errorf("row %q: its key has %d octets", kv.Key, len(kv.Key))
		}
		if more, err := f(kv.Key[5:], &p); err != nil || !more {
			return err
		}
	}
	return nil
}

// wanted checks that the two rows of each wanted page name one another, and that
// the record counts them.
func (s *seriesChecker) wanted() error {
	rec := s.rec
	var n uint64
	err := rec.eachWanted(s.r, true, func(place []byte, p *wantedPage) (bool, error) {
		n++
		h := sha256.Sum256([]byte(p.URL))
		if at, err := s.r.Get(sidKey('y', rec.SID, h[:]...)); err != nil || !bytes.Equal(at, place) {
			s.find(findSeries, 0, rec.Series, "%.200q is wanted, and stands in the queue under another key", p.URL)
		}
		return true, nil
	})
	if err == nil && n != rec.Wanted {
		s.find(findSeries, 0, rec.Series, "%d pages are wanted, the record says %d", n, rec.Wanted)
	}
	return err
}
