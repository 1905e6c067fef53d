package publisher

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/packed"
)

// A readPage is a page that a scan has read, and that is not in the journal yet.
type readPage struct {
	h       [32]byte // SHA-256 of its URL
	row     pageRow
	payload []byte // nil if it is not kept
}

// readPage is what is kept of a page until it is in the journal.
func (s *scanner) readPage(p content.Page) readPage {
	return readPage{urlHash(p.URL), rowOf(p, s.now()), p.Payload}
}

// sort gives the pages that are in memory to the sorter, if they are many small ones, and
// with it all that come later: what is known of one URL stays in the order of the source.
// It reports whether it did.
func (s *scanner) sort() bool {
	if len(s.pages) < scanSorts || !s.sorter.ready() {
		return false
	}
	for i := range s.pages {
		s.sorter.add(s.pages[i])
	}
	s.pages, s.bytes = nil, 0
	return true
}

// ascend says that rows come by the hashes of their pages, or by their revisions. Those of
// locations do not, and are kept apart from them.
func (s *scanner) ascend() {
	if s.ascends == nil {
		c := s.journal.coll
		s.ascends = s.journal.store.Ascending(rowKey('J', c, 'h'), rowKey('J', c, 'l'), rowKey('J', c, 'r'))
	}
}

// drain takes what the sorter holds into the journal.
func (s *scanner) drain() error {
	if !s.sorter.has() {
		return nil
	}
	if err := s.state(); err != nil {
		return err
	}
	s.ascend()
	for pages, err := range s.sorter.sorted() {
		if err = cmp.Or(err, s.stopped()); err == nil {
			err = s.flushAll(pages)
		}
		if err != nil {
			return err
		}
	}
	s.sorter.reset()
	return nil
}

// sortByHash puts pages in the order of the hashes of their URLs. Of several with one
// URL the last counts, as it does in the order of the source.
func sortByHash(pages []readPage) {
	order := make([]int32, len(pages)) // which of them comes where
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return bytes.Compare(pages[a].h[:], pages[b].h[:]) })
	// Each page goes to its place along its circle: a copy of all is as large as they are.
	for i := range order {
		if order[i] < 0 {
			continue
		}
		first, at := pages[i], i
		for from := int(order[at]); from != i; from = int(order[at]) {
			pages[at], order[at] = pages[from], -1
			at = from
		}
		pages[at], order[at] = first, -1
	}
}

// A pageSorter has a scan of many small pages give them their revisions in the order of
// the hashes of their URLs, all of them and not those alone that fit into memory: the
// state and most rows on both sides lie in that order, so a batch then adds to one place
// of what is there, and rewrites nothing. It deals them out by the first bits of the hash
// into a file without a name, never synced, of at most spoolBytes and a quarter of what
// is free; each part is then read, and sorted in memory. A scan that ends before all was
// read has put none of it into the journal.
type pageSorter struct {
	dir      string
	most     int64 // octets of the file
	payloads bool  // they are kept, too

	file  *os.File // nil before the first page, and when all of it was given
	end   int64
	pages int
	parts [sortParts]sortPart
	over  bool   // the disk has refused a chunk: what is here is the last
	room  []byte // for one record
}

// A sortPart is one part of the order. Its records lie in chunks of the file, and the
// last of them in memory.
type sortPart struct {
	chunks []int64 // where each begins
	tail   []byte  // up to sortChunk octets; more once the disk has refused some
}

const (
	sortParts = 128
	sortChunk = 32 << 10
	// sortSome is from how many octets on parts that follow one another are sorted as
	// one, so that few pages do not make many commits.
	sortSome = scanBytes / 2
)

// newPageSorter makes one whose file is in dir. free is how much the disk has, 0 if nobody
// knows. Payloads are kept unless the source is as cheap to read.
func newPageSorter(dir string, free uint64, payloads bool) *pageSorter {
	return &pageSorter{dir: dir, most: spoolMost(free), payloads: payloads}
}

// ready reports whether it can take pages; it makes the file.
func (s *pageSorter) ready() bool {
	if s == nil || s.over || s.most < 2*scanBytes {
		return false
	}
	if s.file == nil {
		var err error
		if s.file, err = durable.Unnamed(s.dir); err != nil {
			s.over = true
			return false
		}
	}
	return true
}

// has reports whether pages were given to it that are to be taken out.
func (s *pageSorter) has() bool { return s != nil && s.pages > 0 }

// full reports whether it is time to do so.
func (s *pageSorter) full() bool { return s.over || s.end >= s.most }

// add takes a page. Its payload is left out if it is so large that sending it may as well
// read it again.
//
// A record is the length and the CRC-32C of what follows, then the hash of the URL, the
// stamp, the row behind its length, and the payload.
func (s *pageSorter) add(p readPage) {
	s.pages++
	row := p.row.append(nil)
	b := append(s.room[:0], make([]byte, 8)...)
	b = p.row.stamp.Append(append(b, p.h[:]...))
	b = append(binary.AppendUvarint(b, uint64(len(row))), row...)
	if s.payloads && len(p.payload) <= sortChunk {
		b = append(b, p.payload...)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	s.room = b
	s.write(&s.parts[int(p.h[0])*sortParts>>8], b)
}

// write puts a record behind those of a part. What the disk refuses stays in memory.
func (s *pageSorter) write(part *sortPart, record []byte) {
	for len(record) > 0 && !s.over {
		if part.tail == nil {
			part.tail = make([]byte, 0, sortChunk)
		}
		n := min(len(record), sortChunk-len(part.tail))
		part.tail = append(part.tail, record[:n]...)
		if record = record[n:]; len(part.tail) < sortChunk {
			return
		}
		if _, err := s.file.WriteAt(part.tail, s.end); err != nil {
			s.over = true // a full disk, say
			break
		}
		part.chunks, part.tail = append(part.chunks, s.end), part.tail[:0]
		s.end += sortChunk
	}
	part.tail = append(part.tail, record...)
}

// sorted gives all pages by the hash of their URLs, as many at a time as take some
// mebibytes; they are valid until the next are asked for. Only if more than that have the
// same first bits are they sorted a part at a time, and those of one URL stay in their
// order in any case. An error is the last that it gives: a record could not be read.
func (s *pageSorter) sorted() iter.Seq2[[]readPage, error] {
	return func(yield func([]readPage, error) bool) {
		var pages []readPage
		var held slabs
		give := func() bool {
			sortByHash(pages)
			more := len(pages) == 0 || yield(pages, nil)
			clear(pages)
			pages = pages[:0]
			held.reset()
			return more
		}
		for i := range s.parts {
			in := bufio.NewReaderSize(&chunkReader{s.file, &s.parts[i], 0, 0}, sortChunk)
			for {
				p, err := readRecord(in, &held)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					yield(nil, fmt.Errorf("pages that were to be sorted: %w", err))
					return
				}
				if pages = append(pages, p); (held.taken >= scanBytes || len(pages) >= scanAhead) && !give() {
					return
				}
			}
			if (held.taken >= sortSome || len(pages) >= scanSorts) && !give() {
				return
			}
		}
		give()
	}
}

// maxSorted bounds what is allocated for a record whose length the disk has damaged.
const maxSorted = 16 << 20

// readRecord reads one record; io.EOF where there is none.
func readRecord(in *bufio.Reader, held *slabs) (p readPage, err error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return p, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxSorted {
		return p, packed.ErrDamaged
	}
	b := held.take(int(n))
	if _, err := io.ReadFull(in, b); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return p, packed.ErrDamaged // it is no end between two records
	} else if err != nil {
		return p, err
	}
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return p, packed.ErrDamaged
	}
	u := packed.NewReader(b)
	p.h = u.Hash()
	stamp, row := u.Octets(content.StampSize), u.Octets(u.Number())
	payload := u.Rest()
	if err := u.End(); err != nil {
		return p, err
	}
	if p.row, err = unpackPage(row); err != nil {
		return p, err
	}
	if p.row.stamp, err = content.ParseStamp(stamp); err != nil {
		return p, err
	}
	if len(payload) == p.row.Size {
		p.payload = payload
	}
	return p, nil
}

// A chunkReader reads the records of a part.
type chunkReader struct {
	file *os.File
	part *sortPart
	next int // chunk
	at   int // in the tail
}

func (r *chunkReader) Read(b []byte) (int, error) {
	if r.next < len(r.part.chunks) {
		if len(b) < sortChunk {
			return 0, io.ErrShortBuffer
		}
		n, err := r.file.ReadAt(b[:sortChunk], r.part.chunks[r.next])
		r.next++
		if n == sortChunk {
			return n, nil
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	if r.at == len(r.part.tail) {
		return 0, io.EOF
	}
	n := copy(b, r.part.tail[r.at:])
	r.at += n
	return n, nil
}

// reset makes it as one that has taken nothing. One whose disk has refused something
// stays as it is, and takes nothing more.
func (s *pageSorter) reset() {
	s.close()
	s.parts, s.end, s.pages, s.room = [sortParts]sortPart{}, 0, 0, nil
}

// close lets the file go. It may be called more than once.
func (s *pageSorter) close() {
	if s != nil && s.file != nil {
		s.file.Close() // nothing in it is to last
		s.file = nil
	}
}

// slabs lend memory that is given back all at once, so that many small things are few for
// the collector to look at, and none of them is made anew.
type slabs struct {
	all   [][]byte
	rest  []byte // of the last one lent from
	used  int    // how many of all are lent from
	taken int    // octets, since the last reset
}

const slabSize = 1 << 20

// take lends n octets, whose contents are anything.
func (s *slabs) take(n int) []byte {
	s.taken += n
	if n > slabSize {
		return make([]byte, n)
	}
	if len(s.rest) < n {
		if s.used == len(s.all) {
			s.all = append(s.all, make([]byte, slabSize))
		}
		s.rest = s.all[s.used]
		s.used++
	}
	b := s.rest[:n:n]
	s.rest = s.rest[n:]
	return b
}

// reset takes back all that was lent.
func (s *slabs) reset() { s.rest, s.used, s.taken = nil, 0, 0 }
