package publisher

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A spool keeps payloads that a scan has read and that memory has no room for, on disk,
// so that a large push makes each page out of its source once: to make one costs more
// than all else that is done for it. It is a file without a name, never synced, that
// holds at most spoolBytes, a quarter of what is free, and payloads of up to
// spoolPage; it goes after spoolFor, or when a later scan of its collection has use for one.
// What is not in it is read from the source again, and so is a page whose record the disk
// has damaged (TestASpoolGivesWhatWasPutInOrNothing).
//
// Payloads stand in the order of their revisions, in which drafters ask for them; marks
// say where, for those who come later or pass much over.
type spool struct {
	dir  string
	most int64

	mu    sync.Mutex // guards what follows; readers use file without it
	file  *os.File   // nil before the first payload
	out   *bufio.Writer
	end   int64
	last  uint64 // revision
	ready uint64 // the last one that can be read: what is behind is not in the file yet
	marks []spoolMark
	over  bool // nothing is taken any more, or given
	timer *time.Timer

	before *spool // of an earlier scan, which may still be sent; nil if that is gone
}

type spoolMark struct {
	revision uint64
	at       int64
}

const (
	spoolBytes = 1 << 30
	spoolPage  = 1 << 20
	spoolFor   = 10 * time.Minute
	spoolEvery = 64 << 10 // octets from mark to mark, or more
)

// newSpool makes the spool of a scan. free is how much the disk has, 0 if nobody knows.
func newSpool(dir string, free uint64) *spool {
	return &spool{dir: dir, most: spoolMost(free)}
}

// spoolMost is how much one file may hold.
func spoolMost(free uint64) int64 {
	if free == 0 {
		return spoolBytes
	}
	return int64(min(spoolBytes, free/4))
}

// A spoolHead stands before each payload.
type spoolHead struct {
	revision uint64
	h        [32]byte
	digest   envelope.Hash
	length   uint32
	sum      uint32 // CRC-32C of the payload
}

const spoolHeadSize = 8 + 32 + 32 + 4 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// add takes a payload, if it has room.
func (s *spool) add(revision uint64, h [32]byte, digest envelope.Hash, payload []byte) {
	if s == nil || len(payload) > spoolPage {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(spoolHeadSize + len(payload))
	if s.over || s.end+size > s.most || revision <= s.last {
		return
	}
	if s.file == nil {
		var err error
		if s.file, err = durable.Unnamed(s.dir); err != nil {
			s.drop()
			return
		}
		s.before.close()
		s.before = nil
		s.out = bufio.NewWriterSize(s.file, 256<<10)
		s.timer = time.AfterFunc(spoolFor, s.close)
	}
	if n := len(s.marks); n == 0 || s.end-s.marks[n-1].at >= spoolEvery {
		s.marks = append(s.marks, spoolMark{revision, s.end})
	}
	var b [spoolHeadSize]byte
	head := append(append(binary.LittleEndian.AppendUint64(b[:0], revision), h[:]...), digest[:]...)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(payload)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(payload, castagnoli))
	if _, err := s.out.Write(head); err != nil {
		s.drop()
		return
	}
	if _, err := s.out.Write(payload); err != nil { // a full disk, say
		s.drop()
		return
	}
	s.end, s.last = s.end+size, revision
}

// show has what was taken so far read.
func (s *spool) show() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		return
	}
	if s.out.Flush() != nil {
		s.drop()
		return
	}
	s.ready = s.last
}

// close lets the file go. It may be called more than once.
func (s *spool) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	s.before.close()
}

func (s *spool) drop() {
	s.over, s.out, s.marks = true, nil, nil
	if s.file != nil {
		s.timer.Stop()
		s.file.Close() // nothing in it is to last
		s.file = nil
	}
}

// latest is the last spool that has a file, up to s.
func (s *spool) latest() *spool {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return s.before
	}
	return s
}

// find gives the file, and the last place at or before a revision.
func (s *spool) find(revision uint64) (file *os.File, m spoolMark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].revision > revision })
	if i == 0 || revision > s.ready {
		return nil, m
	}
	return s.file, s.marks[i-1]
}

// A spoolReader reads a spool for one drafter.
type spoolReader struct {
	s    *spool
	in   *bufio.Reader
	at   int64     // of the octet that in gives next
	head spoolHead // of the payload that in gives next, if has is set, or of the last
	has  bool
	room []byte // for payloads that come next
}

// arena is how many octets of payloads are allocated at once: small ones by themselves
// are as many things for the collector to look at.
const arena = 128 << 10

// payload gives the payload of a page at a revision, nil if the spool has none.
func (r *spoolReader) payload(revision uint64, h [32]byte, digest envelope.Hash) []byte {
	if r.s == nil {
		return nil
	}
	file, m := r.s.find(revision)
	if file == nil {
		return nil
	}
	if r.in == nil || r.at < m.at || r.head.revision > revision || !r.has && r.head.revision == revision {
		section := io.NewSectionReader(file, m.at, 1<<62)
		if r.in == nil {
			r.in = bufio.NewReaderSize(section, 64<<10)
		} else {
			r.in.Reset(section)
		}
		r.at, r.has, r.head = m.at, false, spoolHead{}
	}
	for {
		if !r.has && !r.next() {
			return nil
		}
		if r.head.revision >= revision {
			break
		}
		if r.skip(); r.in == nil {
			return nil
		}
	}
	if r.head.revision != revision || r.head.h != h || r.head.digest != digest {
		return nil
	}
	n := int(r.head.length)
	if len(r.room) < n {
		r.room = make([]byte, max(arena, n))
	}
	payload := r.room[:n:n]
	r.room = r.room[n:]
	if _, err := io.ReadFull(r.in, payload); err != nil || crc32.Checksum(payload, castagnoli) != r.head.sum {
		r.in = nil
		return nil
	}
	r.at, r.has = r.at+int64(len(payload)), false
	return payload
}

// next reads the head of the next payload; false at the end, and where it cannot be read.
func (r *spoolReader) next() bool {
	var b [spoolHeadSize]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil {
		r.in = nil
		return false
	}
	r.head = spoolHead{
		binary.LittleEndian.Uint64(b[:]), [32]byte(b[8:40]), envelope.Hash(b[40:72]),
		binary.LittleEndian.Uint32(b[72:]), binary.LittleEndian.Uint32(b[76:]),
	}
	if r.head.length > spoolPage {
		r.in = nil
		return false
	}
	r.at, r.has = r.at+spoolHeadSize, true
	return true
}

// skip passes the next payload over.
func (r *spoolReader) skip() {
	if _, err := r.in.Discard(int(r.head.length)); err != nil {
		r.in = nil
	}
	r.at, r.has = r.at+int64(r.head.length), false
}

// spools are those of the collections' last scans. The zero value is empty.
type spools struct {
	mu     sync.Mutex
	byName map[string]*spool
}

// begin makes the spool of a scan.
func (a *spools) begin(name, dir string, free uint64) *spool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byName == nil {
		a.byName = make(map[string]*spool)
	}
	s := newSpool(dir, free)
	s.before = a.byName[name].latest()
	a.byName[name] = s
	return s
}

func (a *spools) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.byName {
		s.close()
	}
}
