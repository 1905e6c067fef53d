package publisher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A scan commits to the journal after this many pages or octets of payload.
const (
	scanPages = 2000
	scanBytes = 16 << 20
)

// The guard against a scan that went wrong: more than this share and this
// number of pages gone at once delete nothing.
const (
	goneShare = 0.20
	goneFloor = 10
)

// ErrMassDelete is returned when a scan finds so much gone that it is more
// likely a mistake than a wish.
var ErrMassDelete = errors.New("too many pages are gone at once")

// A ScanReport tells what a scan found.
type ScanReport struct {
	Pages, Changed, Deleted int
	Skipped                 []content.Skipped
}

// maxSkipped bounds how many skipped files a report names; the rest are counted.
const maxSkipped = 10_000

// A scanner brings a journal up to what its source holds.
type scanner struct {
	journal    journal
	source     reader
	extractor  string
	cache      *payloads
	now        func() time.Time
	massDelete bool

	report  ScanReport
	skipped map[string]bool // locations that keep their last revision
	gone    []located
	edit    *edit
	pending int // pages in edit
	bytes   int // payload octets in edit
}

type located struct {
	location string
	h        [32]byte
}

// run reads the whole source once. Pages come by ascending location, and so do
// the journal's location rows: walking both side by side finds what is gone
// without holding either.
func (s *scanner) run(ctx context.Context) (ScanReport, error) {
	s.skipped = make(map[string]bool)
	var err error
	if s.edit, err = s.journal.edit(); err != nil {
		return s.report, err
	}
	fresh := s.edit.head.Extractor != s.extractor
	s.edit.head.Extractor = s.extractor
	snapshot, err := s.journal.store.Snapshot()
	if err != nil {
		s.edit.batch.Close()
		return s.report, err
	}
	defer snapshot.Close()
	known := func(location string) ([32]byte, bool) { return s.known(snapshot, location, fresh) }
	rows, stop := iter.Pull2(s.locations(snapshot))
	defer stop()
	err = s.merge(s.source.Pages(ctx, known, s.skip), rows)
	if err == nil {
		err = s.delete()
	}
	if err != nil {
		s.edit.batch.Close()
		return s.report, err
	}
	return s.report, s.edit.commit()
}

// known answers the source's question whether it needs to extract a file.
func (s *scanner) known(r durable.Reader, location string, fresh bool) ([32]byte, bool) {
	if fresh {
		return [32]byte{}, false
	}
	h, err := r.Get(rowKey('J', s.journal.coll, 'l', []byte(location)))
	if err != nil || len(h) != 32 {
		return [32]byte{}, false
	}
	p, ok, err := s.journal.page(r, [32]byte(h))
	if err != nil || !ok || p.Location != location || p.Source.IsZero() {
		return [32]byte{}, false
	}
	return p.Source, true
}

// skip notes a file that gave no page. One that broke keeps its last revision;
// one that asks not to be indexed is gone.
func (s *scanner) skip(k content.Skipped) {
	if len(s.report.Skipped) < maxSkipped {
		s.report.Skipped = append(s.report.Skipped, k)
	}
	if k.Err != nil {
		s.skipped[k.Location] = true
	}
}

func (s *scanner) locations(r durable.Reader) iter.Seq2[located, error] {
	lo := rowKey('J', s.journal.coll, 'l')
	return func(yield func(located, error) bool) {
		for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
			if err != nil {
				yield(located{}, err)
				return
			}
			if !yield(located{string(kv.Key[len(lo):]), [32]byte(kv.Value)}, nil) {
				return
			}
		}
	}
}

func (s *scanner) merge(pages iter.Seq2[content.Page, error], rows func() (located, error, bool)) error {
	row, err, more := rows()
	if err != nil {
		return err
	}
	for p, err := range pages {
		if err != nil {
			return err
		}
		for more && row.location < p.Location {
			s.gone = append(s.gone, row)
			if row, err, more = rows(); err != nil {
				return err
			}
		}
		if more && row.location == p.Location {
			if row, err, more = rows(); err != nil {
				return err
			}
		}
		if err := s.take(p); err != nil {
			return err
		}
	}
	for more {
		s.gone = append(s.gone, row)
		if row, err, more = rows(); err != nil {
			return err
		}
	}
	return nil
}

// take puts one page into the journal, and commits now and then.
func (s *scanner) take(p content.Page) error {
	s.report.Pages++
	if p.Unchanged {
		return nil
	}
	changed, err := s.edit.put(p, s.now())
	if err != nil {
		return err
	}
	if changed {
		s.report.Changed++
		s.cache.add(p)
	}
	s.pending++
	s.bytes += len(p.Payload)
	if s.pending < scanPages && s.bytes < scanBytes {
		return nil
	}
	s.pending, s.bytes = 0, 0
	if err := s.edit.commit(); err != nil {
		return err
	}
	s.edit, err = s.journal.edit()
	return err
}

// delete tombstones what is gone, if that is plausible.
func (s *scanner) delete() error {
	var gone []located
	for _, g := range s.gone {
		if !s.skipped[g.location] {
			gone = append(gone, g)
		}
	}
	live := float64(s.edit.head.Pages)
	if n := len(gone); n > goneFloor && float64(n) > goneShare*live && !s.massDelete {
		return fmt.Errorf("%w: %d of %d pages of %s; if that is meant, say --allow-mass-delete", ErrMassDelete, n, s.edit.head.Pages, s.journal.coll)
	}
	for _, g := range gone {
		deleted, err := s.edit.remove(g.location, g.h)
		if err != nil {
			return err
		}
		if deleted {
			s.report.Deleted++
		}
	}
	return nil
}

// payloads keeps the payloads of pages that were just read, so that sending
// them does not read them again. It is bounded: what does not fit is read
// again from the source.
type payloads struct {
	left  int // octets that still fit
	pages map[[32]byte]content.Page
}

// payloadCache is how many octets of payload a scan keeps for sending.
const payloadCache = 96 << 20

func newPayloads() *payloads {
	return &payloads{left: payloadCache, pages: make(map[[32]byte]content.Page)}
}

func (c *payloads) add(p content.Page) {
	h := urlHash(p.URL)
	if old, ok := c.pages[h]; ok {
		c.left += len(old.Payload)
		delete(c.pages, h)
	}
	if len(p.Payload) <= c.left {
		c.left -= len(p.Payload)
		c.pages[h] = p
	}
}

// lookup gives the payload with that digest if it was kept.
func (c *payloads) lookup(h [32]byte, digest envelope.Hash) ([]byte, bool) {
	p, ok := c.pages[h]
	if !ok || p.Digest != digest {
		return nil, false
	}
	return p.Payload, true
}
