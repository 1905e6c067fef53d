package scp

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An entry is what an index holds of one page.
type entry struct {
	url                 string
	modified            time.Time // plausible
	digest, fingerprint [32]byte
	offset              int64 // of the page's record in the spool
	length              uint32
}

// A layer is one collection that was verified: its lines in a spool, and an
// index over them by URL. Its files do not change; readers may share it.
type layer struct {
	generated time.Time
	spool     *os.File
	index     *os.File

	// refs counts who may still read; the mirror is one of them. Whoever brings
	// it to zero closes the files.
	refs atomic.Int32

	sparseOnce sync.Once
	sparse     []waypoint // and one without a URL, where the index ends
	sparseErr  error

	// recent is the stretch that the last lookup read: pages are mostly asked for
	// one after the other.
	recent atomic.Pointer[stretch]
}

// A stretch is entries of an index as they stand in it.
type stretch struct {
	from   int64
	octets []byte
}

// A waypoint says where in an index a URL stands; there is one for each
// waypointEvery entries, or sooner for each waypointOctets of them, and those of a
// layer are held in memory.
type waypoint struct {
	url string
	at  int64
}

const (
	waypointEvery  = 256
	waypointOctets = 64 << 10
)

func newLayer(generated time.Time, spool, index *os.File) *layer {
	l := &layer{generated: generated, spool: spool, index: index}
	l.refs.Store(1)
	return l
}

func (l *layer) release() {
	if l.refs.Add(-1) == 0 {
		l.spool.Close()
		l.index.Close()
	}
}

// A layerWriter is the sink that makes a layer.
type layerWriter struct {
	spool     *spoolWriter
	sorter    sorter
	generated time.Time        // of the collection, once its metadata is read
	keep      func(*Page) bool // nil keeps every page
	pages     int64
}

// maxLayerPages bounds the pages of a layer, and with them the runs that are
// merged at once.
const maxLayerPages = 100_000_000

// prepare hashes a line.
func (w *layerWriter) prepare(c *checked, walk *walker) {
	c.digest, c.fingerprint = c.page.Digest(), walk.fingerprint(c.line)
}

// add takes a line that is checked here.
func (w *layerWriter) add(line []byte, walk *walker, b *builder) error {
	c := checked{line: line}
	c.read(walk, b, 1)
	switch {
	case c.err != nil:
		return fmt.Errorf("page line: %w", c.err)
	case c.skip != "":
		return fmt.Errorf("page line: %s", c.skip)
	}
	w.prepare(&c, walk)
	return w.page(&c)
}

func (w *layerWriter) page(c *checked) error {
	if w.keep != nil && !w.keep(&c.page) {
		return nil
	}
	if w.pages++; w.pages > maxLayerPages {
		return limit("more than %d pages", maxLayerPages)
	}
	e := entry{
		url: c.page.URL, modified: Plausible(c.page.Modified, w.generated), digest: c.digest, fingerprint: c.fingerprint,
		offset: w.spool.at, length: uint32(len(c.line)),
	}
	if err := w.spool.page(c); err != nil {
		return err
	}
	return w.sorter.add(e)
}

func (w *layerWriter) flush() error { return w.spool.flush() }

// builders make the pages of entries, each for one at a time.
var builders = sync.Pool{New: func() any { return new(builder) }}

// read returns the page of an entry. The disk may have damaged it since: its
// line is held against its digest, and what the record says of its members against
// its checksum. So the line is not read again, but for what was odd about it.
func (l *layer) read(e *entry) (Page, error) {
	line, p, odd, err := recordAt(l.spool, e.offset, e.length)
	if err != nil {
		return Page{}, fmt.Errorf("mirror: page %s: %w", e.url, err)
	}
	if sha256.Sum256(line) != e.digest {
		return Page{}, fmt.Errorf("mirror: page %s is not what was written", e.url)
	}
	if odd {
		page, err := ParsePage(line)
		if err != nil {
			return Page{}, fmt.Errorf("mirror: page %s: %w", e.url, err)
		}
		return page, nil
	}
	b := builders.Get().(*builder)
	defer builders.Put(b)
	page, reason := b.build(line, &p)
	if reason != "" {
		return Page{}, fmt.Errorf("mirror: page %s: %s", e.url, reason)
	}
	return page, nil
}

// entries yields the index from an offset on, by ascending URL. Of several
// pages with one URL in a file only the winner comes: the one that claims the
// latest time, and of those the first.
func (l *layer) entries(from int64) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		in := bufio.NewReaderSize(io.NewSectionReader(l.index, from, 1<<62), 32<<10)
		last := ""
		for {
			e, _, err := readEntry(in)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(entry{}, fmt.Errorf("mirror: index: %w", err))
				return
			}
			if e.url == last {
				continue
			}
			if last = e.url; !yield(e, nil) {
				return
			}
		}
	}
}

// lookup finds a URL; ok tells whether the layer has it. What it reads and keeps is
// less than 300 KiB: two stretches between waypoints.
func (l *layer) lookup(url string) (e entry, ok bool, err error) {
	l.sparseOnce.Do(func() { l.sparse, l.sparseErr = waypoints(l.index) })
	if l.sparseErr != nil {
		return entry{}, false, l.sparseErr
	}
	named := l.sparse[:len(l.sparse)-1]
	i, exact := slices.BinarySearchFunc(named, url, func(w waypoint, url string) int { return strings.Compare(w.url, url) })
	// The first entry of a URL, which is the one that counts, may lie before the
	// waypoint that names it.
	first, end := max(i-1, 0), i
	if exact {
		end++
	}
	octets, err := l.stretch(l.sparse[first].at, l.sparse[end].at)
	if err != nil {
		return entry{}, false, fmt.Errorf("mirror: index: %w", err)
	}
	for len(octets) > 0 {
		name, size, err := entryURL(octets)
		if err != nil {
			return entry{}, false, fmt.Errorf("mirror: index: %w", err)
		}
		if string(name) == url {
			e, _, err := readEntry(bytes.NewReader(octets))
			return e, err == nil, err
		}
		if string(name) > url {
			break
		}
		octets = octets[size:]
	}
	return entry{}, false, nil
}

// stretch gives the octets of the index in [from, to).
func (l *layer) stretch(from, to int64) ([]byte, error) {
	if r := l.recent.Load(); r != nil && r.from == from && int64(len(r.octets)) == to-from {
		return r.octets, nil
	}
	r := &stretch{from, make([]byte, to-from)}
	if _, err := l.index.ReadAt(r.octets, from); err != nil {
		return nil, err
	}
	l.recent.Store(r)
	return r.octets, nil
}

// waypoints walks the index once; the last one stands at its end.
func waypoints(index *os.File) ([]waypoint, error) {
	var all []waypoint
	in := bufio.NewReaderSize(io.NewSectionReader(index, 0, 1<<62), 256<<10)
	at, since := int64(0), 0
	for {
		e, size, err := readEntry(in)
		if err == io.EOF {
			return append(all, waypoint{at: at}), nil
		}
		if err != nil {
			return nil, fmt.Errorf("mirror: index: %w", err)
		}
		if len(all) == 0 || since >= waypointEvery || at-all[len(all)-1].at >= waypointOctets {
			all, since = append(all, waypoint{e.url, at}), 0
		}
		since++
		at += int64(size)
	}
}

// entryURL is the URL of the entry that octets begin with, and its size.
func entryURL(octets []byte) (url []byte, size int, err error) {
	if len(octets) < entrySize {
		return nil, 0, io.ErrUnexpectedEOF
	}
	size = entrySize + int(binary.LittleEndian.Uint16(octets))
	if len(octets) < size {
		return nil, 0, io.ErrUnexpectedEOF
	}
	return octets[entrySize:size], size, nil
}

// compare orders entries by URL, and those of one URL by what wins.
func (e *entry) compare(f *entry) int {
	return cmp.Or(strings.Compare(e.url, f.url), f.modified.Compare(e.modified), cmp.Compare(e.offset, f.offset))
}

// entrySize is the size of an entry beside its URL.
const entrySize = 2 + 8 + 4 + 32 + 32 + 8 + 4

func appendEntry(dst []byte, e *entry) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(e.url)))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.modified.Unix()))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(e.modified.Nanosecond()))
	dst = append(append(dst, e.digest[:]...), e.fingerprint[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.offset))
	dst = binary.LittleEndian.AppendUint32(dst, e.length)
	return append(dst, e.url...)
}

// readEntry reads an entry, and says how many octets it took; io.EOF where
// none begins.
func readEntry(in io.Reader) (e entry, size int, err error) {
	var b [entrySize]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return e, 0, err
	}
	url := make([]byte, binary.LittleEndian.Uint16(b[:]))
	if _, err := io.ReadFull(in, url); err != nil {
		return e, 0, io.ErrUnexpectedEOF
	}
	nanos := binary.LittleEndian.Uint32(b[10:])
	e.modified = time.Unix(int64(binary.LittleEndian.Uint64(b[2:])), int64(nanos)).UTC()
	copy(e.digest[:], b[14:])
	copy(e.fingerprint[:], b[46:])
	e.offset = int64(binary.LittleEndian.Uint64(b[78:]))
	e.length = binary.LittleEndian.Uint32(b[86:])
	e.url = string(url)
	if nanos >= 1e9 || e.length > MaxPage || e.offset < 0 {
		return e, 0, errors.New("an entry that was not written so")
	}
	return e, entrySize + len(url), nil
}
