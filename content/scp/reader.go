package scp

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
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
// 92 octets of header each, which takes at most Limits.Plain and as much again
// for a file of the shortest lines; it has no name, so that nothing is left
// behind whatever happens. What is held in memory is seven chunks of lines that are
// checked side by side, a quarter of a MiB each, or one line that is longer
// (TestLongLinesAreAloneInMemory), the decompressor's window of at most 8 MiB, and half
// a MiB of buffers: TestMemoryStaysFlat. Nothing of r is read once Open has returned.
func Open(r io.Reader, o Options) (*File, error) {
	spool, err := durable.Unnamed(o.Spool)
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
			line, p, _, err := readRecord(in)
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
