package publisher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/packed"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Rows of which there is one for each page, or that list the pages of a batch, are
// packed.

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
	b = packed.AppendNumbers(b, p.JournalEpoch, p.Revision, uint64(p.Set), uint64(p.Place))
	return packed.AppendText(packed.AppendText(packed.AppendText(b, string(p.Decision)), p.Reason), p.URL)
}

func unpackAcked(row []byte) (p ackedPage, err error) {
	u := packed.NewReader(row)
	p.Op, p.Digest, p.Receipt = translog.Op(u.Octet()), u.Hash(), u.Hash()
	p.JournalEpoch, p.Revision, p.Set, p.Place = u.Number(), u.Number(), int(u.Number()), int(u.Number())
	p.Decision, p.Reason, p.URL = translog.Decision(u.Text()), u.Text(), u.Text()
	return p, u.End()
}

// append packs what the journal knows of a page.
func (p *pageRow) append(b []byte) []byte {
	var flags byte
	if p.Deleted {
		flags |= 1
	}
	if !p.Modified.IsZero() {
		flags |= 2
	}
	b = append(b, flags, p.Format)
	b = append(append(append(b, p.Source[:]...), p.Digest[:]...), p.Fingerprint[:]...)
	b = packed.AppendNumbers(b, uint64(p.Size), p.Revision)
	if flags&2 != 0 {
		b = binary.AppendVarint(b, p.Modified.Unix())
	}
	b = packed.AppendNumbers(packed.AppendText(packed.AppendText(b, p.URL), p.Location), uint64(len(p.Denied)))
	for _, purpose := range p.Denied {
		b = packed.AppendText(b, purpose)
	}
	return b
}

func unpackPage(row []byte) (p pageRow, err error) {
	u := packed.NewReader(row)
	flags := u.Octet()
	p.Deleted, p.Format = flags&1 != 0, u.Octet()
	p.Source, p.Digest, p.Fingerprint = u.Hash(), u.Hash(), u.Hash()
	p.Size, p.Revision = int(u.Below(1<<62)), u.Number()
	if flags&2 != 0 {
		p.Modified = envelope.At(time.Unix(u.Signed(), 0))
	}
	p.URL, p.Location = u.Text(), u.Text()
	for n := u.Number(); n > 0 && u.Err() == nil; n-- {
		p.Denied = append(p.Denied, u.Text())
	}
	if flags&^3 != 0 {
		u.Fault()
	}
	return p, u.End()
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
			return fmt.Errorf("row %x: %w", kv.Key, errors.Join(packed.ErrDamaged, err))
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
	row := binary.AppendUvarint(packed.AppendText(nil, string(p.Manifest)), uint64(len(p.Items)))
	if len(p.Items) == 0 {
		return row, nil
	}
	var list []byte
	for _, it := range p.Items {
		list = append(list, byte(it.Op), it.Format)
		list = append(list, it.Digest[:]...)
		list = packed.AppendText(binary.AppendUvarint(list, it.Revision), it.URL)
	}
	encoder, err := baseEncoder()
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(list, row), nil
}

func unpackPending(row []byte) (*pendingBatch, error) {
	u := packed.NewReader(row)
	p := &pendingBatch{Manifest: []byte(u.Text())}
	items := u.Number()
	if err := u.Err(); err != nil {
		return nil, err
	}
	if items == 0 {
		if err := u.End(); err != nil {
			return nil, err
		}
		return p, nil
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPending), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	list, err := decoder.DecodeAll(u.Rest(), nil)
	if err != nil {
		return nil, errors.Join(packed.ErrDamaged, err)
	}
	for u = packed.NewReader(list); u.More(); {
		it := offered{Op: translog.Op(u.Octet()), Format: u.Octet(), Digest: u.Hash()}
		it.Revision, it.URL = u.Number(), u.Text()
		p.Items = append(p.Items, it)
	}
	if err := u.End(); err != nil {
		return nil, err
	}
	if uint64(len(p.Items)) != items {
		return nil, packed.ErrDamaged
	}
	return p, nil
}
