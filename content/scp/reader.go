package scp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

// Options say how a collection is read.
type Options struct {
	// Spool is the folder for the file that Open keeps until Close; empty
	// stands for the system's folder for temporary files.
	Spool string

	Limits Limits

	// Accept, if not nil, is asked as soon as the metadata is read; its error
	// rejects the collection.
	Accept func(*Collection) error

	// Warn, if not nil, is told what was odd, at most MaxWarnings times; the
	// last one says that there was more.
	Warn func(Warning)
}

// MaxWarnings bounds how often Warn is called for one collection.
const MaxWarnings = 1000

// A File is a collection of which every line and the checksum were checked.
type File struct {
	Collection  Collection
	Compression Compression
	Pages       int64 // that Each yields
	Skipped     int64 // lines that gave no page
	Size        int64 // decompressed, in octets
	Packed      int64 // as it came

	spool *os.File
}

// Open reads a collection to its end, and returns it only if no line of it is
// at fault: an error that wraps ErrRejected says that none of it may be used.
// Others are those of r and of the spool folder.
//
// The text wants both, that nothing of a broken file is used and that files
// are not held in memory. So the accepted lines are written to a spool file,
// 80 octets of header each, which takes at most Limits.Plain and as much again
// for a file of the shortest lines; it has no name, so that nothing is left
// behind whatever happens. What is held in memory is one line, the
// decompressor's window of at most 8 MiB, and half a MiB of buffers:
// TestMemoryStaysFlat.
func Open(r io.Reader, o Options) (*File, error) {
	spool, err := unnamed(o.Spool)
	if err != nil {
		return nil, err
	}
	f, err := verify(r, o, newSpoolWriter(spool))
	if err != nil {
		spool.Close()
		return nil, err
	}
	f.spool = spool
	return f, nil
}

// Verify reads a collection to its end like Open, and keeps nothing.
func Verify(r io.Reader, o Options) (*File, error) { return verify(r, o, nil) }

// Close lets go of the spool file.
func (f *File) Close() error {
	if f.spool == nil {
		return nil
	}
	return f.spool.Close()
}

// Each yields the pages in the file's order, and stops at the first error,
// which is one of the spool file. It holds one page. A page's Line is its own.
func (f *File) Each() iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		if f.spool == nil {
			return
		}
		in := bufio.NewReaderSize(io.NewSectionReader(f.spool, 0, 1<<62), 256<<10)
		var b builder
		for range f.Pages {
			line, p, err := readRecord(in)
			if err != nil {
				yield(Page{}, fmt.Errorf("spool file: %w", err))
				return
			}
			page, reason := b.build(line, &p)
			if reason != "" {
				yield(Page{}, fmt.Errorf("spool file: a line has changed: %s", reason))
				return
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

// unnamed makes a file that goes when it is closed.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".scp-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// A sink takes the lines that were accepted, each valid until it returns.
type sink interface {
	page(line []byte, p *parts, page *Page) error
	flush() error
}

// A verifier is one reading of a collection.
type verifier struct {
	file  File
	lines *lines
	walk  *walker
	build builder
	warn  func(string)
	sink  sink

	accept   func(*Collection) error
	warnings int
	skipped  bool // marks the next warning
	blank    bool // a blank line was met
}

func verify(r io.Reader, o Options, s sink) (*File, error) {
	u, err := unpack(r, o.Limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRejected, err)
	}
	defer u.close()
	v := &verifier{lines: newLines(u), walk: newWalker(), sink: s, accept: o.Accept}
	v.warn = func(text string) {
		if v.warnings++; o.Warn == nil || v.warnings > MaxWarnings {
			return
		}
		if v.warnings == MaxWarnings {
			text = "more warnings than are told"
		}
		o.Warn(Warning{Line: v.lines.n, Text: text, Skipped: v.skipped})
	}
	if err := v.run(); err != nil {
		return nil, err
	}
	v.file.Compression, v.file.Size, v.file.Packed = u.Compression, u.size, u.packed.n
	return &v.file, nil
}

// run reads all lines. Errors of the sink are the machine's, all others the
// file's.
func (v *verifier) run() error {
	rejected := func(err error) error {
		return fmt.Errorf("%w: %w", ErrRejected, &LineError{v.lines.n, err})
	}
	for {
		line, err := v.lines.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return rejected(err)
		}
		if v.lines.n == 1 {
			err = v.first(line)
		} else {
			err = v.other(line)
		}
		if failed, ok := err.(*sinkError); ok {
			return failed.err
		}
		if err != nil {
			return rejected(err)
		}
	}
	switch claim := v.file.Collection.Checksum; {
	case v.file.Collection.ID == "":
		return fmt.Errorf("%w: the file is empty", ErrRejected)
	case claim == "":
	default:
		if err := v.lines.check(claim); err != nil {
			return fmt.Errorf("%w: %w", ErrRejected, err)
		}
	}
	if v.sink != nil {
		return v.sink.flush()
	}
	return nil
}

type sinkError struct{ err error }

func (e *sinkError) Error() string { return e.err.Error() }

// first reads the metadata.
func (v *verifier) first(raw []byte) error {
	line, offset := raw, 0
	if rest, ok := bytes.CutPrefix(line, []byte("\xEF\xBB\xBF")); ok {
		v.warn("a byte order mark begins the file")
		line, offset = rest, len(raw)-len(rest)
	}
	offset += len(line) - len(bytes.TrimLeft(line, " \t\r\n"))
	c, where, err := v.walk.readCollection(trim(line), v.warn)
	if err != nil {
		return err
	}
	v.file.Collection = c
	if where.to > 0 {
		where.from, where.to = where.from+offset, where.to+offset
	}
	v.lines.sum(raw, where)
	if v.accept != nil {
		return v.accept(&c)
	}
	return nil
}

// other reads a page line.
func (v *verifier) other(raw []byte) error {
	v.lines.sum(raw, cut{})
	line := trim(raw)
	if len(line) == 0 {
		v.blank = true // at the end it is tolerated
		return nil
	}
	if v.blank {
		return fmt.Errorf("a blank line before it is no JSON")
	}
	p, err := v.walk.readPage(line, v.warn)
	if err != nil {
		return err
	}
	page, reason := v.build.build(line, &p)
	if reason != "" {
		v.file.Skipped++
		v.skipped = true
		v.warn("page skipped: " + reason)
		v.skipped = false
		return nil
	}
	for _, s := range page.Warnings {
		v.warn(s)
	}
	v.file.Pages++
	if v.sink == nil {
		return nil
	}
	if err := v.sink.page(line, &p, &page); err != nil && !errors.Is(err, ErrLimit) {
		return &sinkError{err}
	} else if err != nil {
		return err
	}
	return nil
}

// recordHeader is the size of what stands before a line in a spool: its
// length, and where its members are.
const recordHeader = 4 + 8*int(memberCount)

// A spoolWriter writes accepted lines one behind the other.
type spoolWriter struct {
	out *bufio.Writer
	at  int64
	buf [recordHeader]byte
}

func newSpoolWriter(w io.Writer) *spoolWriter {
	return &spoolWriter{out: bufio.NewWriterSize(w, 256<<10)}
}

func (s *spoolWriter) page(line []byte, p *parts, _ *Page) error {
	binary.LittleEndian.PutUint32(s.buf[:], uint32(len(line)))
	for m, part := range p {
		binary.LittleEndian.PutUint32(s.buf[4+8*m:], part.from)
		binary.LittleEndian.PutUint32(s.buf[8+8*m:], part.to)
	}
	s.at += int64(recordHeader + len(line))
	if _, err := s.out.Write(s.buf[:]); err != nil {
		return err
	}
	_, err := s.out.Write(line)
	return err
}

func (s *spoolWriter) flush() error { return s.out.Flush() }

// readRecord reads what page wrote. A length or a place that cannot be is an
// error: the file is ours, but not the disk below it.
func readRecord(in io.Reader) (line []byte, p parts, err error) {
	var head [recordHeader]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, p, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxPage {
		return nil, p, fmt.Errorf("record of %d octets", n)
	}
	for m := range p {
		p[m] = span{binary.LittleEndian.Uint32(head[4+8*m:]), binary.LittleEndian.Uint32(head[8+8*m:])}
		if s := p[m]; s.to != 0 && (s.to > n || s.from+2 > s.to) {
			return nil, p, fmt.Errorf("record with member %s out of it", memberNames[m])
		}
	}
	line = make([]byte, n)
	_, err = io.ReadFull(in, line)
	return line, p, err
}
