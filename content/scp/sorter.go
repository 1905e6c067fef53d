package scp

import (
	"bufio"
	"container/heap"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A sorter sorts any number of entries with bounded memory: at most
// sorterEntries of them, of at most sorterOctets of URLs, are held; full ones
// go to a nameless file as sorted runs, which are merged in the end with
// runBuffer octets each.
type sorter struct {
	dir  string
	held []entry
	size int
	file *os.File
	runs []run
	end  int64
}

type run struct{ from, to int64 }

const (
	sorterEntries = 100_000
	sorterOctets  = 16 << 20
	runBuffer     = 8 << 10
)

func (s *sorter) add(e entry) error {
	s.held = append(s.held, e)
	if s.size += len(e.url); len(s.held) < sorterEntries && s.size < sorterOctets {
		return nil
	}
	return s.spill()
}

func (s *sorter) sort() { slices.SortFunc(s.held, func(a, b entry) int { return a.compare(&b) }) }

// spill writes what is held as a run.
func (s *sorter) spill() error {
	if s.file == nil {
		var err error
		if s.file, err = durable.Unnamed(s.dir); err != nil {
			return err
		}
	}
	s.sort()
	n, err := writeEntries(io.NewOffsetWriter(s.file, s.end), s.held)
	s.runs = append(s.runs, run{s.end, s.end + n})
	s.end += n
	clear(s.held)
	s.held, s.size = s.held[:0], 0
	return err
}

func writeEntries(w io.Writer, all []entry) (n int64, err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	var buf []byte
	for i := range all {
		buf = appendEntry(buf[:0], &all[i])
		n += int64(len(buf))
		if _, err := out.Write(buf); err != nil {
			return n, err
		}
	}
	return n, out.Flush()
}

// finish writes all entries to w in order, and lets go of everything.
func (s *sorter) finish(w io.Writer) error {
	if s.file == nil {
		s.sort()
		_, err := writeEntries(w, s.held)
		s.held = nil
		return err
	}
	err := s.spill()
	if err == nil {
		err = s.merge(w)
	}
	return errors.Join(err, s.close())
}

func (s *sorter) close() error {
	s.held = nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

func (s *sorter) merge(w io.Writer) error {
	var h runHeap
	for _, r := range s.runs {
		h = append(h, &runHead{in: bufio.NewReaderSize(io.NewSectionReader(s.file, r.from, r.to-r.from), runBuffer)})
	}
	live := h[:0]
	for _, r := range h {
		ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			live = append(live, r)
		}
	}
	h = live
	heap.Init(&h)
	out := bufio.NewWriterSize(w, 256<<10)
	var buf []byte
	for len(h) > 0 {
		buf = appendEntry(buf[:0], &h[0].entry)
		if _, err := out.Write(buf); err != nil {
			return err
		}
		ok, err := h[0].next()
		switch {
		case err != nil:
			return err
		case ok:
			heap.Fix(&h, 0)
		default:
			heap.Pop(&h)
		}
	}
	return out.Flush()
}

// A runHead is a run and its first entry.
type runHead struct {
	in *bufio.Reader
	entry
}

func (r *runHead) next() (bool, error) {
	var err error
	r.entry, _, err = readEntry(r.in)
	if err == io.EOF {
		return false, nil
	}
	return err == nil, err
}

type runHeap []*runHead

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].compare(&h[j].entry) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*runHead)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
