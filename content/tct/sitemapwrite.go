package tct

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Bounds are an operator's budget for each sitemap that is written.
type Bounds struct {
	MaxItems int   // 0: 50,000, which is also the most
	MaxSize  int64 // octets; 0: 50 MiB
}

// maxItemSize is the greatest size of an item that is written, in octets. Its
// two URLs alone may take more than the 2 KiB that the draft recommends.
const maxItemSize = 2*8192 + 512

// maxIndexed is the most sitemaps that an index lists.
const maxIndexed = 50_000

func (b Bounds) complete() (Bounds, error) {
	if b.MaxItems == 0 {
		b.MaxItems = 50_000
	}
	if b.MaxSize == 0 {
		b.MaxSize = 50 << 20
	}
	if b.MaxItems < 1 || b.MaxItems > 50_000 || b.MaxSize < 2*maxItemSize {
		return b, fmt.Errorf("a sitemap has 1 to 50000 items, and a budget of %d octets or more", 2*maxItemSize)
	}
	return b, nil
}

// A Written is a sitemap that was written.
type Written struct {
	Items int
	Size  int64
	Hash  [32]byte // SHA-256 of its octets
}

// ETag is the strong ETag of the sitemap's octets, without its quotes.
func (w Written) ETag() string { return FormatHash(w.Hash) }

// WriteSitemaps writes items, in their order, into as few sitemaps as b
// allows, but at least one. create opens the nth of them, from 0 on; each is
// closed before the next one is opened. It holds one item in memory, and the
// same items give the same octets. Where there are several, they are listed by
// an index: WriteIndex.
func WriteSitemaps(items iter.Seq2[Item, error], b Bounds, create func(n int) (io.WriteCloser, error)) ([]Written, error) {
	b, err := b.complete()
	if err != nil {
		return nil, err
	}
	w := &sitemapWriter{bounds: b, create: create}
	err = w.open()
	if err == nil {
		for item, failed := range items {
			if err = failed; err == nil {
				err = w.add(item)
			}
			if err != nil {
				break
			}
		}
	}
	if w.file == nil {
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	return w.written, nil
}

const (
	sitemapHead = `{"version":1,"profile":"` + Profile + `","items":[`
	indexHead   = `{"version":1,"profile":"` + Profile + `","sitemaps":[`
	sitemapTail = `]}`
)

// A sitemapWriter has one sitemap open at a time.
type sitemapWriter struct {
	bounds  Bounds
	create  func(n int) (io.WriteCloser, error)
	written []Written

	file io.WriteCloser // nil between two sitemaps
	out  *hashWriter
	now  Written
	line []byte
}

func (w *sitemapWriter) open() (err error) {
	if w.file, err = w.create(len(w.written)); err != nil {
		w.file = nil
		return err
	}
	w.out, w.now = newHashWriter(w.file), Written{}
	_, err = w.out.Write([]byte(sitemapHead))
	return err
}

func (w *sitemapWriter) add(item Item) error {
	w.line = appendItem(append(w.line[:0], ','), item)
	if len(w.line) > maxItemSize {
		return fmt.Errorf("sitemap item of %.200q takes %d octets, at most %d", item.CURL, len(w.line), maxItemSize)
	}
	if w.now.Items == w.bounds.MaxItems || w.out.size+int64(len(w.line)+len(sitemapTail)) > w.bounds.MaxSize {
		if err := w.close(); err != nil {
			return err
		}
		if err := w.open(); err != nil {
			return err
		}
	}
	line := w.line
	if w.now.Items == 0 {
		line = line[1:] // without the comma
	}
	w.now.Items++
	_, err := w.out.Write(line)
	return err
}

func (w *sitemapWriter) close() error {
	_, err := w.out.Write([]byte(sitemapTail))
	w.now.Size, w.now.Hash = w.out.size, w.out.sum()
	err = errors.Join(err, w.out.Flush(), w.file.Close())
	w.file = nil
	w.written = append(w.written, w.now)
	return err
}

// appendItem appends an item; its hash goes by both names, that of draft-00 and
// that of draft-01.
func appendItem(dst []byte, item Item) []byte {
	dst = appendString(append(dst, `{"cUrl":`...), item.CURL)
	dst = appendString(append(dst, `,"mUrl":`...), item.MURL)
	if !item.Modified.IsZero() {
		dst = appendTime(append(dst, `,"modified":`...), item.Modified)
	}
	dst = appendString(append(dst, `,"contentHash":`...), item.Hash)
	dst = appendString(append(dst, `,"etag":`...), item.Hash)
	return append(dst, '}')
}

// WriteIndex writes the index of several sitemaps. The draft leaves its form
// open; this one is ours: an object like a sitemap, with sitemaps in the place
// of items, each an object of url and etag.
func WriteIndex(to io.Writer, children []Child) (Written, error) {
	if len(children) > maxIndexed {
		return Written{}, fmt.Errorf("an index of %d sitemaps, at most %d", len(children), maxIndexed)
	}
	out := newHashWriter(to)
	line := []byte(indexHead)
	for i, c := range children {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendString(append(line, `{"url":`...), c.URL)
		line = appendString(append(line, `,"etag":`...), c.ETag)
		line = append(line, '}')
		if _, err := out.Write(line); err != nil {
			return Written{}, err
		}
		line = line[:0]
	}
	if _, err := out.Write(append(line, sitemapTail...)); err != nil {
		return Written{}, err
	}
	return Written{Items: len(children), Size: out.size, Hash: out.sum()}, out.Flush()
}

// A hashWriter buffers, counts and hashes what goes through it.
type hashWriter struct {
	*bufio.Writer
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	size int64
}

func newHashWriter(to io.Writer) *hashWriter {
	return &hashWriter{Writer: bufio.NewWriterSize(to, 64<<10), hash: sha256.New()}
}

func (w *hashWriter) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	w.hash.Write(p)
	return w.Writer.Write(p)
}

func (w *hashWriter) sum() [32]byte { return [32]byte(w.hash.Sum(nil)) }
