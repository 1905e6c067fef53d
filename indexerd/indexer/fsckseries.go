package indexer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
)

// sidOf is the series number in the key of a row that has one.
func sidOf(key []byte) uint32 { return binary.BigEndian.Uint32(key[1:5]) }

// A seriesChecker checks the rows of one agreement.
type seriesChecker struct {
	*checker
	rec *seriesRecord
}

// catalogue checks that catalogue, state tree, record and log say the same.
func (s *seriesChecker) catalogue(ctx context.Context) error {
	rec := s.rec
	var pages, octets uint64
	root, count, err := state.Of(s.items(func(row *catalogueRow) {
		if row.Held {
			pages++
			octets += row.Length
		}
	}))
	if err != nil {
		return s.unreadable(ctx, "catalogue of "+rec.Series, err)
	}
	if rec.Deletions > 0 {
		return nil // rows go step by step, and what they add up to is said when they are gone
	}
	leaves, n, err := state.Of(stateTree(rec.SID).Leaves(s.r, state.Prefix{}))
	if err == nil {
		var top envelope.Hash
		top, _, err = stateTree(rec.SID).Root(s.r)
		if err == nil && top != leaves {
			s.find(findSeries, 0, rec.Series, "the state tree's leaves have the root %s, its nodes say %s", leaves, top)
		}
	}
	if err != nil {
		return s.unreadable(ctx, "state tree of "+rec.Series, err)
	}
	if root != rec.State || leaves != rec.State || n != count {
		s.find(findSeries, 0, rec.Series, "the catalogue has %d pages of state %s, the state tree %d of %s, the record says %s", count, root, n, leaves, rec.State)
	}
	if pages != rec.Pages || octets != rec.PayloadBytes {
		s.find(findSeries, 0, rec.Series, "%d pages of %d octets are held, the record says %d of %d", pages, octets, rec.Pages, rec.PayloadBytes)
	}
	s.commitment()
	if err := s.feed(); err != nil {
		return s.unreadable(ctx, "feed of "+rec.Series, err)
	}
	return s.wanted()
}

// items are the catalogue's pages for the state. A row that cannot be read is a
// finding, and left out.
func (s *seriesChecker) items(see func(*catalogueRow)) iter.Seq2[state.Item, error] {
	return func(yield func(state.Item, error) bool) {
		lo := sidKey('C', s.rec.SID)
		for kv, err := range s.r.Scan(lo, durable.PrefixEnd(lo)) {
			if err != nil {
				yield(state.Item{}, err)
				return
			}
			row, h, err := readPage(kv)
			if err != nil {
				s.find(findPage, 0, fmt.Sprintf("row %.80x", kv.Key), "%v", err)
				continue
			}
			see(row)
			if !yield(state.Item{URLHash: h, Digest: [32]byte(row.Digest), Format: row.Format}, nil) {
				return
			}
		}
	}
}

// commitment compares the record with the last entry of the series.
func (s *seriesChecker) commitment() {
	rec := s.rec
	last, ok := s.last[rec.leafKey().CollectionRef(rec.Collection)]
	switch {
	case rec.Signalled > 0 && (!ok || last.epoch != rec.JournalEpoch || last.through < rec.Revision):
		// The log does not say how far signals have moved the cursor since.
		if ok && !last.deleted && last.state != rec.leafKey().StateCommitment(last.epoch, last.through, rec.State) {
			s.find(findSeries, 0, rec.Series, "the log's last entry of it commits to another state than %s", rec.State)
		}
	case !ok && rec.JournalEpoch != 0:
		s.find(findSeries, 0, rec.Series, "the log has no entry of it")
	case !ok || last.deleted:
	case last.epoch != rec.JournalEpoch || last.through != rec.Revision:
		s.find(findSeries, 0, rec.Series, "the record stands at revision %d of journal epoch %d, the log's last entry of it at %d of %d",
			rec.Revision, rec.JournalEpoch, last.through, last.epoch)
	case last.state != rec.leafKey().StateCommitment(rec.JournalEpoch, rec.Revision, rec.State):
		s.find(findSeries, 0, rec.Series, "the log's last entry of it commits to another state than %s", rec.State)
	}
}

// A place is where a page's payload lies.
type place struct {
	segment, offset, length uint64
	digest                  envelope.Hash
	dataKey                 uint32
	url                     string
}

// payloads opens every segment, in the order of their numbers, and checks every
// page that lies there. The catalogue is in another order: it is read once for
// every window of pages.
func (s *seriesChecker) payloads(ctx context.Context) error {
	end := durable.PrefixEnd(sidKey('G', s.rec.SID))
	for after, more := uint64(0), true; more; {
		var window []place
		var err error
		if window, more, err = s.next(after); err != nil {
			return s.unreadable(ctx, "catalogue of "+s.rec.Series, err)
		}
		lo, hi := segmentKey(s.rec.SID, after), end
		if more {
			after = window[len(window)-1].segment + 1
			hi = segmentKey(s.rec.SID, after)
		}
		if err := s.open(ctx, window, lo, hi); err != nil {
			return err
		}
	}
	return s.files(ctx)
}

// next is the pages in the first segments from number after on, ordered by
// segment: all pages of each of them. more says that there are others behind.
func (s *seriesChecker) next(after uint64) (all []place, more bool, err error) {
	cut := func() {
		slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.segment, b.segment) })
		if len(all) <= s.window {
			return
		}
		n := s.window // up to the end of the segment that it falls into
		for n < len(all) && all[n].segment == all[n-1].segment {
			n++
		}
		more = more || n < len(all)
		all = all[:n]
	}
	err = eachPage(s.r, s.rec.SID, func(_ []byte, row *catalogueRow) error {
		if !row.Held || row.File != 0 || row.Segment < after {
			return nil
		}
		if more && row.Segment > all[s.window-1].segment {
			return nil
		}
		all = append(all, place{row.Segment, row.Offset, row.Length, row.Digest, row.DataKey, row.URL})
		if len(all) > 2*s.window {
			cut()
		}
		return nil
	})
	cut()
	return all, more, err
}

// A sealed segment with the pages that the catalogue says are in it.
type sealedSegment struct {
	number uint64
	sealed []byte // nil: it is not there
	pages  []place
}

// open opens the segments between two keys on all cores.
func (s *seriesChecker) open(ctx context.Context, window []place, lo, hi []byte) error {
	work := func(seg sealedSegment) (func(), error) { return s.openOne(seg), ctx.Err() }
	for report, err := range inorder.Map(s.segments(window, lo, hi), runtime.GOMAXPROCS(0), work) {
		if err != nil {
			return s.unreadable(ctx, "segments of "+s.rec.Series, err)
		}
		report()
	}
	return nil
}

// segments merges the stored segments with the pages in them.
func (s *seriesChecker) segments(window []place, lo, hi []byte) iter.Seq2[sealedSegment, error] {
	return func(yield func(sealedSegment, error) bool) {
		// take cuts off the pages of the first segment of the window.
		take := func() (seg sealedSegment) {
			n := 1
			for n < len(window) && window[n].segment == window[0].segment {
				n++
			}
			seg = sealedSegment{number: window[0].segment, pages: window[:n]}
			window = window[n:]
			return seg
		}
		for kv, err := range s.r.Scan(lo, hi) {
			if err != nil {
				yield(sealedSegment{}, err)
				return
			}
			number := segmentNumber(kv.Key)
			for len(window) > 0 && window[0].segment < number {
				if !yield(take(), nil) {
					return
				}
			}
			seg := sealedSegment{number: number}
			if len(window) > 0 && window[0].segment == number {
				seg = take()
			}
			seg.sealed = bytes.Clone(kv.Value)
			if !yield(seg, nil) {
				return
			}
		}
		for len(window) > 0 {
			if !yield(take(), nil) {
				return
			}
		}
	}
}

// openOne opens one segment and gives what is to be told of it.
func (s *seriesChecker) openOne(seg sealedSegment) (report func()) {
	name := fmt.Sprintf("segment %d of %s", seg.number, s.rec.Series)
	if seg.sealed == nil {
		return func() {
			s.find(findSegment, seg.number, name, "it is not there, and %d pages lie in it", len(seg.pages))
		}
	}
	frame, err := s.unseal(seg)
	if err != nil {
		return func() {
			switch {
			case errors.Is(err, ErrNoDataKey) && (len(seg.pages) > 0 || s.rec.Deletions == 0):
				s.find(findKey, seg.number, name, "%v; %d pages cannot be read", err, len(seg.pages))
			case !errors.Is(err, ErrNoDataKey):
				s.find(findSegment, seg.number, name, "%v", err)
			}
		}
	}
	var bad []string
	var good, octets uint64
	for _, p := range seg.pages {
		row := catalogueRow{Segment: p.segment, Offset: p.offset, Length: p.length, Digest: p.digest}
		if _, err := row.payload(frame); err != nil {
			bad = append(bad, p.url+": "+err.Error())
			continue
		}
		good++
		octets += p.length
	}
	return func() {
		s.report.Segments++
		s.report.Pages += good
		s.report.PayloadBytes += octets
		for _, b := range bad {
			s.find(findPage, seg.number, name, "%s", b)
		}
	}
}

// unseal opens a segment under the key that its pages name. One without pages,
// which waits to be swept, may be under any key of the series.
func (s *seriesChecker) unseal(seg sealedSegment) ([]byte, error) {
	rec := s.rec
	generations := []uint32{}
	for _, p := range seg.pages {
		generations = append(generations, p.dataKey)
	}
	generations = slices.Compact(generations)
	if len(generations) > 1 {
		return nil, fmt.Errorf("its pages name %d data keys", len(generations))
	}
	for g := rec.DataKey; len(seg.pages) == 0; g-- {
		generations = append(generations, g)
		if g == 0 {
			break
		}
	}
	var err error
	for _, g := range generations {
		a, kerr := s.keys.aead(rec.Publisher, rec.Series, g, false)
		if kerr != nil {
			err = cmp.Or(err, kerr)
			continue
		}
		compressed, uerr := unseal(a, rec.Publisher, rec.Series, seg.number, seg.sealed)
		if uerr == nil {
			return s.decompress(compressed)
		}
		err = uerr
	}
	return nil, err
}

func (s *seriesChecker) decompress(compressed []byte) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(compressed); err != nil {
		return nil, err
	}
	size, ok := contentSize(&h, tinyFrame)
	if !ok || size > s.limits.BatchBytes+itemBytes {
		return nil, errors.New("it is of an unexpected size")
	}
	return s.decoder.DecodeAll(compressed, make([]byte, 0, size))
}

// readPage reads a catalogue row, which stands under the hash of its URL.
func readPage(kv durable.Row) (*catalogueRow, [32]byte, error) {
	row := new(catalogueRow)
	if err := row.ParseRow(kv.Value); err != nil {
		return nil, [32]byte{}, err
	}
	h := sha256.Sum256([]byte(row.URL))
	if len(kv.Key) != 1+4+len(h) || !bytes.Equal(kv.Key[5:], h[:]) {
		return nil, h, fmt.Errorf("the row of %.200q stands under another key", row.URL)
	}
	return row, h, nil
}
