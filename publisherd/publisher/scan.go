package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A scan goes to the journal after so many pages that were read, or octets of their
// payload, in commits of scanPages; if those are many small ones, to a pageSorter first.
const (
	scanAhead   = 64 << 10
	scanPages   = 2000
	scanBytes   = 16 << 20
	besideBytes = 8 << 20 // where a push goes on beside the scan
	scanStamps  = 20_000  // files that are as before, and were read nevertheless
)

// scanSorts is from how many pages on they get their revisions in the order of the
// hashes of their URLs, which is that of the state and of most rows on both sides: each
// batch then changes a part of them, and not a little everywhere. Those are many small
// pages, which shrink as well in one order as in another; fewer keep the order of the
// source, in which neighbours have most in common.
const scanSorts = 2 * mostItems

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
	// Read is how many of them were read; the others are told by their files'
	// stamps.
	Read int
	// Unchanged says that the source's server called all of it unchanged: no
	// page was read, and nothing written.
	Unchanged bool
	// Skipped are the first 10,000 files that give no page, and SkippedCount is the
	// number of all.
	Skipped      []content.Skipped
	SkippedCount int
}

// maxSkipped bounds how many skipped files a report names.
const maxSkipped = 10_000

// A scanner brings a journal up to what its source holds.
type scanner struct {
	journal    journal
	source     reader
	extractor  string
	cache      *payloads
	now        func() time.Time
	massDelete bool
	verify     time.Duration                   // how often to read every file; 0 is each time
	keep       func(content.Preferences) error // nil for sources that state none

	report  ScanReport
	skipped map[string]bool // locations that keep their last revision
	gone    []located
	pages   []readPage        // and not yet in the journal
	sorter  *pageSorter       // of many small pages, once there are more than fit into pages; nil for none
	stamps  []located         // of files that are as before; not yet in the journal
	stale   []string          // locations of what was remembered of such files, and does not hold
	none    []content.Skipped // files whose octets give no page; not yet in the journal
	began   time.Time
	// verifying says that this scan reads every file of a stamper.
	verifying bool
	bytes     int  // payload octets of pages
	settled   bool // there is a row of a sitemap
	// revision is the journal's behind this scan's last commit, and disturbed
	// says that a session went beyond it.
	revision  uint64
	disturbed bool
	stated    bool  // keep was called
	octets    int64 // payload of all pages that were read
	stopped   func() error
	ascends   func() // to be called at the end; nil for none
	tell      func() // how far it is; may be nil
	first     bool   // the journal was empty
	grown     func() // called when a first scan has put pages into the journal; may be nil
}

type located struct {
	location string
	h        [32]byte
	stamp    content.Stamp // zero if the file was not at rest
}

// run reads the whole source once. Pages come by ascending location, and so do
// the journal's location rows: walking both side by side finds what is gone
// without holding either. A source that has not changed writes nothing.
func (s *scanner) run(ctx context.Context) (ScanReport, error) {
	s.skipped, s.began, s.stopped = make(map[string]bool), s.now(), ctx.Err
	defer s.sorter.close()
	defer func() {
		if s.ascends != nil {
			s.ascends()
		}
	}()
	snapshot, err := s.journal.store.Snapshot()
	if err != nil {
		return s.report, err
	}
	defer snapshot.Close()
	h, err := s.journal.head(snapshot)
	if err != nil {
		return s.report, err
	}
	fresh := h.Extractor != s.extractor
	s.first = h.Revision == 0
	known := func(location string) ([32]byte, bool) { return s.known(snapshot, location, fresh) }
	rows, stop := iter.Pull2(s.locations(snapshot))
	defer stop()
	pages, err := s.readPages(ctx, snapshot, known, fresh)
	if err != nil {
		return s.report, err
	}
	s.tell = func() {
		tell(ctx, Progress{Scan: true, Collection: s.journal.coll, Done: int64(s.report.Pages), Total: int64(h.Pages), Octets: s.octets})
	}
	if err := s.merge(pages, rows); errors.Is(err, content.ErrUnchanged) {
		s.report.Pages, s.report.Unchanged = int(h.Pages), true
		return s.report, nil
	} else if err != nil {
		return s.report, err
	}
	if err := s.state(); err != nil {
		return s.report, err
	}
	if err := s.flush(); err != nil {
		return s.report, err
	}
	if err := s.drain(); err != nil {
		return s.report, err
	}
	if err := errors.Join(s.finish(fresh), s.forgetNoPages()); err != nil {
		return s.report, err
	}
	return s.report, s.settle()
}

// known answers the source's question whether it needs to extract a file.
func (s *scanner) known(r durable.Reader, location string, fresh bool) ([32]byte, bool) {
	if fresh {
		return [32]byte{}, false
	}
	h, err := r.Get(rowKey('J', s.journal.coll, 'l', []byte(location)))
	if err != nil || len(h) < 32 {
		return [32]byte{}, false
	}
	p, ok, err := s.journal.page(r, [32]byte(h[:32]))
	if err != nil || !ok || p.Location != location || p.Source.IsZero() {
		return [32]byte{}, false
	}
	return p.Source, true
}

// skip notes a file that gave no page. One that broke keeps its last revision;
// one that asks not to be indexed is gone.
func (s *scanner) skip(k content.Skipped) {
	if s.report.SkippedCount++; len(s.report.Skipped) < maxSkipped {
		s.report.Skipped = append(s.report.Skipped, k)
	}
	if k.Err != nil {
		s.skipped[k.Location] = true
	}
	if !k.Unread && k.Stamp != (content.Stamp{}) {
		k.Stamp = s.atRest(k.Stamp)
		s.none = append(s.none, k)
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
			l, err := locatedOf(string(kv.Key[len(lo):]), kv.Value)
			if !yield(l, err) || err != nil {
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
		var old located
		if more && row.location == p.Location {
			old = row
			if row, err, more = rows(); err != nil {
				return err
			}
		}
		if err := s.take(p, old); err != nil {
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

// take notes one page, and writes those noted to the journal now and then. old
// is what was known of its location.
func (s *scanner) take(p content.Page, old located) error {
	s.report.Pages++
	s.octets += int64(len(p.Payload))
	if s.tell != nil {
		s.tell()
	}
	if p.Unread {
		return nil
	}
	s.report.Read++
	p.Stamp = s.atRest(p.Stamp)
	switch {
	case p.Unchanged:
		s.restamp(old, p.Stamp)
	case s.sorter.has():
		if s.sorter.add(s.readPage(p)); s.sorter.full() {
			return s.drain()
		}
	default:
		s.pages = append(s.pages, s.readPage(p))
		s.bytes += len(p.Payload)
	}
	if many := len(s.pages) >= scanAhead || s.bytes >= scanBytes; many && s.sort() {
		return nil
	}
	// Who pushes beside the scan is to have work soon.
	beside := s.first && s.grown != nil && len(s.pages) < scanSorts && s.bytes >= besideBytes
	if len(s.pages) < scanAhead && len(s.none) < scanPages && s.bytes < scanBytes && len(s.stamps) < scanStamps && !beside {
		return nil
	}
	return s.flush()
}

// flush takes the noted pages into the journal. The journal is not held while
// the source is read.
func (s *scanner) flush() error {
	if len(s.pages)+len(s.stamps)+len(s.none) == 0 {
		return nil
	}
	if err := s.state(); err != nil {
		return err
	}
	some := len(s.pages) > 0
	small := len(s.pages) >= scanSorts
	if small {
		s.ascend()
		sortByHash(s.pages)
	}
	if err := s.flushAll(s.pages); err != nil {
		return err
	}
	clear(s.pages)
	s.pages, s.bytes = s.pages[:0], 0
	// Small pages take scan and delivery the more memory the more there are of them, and
	// leave no core idle: those are pushed behind the scan.
	if s.first && s.grown != nil && some && !small {
		s.tell = nil // who pushes tells from now on
		s.grown()
	}
	return nil
}

// flushAll takes pages into the journal, and all else that is noted.
func (s *scanner) flushAll(pages []readPage) error {
	parts := slices.Chunk(pages, scanPages)
	if len(pages) == 0 {
		parts = slices.Values([][]readPage{nil})
	}
	for some := range parts {
		if err := s.flushSome(some); err != nil {
			return err
		}
	}
	s.cache.spool.show()
	return nil
}

// flushSome is one commit of flush.
func (s *scanner) flushSome(pages []readPage) error {
	e, err := s.journal.edit()
	if err != nil {
		return err
	}
	defer e.batch.Close()
	if err := s.begin(e); err != nil {
		return err
	}
	for _, p := range pages {
		changed, err := e.put(p.h, p.row)
		if err != nil {
			return err
		}
		if changed {
			s.report.Changed++
			s.cache.add(p, e.head.Revision)
		}
	}
	if err := errors.Join(s.writeStamps(e), s.writeNoPages(e)); err != nil {
		return err
	}
	return s.commit(e)
}

// finish tombstones what is gone, if that is plausible. Only now, with every
// page read, does the journal come from this version of the extraction.
func (s *scanner) finish(fresh bool) error {
	var gone []located
	for _, g := range s.gone {
		if !s.skipped[g.location] {
			gone = append(gone, g)
		}
	}
	if len(gone) == 0 && !fresh && !s.verifying {
		return nil
	}
	e, err := s.journal.edit()
	if err != nil {
		return err
	}
	defer e.batch.Close()
	if n := len(gone); n > goneFloor && float64(n) > goneShare*float64(e.head.Pages) && !s.massDelete {
		return fmt.Errorf("%w: %d of %d pages of %s; if that is meant, say --allow-mass-delete", ErrMassDelete, n, e.head.Pages, s.journal.coll)
	}
	if err := s.begin(e); err != nil {
		return err
	}
	for _, g := range gone {
		deleted, err := e.remove(g.location, g.h)
		if err != nil {
			return err
		}
		if deleted {
			s.report.Deleted++
		}
	}
	e.head.Extractor = s.extractor
	if err := s.writeVerified(e); err != nil {
		return err
	}
	return s.commit(e)
}

// payloads keeps the payloads of pages that were just read, so that sending
// them does not read them again. It is bounded: what does not fit goes to a spool, and
// where that is most of them, nothing is kept in memory: a long push has better use for
// it.
type payloads struct {
	mu     sync.RWMutex // guards what is in memory
	left   int          // octets that still fit
	missed int          // octets that did not
	pages  map[[32]byte]keptPayload
	spool  *spool // of those that do not; nil for sources that are as cheap to read
	shared sharer // of what is read again from the source
}

type keptPayload struct {
	digest envelope.Hash
	octets []byte
}

// payloadCache is how many octets of memory a scan keeps for sending: payloads,
// and for each of them keptOverhead, what its place in the map takes (two slots
// of 88 octets while the map grows) and its allocation is rounded up by.
const (
	payloadCache = 16 << 20
	keptOverhead = 256
	mostMissed   = 7 * payloadCache
)

func newPayloads() *payloads {
	return &payloads{left: payloadCache, pages: make(map[[32]byte]keptPayload)}
}

// add takes a page that the journal has at a revision.
func (c *payloads) add(p readPage, revision uint64) {
	if p.payload == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.pages[p.h]; ok {
		c.left += len(old.octets) + keptOverhead
		delete(c.pages, p.h)
	}
	n := len(p.payload) + keptOverhead
	if n <= c.left {
		c.left -= n
		c.pages[p.h] = keptPayload{p.row.Digest, bytes.Clone(p.payload)} // what it was cut out of is not kept
		return
	}
	c.spool.add(revision, p.h, p.row.Digest, p.payload)
	if c.missed += n; c.missed > mostMissed {
		c.left, c.pages = 0, nil
	}
}

// lookup gives the payload with that digest if it was kept.
func (c *payloads) lookup(h [32]byte, digest envelope.Hash) ([]byte, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p, ok := c.pages[h]
	if !ok || p.digest != digest {
		return nil, false
	}
	return p.octets, true
}
