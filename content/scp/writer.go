package scp

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Packing says how a file is compressed.
type Packing struct {
	Compression Compression
	// Level is 1 to 9 for gzip and 1 to 22 for zstd, by the numbers of their
	// own programs; 0 stands for the usual one.
	Level int
}

func (p Packing) check() error {
	top := map[Compression]int{Gzip: gzip.BestCompression, Zstd: 22}[p.Compression]
	if p.Compression > Zstd || p.Level < 0 || p.Level > top {
		return fmt.Errorf("no compression %d of level %d", p.Compression, p.Level)
	}
	return nil
}

// A Writer writes one collection. The same lines, metadata and packing give
// the same octets, whatever the machine's clock and number of processors
// (TestWriterIsDeterministic).
//
// The checksum stands in the first line and covers the last, so lines go to a
// nameless spool file first, which takes what they take plain. Memory: one
// line, and the compressor's window of at most 8 MiB.
type Writer struct {
	Pages int64

	meta  Collection
	spool *os.File
	out   *bufio.Writer
	sum   hash.Hash
	plain int64
	walk  *walker
	build builder
}

// NewWriter begins a collection with a spool file in the folder spool.
func NewWriter(c Collection, spool string) (*Writer, error) {
	if err := c.valid(); err != nil {
		return nil, fmt.Errorf("collection: %w", err)
	}
	f, err := durable.Unnamed(spool)
	if err != nil {
		return nil, err
	}
	w := &Writer{meta: c, spool: f, out: bufio.NewWriterSize(f, 256<<10), sum: sha256.New(), walk: newWalker()}
	meta := c.appendLine(nil, "")
	w.sum.Write(meta)
	w.plain = int64(len(meta)) + int64(len(`,"checksum":""`)+len(checksumPrefix)+2*sha256.Size)
	return w, nil
}

// Add appends a page line, which a reader must accept; it is not changed.
func (w *Writer) Add(line []byte) error {
	c := checked{line: line}
	switch c.read(w.walk, &w.build, 0); {
	case c.err != nil:
		return fmt.Errorf("page line: %w", c.err)
	case c.skip != "":
		return fmt.Errorf("page line: %s", c.skip)
	}
	return w.add(line)
}

// add appends a line that is known to be sound.
func (w *Writer) add(line []byte) error {
	if w.plain += int64(len(line)) + 1; w.plain > MaxPlain {
		return limit("a collection of more than %d octets", int64(MaxPlain))
	}
	w.sum.Write([]byte{'\n'})
	w.sum.Write(line)
	w.Pages++
	if err := w.out.WriteByte('\n'); err != nil {
		return err
	}
	_, err := w.out.Write(line)
	return err
}

// Finish writes the whole file to dst, and returns its checksum and how many
// octets it took. Where the file would be more than 100 times as large as it
// is packed, a reader would take it for a bomb; then nothing sensible is in
// dst and the error wraps ErrLimit: write it plain.
func (w *Writer) Finish(dst io.Writer, p Packing) (checksum string, packed int64, err error) {
	if err := p.check(); err != nil {
		return "", 0, err
	}
	if err := w.out.Flush(); err != nil {
		return "", 0, err
	}
	checksum = checksumPrefix + hex.EncodeToString(w.sum.Sum(nil))
	count := &countWriter{w: dst}
	packer, err := pack(count, p)
	if err != nil {
		return "", 0, err
	}
	_, err = packer.Write(w.meta.appendLine(nil, checksum))
	if err == nil {
		_, err = io.Copy(packer, io.NewSectionReader(w.spool, 0, 1<<62))
	}
	if err = errors.Join(err, packer.Close()); err != nil {
		return "", count.n, err
	}
	if p.Compression != Plain && w.plain > freeRatio && w.plain > maxRatio*count.n {
		return "", count.n, limit("packed more than %d to 1", maxRatio)
	}
	return checksum, count.n, nil
}

// Close lets go of the spool file.
func (w *Writer) Close() error { return w.spool.Close() }

type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// pack wraps a compressor around w, of one thread: with several the octets
// would depend on their number.
func pack(w io.Writer, p Packing) (io.WriteCloser, error) {
	switch p.Compression {
	case Gzip:
		level := p.Level
		if level == 0 {
			level = gzip.DefaultCompression
		}
		return gzip.NewWriterLevel(w, level)
	case Zstd:
		level := p.Level
		if level == 0 {
			level = 3
		}
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true),
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithWindowSize(maxWindow))
	}
	return nopCloser{w}, nil
}
