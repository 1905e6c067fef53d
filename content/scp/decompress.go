package scp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Compression is how a file is packed.
type Compression uint8

// The compressions of "Structure".
const (
	Plain Compression = iota
	Gzip
	Zstd
)

// Extension returns the ending of a file's name.
func (c Compression) Extension() string {
	switch c {
	case Gzip:
		return ".scp.gz"
	case Zstd:
		return ".scp.zst"
	}
	return ".scp"
}

// Coding returns the Content-Encoding that a server has to send; empty for
// none.
func (c Compression) Coding() string {
	switch c {
	case Gzip:
		return "gzip"
	case Zstd:
		return "zstd"
	}
	return ""
}

// Limits bound what is read of one collection, in octets. Zero stands for the
// limits of "Resource Exhaustion Attacks", which are also the greatest.
type Limits struct {
	Packed int64 // as it comes
	Plain  int64 // decompressed, and so what it takes in the spool folder
}

// The greatest limits.
const (
	MaxPacked = 50_000_000_000
	MaxPlain  = 500_000_000_000
)

func (l Limits) complete() Limits {
	if l.Packed <= 0 || l.Packed > MaxPacked {
		l.Packed = MaxPacked
	}
	if l.Plain <= 0 || l.Plain > MaxPlain {
		l.Plain = MaxPlain
	}
	return l
}

const (
	// Behind the first freeRatio octets a file may be at most maxRatio times as
	// large as it is packed.
	freeRatio = 1 << 20
	maxRatio  = 100

	// maxWindow is what a zstd frame may make the decoder allocate.
	maxWindow = 8 << 20

	readAhead = 64 << 10
)

// An unpacker reads a file decompressed, whatever its first octets say that it
// is, and keeps to the limits. The ratio is taken over what the decompressor
// has read, which is at most readAhead more than what it has used; at the end
// it is exact.
type unpacker struct {
	Compression Compression

	limits Limits
	packed *countReader
	in     io.Reader
	close  func()
	size   int64
	err    error
}

type countReader struct {
	r   io.Reader
	n   int64
	max int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > c.max {
		return 0, limit("more than %d octets packed", c.max)
	}
	return n, err
}

// sniff tells a compression by its magic number. A skippable frame, which some
// packers put first, is zstd's as well.
func sniff(head []byte) Compression {
	switch {
	case len(head) >= 2 && head[0] == 0x1F && head[1] == 0x8B:
		return Gzip
	case bytes.HasPrefix(head, []byte{0x28, 0xB5, 0x2F, 0xFD}),
		len(head) >= 4 && head[0]&0xF0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2A, 0x4D, 0x18}):
		return Zstd
	}
	return Plain
}

func unpack(r io.Reader, l Limits) (*unpacker, error) {
	u := &unpacker{limits: l.complete(), close: func() {}}
	u.packed = &countReader{r: r, max: u.limits.Packed}
	b := bufio.NewReaderSize(u.packed, readAhead)
	head, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	u.in = b
	switch u.Compression = sniff(head); u.Compression {
	case Gzip:
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		u.in = z
	case Zstd:
		// With more than one the decoder would read in a goroutine of its own: on, in a
		// file that whoever opened it has set to its beginning again, and beside the
		// count that the ratio is taken over.
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(uint64(u.limits.Plain)))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		u.in, u.close = z, z.Close
	}
	return u, nil
}

// Read hands nothing out that a limit forbids.
func (u *unpacker) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	n, err := u.in.Read(p)
	u.size += int64(n)
	switch {
	case u.size > u.limits.Plain:
		u.err = limit("more than %d octets decompressed", u.limits.Plain)
	case u.Compression != Plain && u.size > freeRatio && u.size > maxRatio*u.packed.n:
		u.err = limit("more than %d times as large as it is packed", maxRatio)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		u.err = limit("a zstd frame asks for more than %d octets of memory", maxWindow)
	case err != nil && err != io.EOF:
		u.err = fmt.Errorf("decompression: %w", err)
	default:
		u.err = err
		return n, err
	}
	return 0, u.err
}
