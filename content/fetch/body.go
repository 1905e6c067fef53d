package fetch

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// maxWindow is the greatest window of a zstd frame, in octets: what a frame
// may make the decoder allocate.
const maxWindow = 8 << 20

// Behind the first freeRatio octets, a body may be at most maxRatio times as
// large as it was compressed.
const (
	freeRatio = 1 << 20
	maxRatio  = 100
)

// A Body is a decompressed body. It is read by one goroutine.
type Body struct {
	answer  *answer
	get     *get
	wire    *wireReader
	plain   io.Reader
	closing func() // of the decoder
	done    sync.Once

	coded bool
	size  int64 // octets that were read, decompressed
	err   error // of all later reads
}

// newBody opens the body of an answer; with empty it has none.
func newBody(a *answer, g *get, empty bool) (*Body, error) {
	b := &Body{answer: a, get: g, closing: func() {}}
	b.wire = &wireReader{answer: a, limit: g.client.config.MaxBody, stall: g.client.config.StallTimeout}
	if empty {
		b.plain = strings.NewReader("")
		return b, nil
	}
	if a.ContentLength > g.client.config.MaxBody {
		return nil, fmt.Errorf("%w: %d octets, at most %d", ErrTooLarge, a.ContentLength, g.client.config.MaxBody)
	}
	coding := strings.ToLower(strings.TrimSpace(strings.Join(a.Header.Values("Content-Encoding"), ",")))
	switch coding {
	case "", "identity":
		b.plain = b.wire
		return b, nil
	case "gzip", "x-gzip":
		b.plain = &lazyReader{open: func() (io.Reader, error) { return gzip.NewReader(b.wire) }}
	case "zstd":
		d, err := zstd.NewReader(b.wire, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCoding, err)
		}
		b.plain, b.closing = d, d.Close
	default:
		return nil, fmt.Errorf("%w: %.40q", ErrCoding, coding)
	}
	b.coded = true
	return b, nil
}

// Read reads decompressed octets.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	limit := b.get.client.config.MaxBody
	n, err := b.plain.Read(p)
	b.size += int64(n)
	switch {
	case b.wire.err != nil && b.wire.err != io.EOF:
		err = b.wire.err // what went wrong below says more than what the decoder makes of it
	case b.size > limit:
		err = fmt.Errorf("%w: more than %d octets", ErrTooLarge, limit)
	case b.coded && b.size > freeRatio && b.size > maxRatio*b.wire.size:
		err = fmt.Errorf("%w: more than %d times as large as it was compressed", ErrTooLarge, maxRatio)
	case errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded):
		err = fmt.Errorf("%w: its zstd frame asks for a window of more than %d octets", ErrTooLarge, maxWindow)
	case b.coded && err != nil && err != io.EOF:
		err = fmt.Errorf("%w: %w", ErrCoding, err)
	}
	b.err = err
	if err != nil && err != io.EOF {
		n = 0
	}
	return n, err
}

// Size is how many octets have been read: over the wire, and decompressed.
func (b *Body) Size() (wire, plain int64) { return b.wire.size, b.size }

// Close ends the exchange. Only then may the next request to the origin begin,
// if as many are under way as are allowed.
func (b *Body) Close() error {
	b.done.Do(func() {
		b.closing()
		b.answer.close()
		b.get.cancel()
	})
	return nil
}

// ReadAll reads a body that must fit into memory: at most limit octets, which
// is as well the most that is ever allocated.
func (b *Body) ReadAll(limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(b, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d octets", ErrTooLarge, limit)
	}
	return data, nil
}

// A wireReader reads what comes over the wire, and gives up when too much
// does, or nothing for too long.
type wireReader struct {
	answer *answer
	limit  int64
	stall  time.Duration

	size int64
	err  error
}

func (w *wireReader) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	stalled := time.AfterFunc(w.stall, func() {
		w.answer.cancel(fmt.Errorf("no octet of the body within %v: %w", w.stall, context.DeadlineExceeded))
	})
	n, err := w.answer.Body.Read(p)
	stalled.Stop()
	w.size += int64(n)
	switch {
	case w.size > w.limit:
		err = fmt.Errorf("%w: more than %d octets over the wire", ErrTooLarge, w.limit)
	case err != nil:
		// This holds for io.EOF too: a server that sees us hang up may end the
		// body as if it were whole, and that can still arrive.
		if cause := context.Cause(w.answer.ctx); cause != nil {
			err = cause
		}
	}
	w.err = err
	return n, err
}

// A lazyReader opens its reader at the first read.
type lazyReader struct {
	open func() (io.Reader, error)
	r    io.Reader
}

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.r == nil {
		r, err := l.open()
		if err != nil {
			return 0, err
		}
		l.r = r
	}
	return l.r.Read(p)
}

// MediaType is the media type of a header's Content-Type, in lower case and
// without its parameters.
func MediaType(h http.Header) string {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}
