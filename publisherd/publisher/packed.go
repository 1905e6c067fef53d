package publisher

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Rows of which there is one for each page, or that list the pages of a batch, are
// packed: numbers are unsigned varints, and text has its length before it. A million
// of them as JSON would be most of what a push writes.

var errPacked = errors.New("a packed row is damaged")

// unpacker reads a packed row. Behind the first fault it gives nothing more.
type unpacker struct {
	rest []byte
	bad  bool
}

func (u *unpacker) octets(n uint64) []byte {
	if u.bad = u.bad || uint64(len(u.rest)) < n; u.bad {
		return nil
	}
	b := u.rest[:n]
	u.rest = u.rest[n:]
	return b
}

func (u *unpacker) octet() byte {
	if b := u.octets(1); b != nil {
		return b[0]
	}
	return 0
}

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.rest)
	if u.bad = u.bad || size <= 0; u.bad {
		return 0
	}
	u.rest = u.rest[size:]
	return n
}

func (u *unpacker) text() string { return string(u.octets(u.number())) }

func (u *unpacker) hash() (h envelope.Hash) {
	copy(h[:], u.octets(uint64(len(h))))
	return h
}

// end says whether the whole row was read, and without fault.
func (u *unpacker) end() error {
	if u.bad || len(u.rest) > 0 {
		return errPacked
	}
	return nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// An ackedPage is what the indexer acknowledged last about a page.
type ackedPage struct {
	URL          string
	Digest       envelope.Hash
	Op           translog.Op
	JournalEpoch uint64
	Revision     uint64
	Decision     translog.Decision
	Reason       string // of an exclusion
	Receipt      envelope.Hash
	Set          int // which of the receipt's entries
	Place        int // in that entry's set
}

func ackedKey(series string, h [32]byte) []byte { return rowKey('A', series, 'p', h[:]) }

func (p *ackedPage) append(b []byte) []byte {
	b = append(b, byte(p.Op))
	b = append(append(b, p.Digest[:]...), p.Receipt[:]...)
	for _, n := range []uint64{p.JournalEpoch, p.Revision, uint64(p.Set), uint64(p.Place)} {
		b = binary.AppendUvarint(b, n)
	}
	return appendText(appendText(appendText(b, string(p.Decision)), p.Reason), p.URL)
}

func unpackAcked(row []byte) (p ackedPage, err error) {
	u := unpacker{rest: row}
	p.Op, p.Digest, p.Receipt = translog.Op(u.octet()), u.hash(), u.hash()
	p.JournalEpoch, p.Revision, p.Set, p.Place = u.number(), u.number(), int(u.number()), int(u.number())
	p.Decision, p.Reason, p.URL = translog.Decision(u.text()), u.text(), u.text()
	return p, u.end()
}

// lookupAcked finds what was acknowledged last about a page.
func (a agreement) lookupAcked(r durable.Reader, h [32]byte) (p ackedPage, ok bool, err error) {
	row, err := r.Get(ackedKey(a.rel.Series, h))
	if errors.Is(err, durable.ErrNotFound) {
		return p, false, nil
	}
	if err == nil {
		if p, err = unpackAcked(row); err != nil {
			err = fmt.Errorf("acknowledged page %x: %w", h, err)
		}
	}
	return p, err == nil, err
}

// acked calls yield for each page that was acknowledged, by ascending hash, until
// there is an error.
func (a agreement) acked(r durable.Reader, yield func(h [32]byte, p ackedPage) error) error {
	lo := rowKey('A', a.rel.Series, 'p')
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		p, err := unpackAcked(kv.Value)
		if err != nil || len(kv.Key) != len(lo)+32 {
			return fmt.Errorf("row %x: %w", kv.Key, errors.Join(errPacked, err))
		}
		if err := yield([32]byte(kv.Key[len(lo):]), p); err != nil {
			return err
		}
	}
	return nil
}

// maxPending bounds the list of a pending batch once it is unpacked, in octets: its
// URLs count into batchBytes, so it has less.
const maxPending = 64 << 20

// pack is the row of a pending batch: its manifest, the number of its items, and, if
// there are any, they in a zstd frame.
func (p *pendingBatch) pack() ([]byte, error) {
	row := binary.AppendUvarint(appendText(nil, string(p.Manifest)), uint64(len(p.Items)))
	if len(p.Items) == 0 {
		return row, nil
	}
	var list []byte
	for _, it := range p.Items {
		list = append(list, byte(it.Op), it.Format)
		list = append(list, it.Digest[:]...)
		list = appendText(binary.AppendUvarint(list, it.Revision), it.URL)
	}
	encoder, err := baseEncoder()
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(list, row), nil
}

func unpackPending(row []byte) (*pendingBatch, error) {
	u := unpacker{rest: row}
	p := &pendingBatch{Manifest: []byte(u.text())}
	items := u.number()
	if u.bad {
		return nil, errPacked
	}
	if items == 0 {
		if err := u.end(); err != nil {
			return nil, err
		}
		return p, nil
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPending), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	list, err := decoder.DecodeAll(u.rest, nil)
	if err != nil {
		return nil, errors.Join(errPacked, err)
	}
	for u = (unpacker{rest: list}); len(u.rest) > 0 && !u.bad; {
		it := offered{Op: translog.Op(u.octet()), Format: u.octet(), Digest: u.hash()}
		it.Revision, it.URL = u.number(), u.text()
		p.Items = append(p.Items, it)
	}
	if err := u.end(); err != nil {
		return nil, err
	}
	if uint64(len(p.Items)) != items {
		return nil, errPacked
	}
	return p, nil
}
