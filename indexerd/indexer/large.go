package indexer

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// The frame of a large page is sealed in a file under its series' data key, like
// a segment, but in chunks, so that nobody has to hold it whole:
//
//	19 random octets
//	chunks of largeChunk octets, and one of at most as many, each with its tag
//
// A chunk's nonce is the random octets, its number in four octets, and one that
// says whether it is the last; the same number and mark, with series and file,
// are what it is bound to. So no chunk is taken for another, of another file
// either, and a file that was cut anywhere does not open
// (TestSealedFilesOpenOnlyWhole).
const largeChunk = 256 << 10

const largePrefix = chacha20poly1305.NonceSizeX - 5

// A largeSeal knows how the chunks of one file are sealed.
type largeSeal struct {
	aead  cipher.AEAD
	nonce [chacha20poly1305.NonceSizeX]byte
	bound []byte // what each chunk is bound to, but for number and mark
	next  uint32 // the chunk that comes
}

func newLargeSeal(a cipher.AEAD, publisher envelope.Name, series string, file uint64) *largeSeal {
	bound := append([]byte("uzpif-oi/large-file/v1\x00"), seriesKey(publisher, series)...)
	return &largeSeal{aead: a, bound: binary.BigEndian.AppendUint64(bound, file)}
}

// step gives nonce and data of the chunk that comes.
func (s *largeSeal) step(last bool) (nonce, data []byte, err error) {
	if s.next == math.MaxUint32 {
		return nil, nil, errors.New("the file has too many chunks")
	}
	tail := binary.BigEndian.AppendUint32(nil, s.next)
	if tail = append(tail, 0); last {
		tail[4] = 1
	}
	s.next++
	copy(s.nonce[largePrefix:], tail)
	return s.nonce[:], append(s.bound[:len(s.bound):len(s.bound)], tail...), nil
}

// A largeWriter seals what is written to it. It holds one chunk.
type largeWriter struct {
	*largeSeal
	w     io.Writer
	chunk []byte
}

func newLargeWriter(w io.Writer, s *largeSeal) (*largeWriter, error) {
	if _, err := rand.Read(s.nonce[:largePrefix]); err != nil {
		return nil, err
	}
	if _, err := w.Write(s.nonce[:largePrefix]); err != nil {
		return nil, err
	}
	return &largeWriter{s, w, make([]byte, 0, largeChunk+s.aead.Overhead())}, nil
}

func (w *largeWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(w.chunk) == largeChunk { // more follows, so it is not the last
			if err := w.put(false); err != nil {
				return 0, err
			}
		}
		m := min(len(b), largeChunk-len(w.chunk))
		w.chunk, b = append(w.chunk, b[:m]...), b[m:]
	}
	return n, nil
}

// Close seals the last chunk. It does not close the file.
func (w *largeWriter) Close() error { return w.put(true) }

func (w *largeWriter) put(last bool) error {
	nonce, data, err := w.step(last)
	if err != nil {
		return err
	}
	_, err = w.w.Write(w.aead.Seal(w.chunk[:0], nonce, w.chunk, data))
	w.chunk = w.chunk[:0]
	return err
}

// A largeReader opens what a largeWriter sealed. It holds two chunks, and gives
// nothing of a chunk before all of it has been opened.
type largeReader struct {
	*largeSeal
	r      io.Reader
	sealed []byte // one octet more than a chunk has: whether another follows
	have   int    // of sealed, what is read already
	plain  []byte // the chunk that is open
	open   []byte // what of it is not given yet
	ended  bool
}

func newLargeReader(r io.Reader, s *largeSeal) (*largeReader, error) {
	if _, err := io.ReadFull(r, s.nonce[:largePrefix]); err != nil {
		return nil, fmt.Errorf("large file: %w", err)
	}
	return &largeReader{largeSeal: s, r: r, sealed: make([]byte, largeChunk+s.aead.Overhead()+1)}, nil
}

func (r *largeReader) Read(b []byte) (int, error) {
	for len(r.open) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.open)
	r.open = r.open[n:]
	return n, nil
}

// fill opens the next chunk.
func (r *largeReader) fill() error {
	n, err := io.ReadFull(r.r, r.sealed[r.have:])
	n += r.have
	last := err == io.EOF || err == io.ErrUnexpectedEOF
	if err != nil && !last {
		return err
	}
	end := n
	if !last {
		end--
	}
	number := r.next
	nonce, data, err := r.step(last)
	if err != nil {
		return err
	}
	if r.plain, err = r.aead.Open(r.plain[:0], nonce, r.sealed[:end], data); err != nil {
		return fmt.Errorf("large file, chunk %d: %w", number, err)
	}
	r.open, r.have, r.ended = r.plain, copy(r.sealed, r.sealed[end:n]), last
	return nil
}
