package publisher

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// defaultPatchBytes is how many octets of acknowledged payloads are kept for each
// agreement unless the configuration says otherwise.
const defaultPatchBytes = 256 << 20

// baseWindow is that of the frame of one base: most pages are far smaller.
const baseWindow = 1 << 20

// patchBytes is how many octets of acknowledged payloads are kept for each
// agreement, to make patches on; 0 for none.
func (p *Publisher) patchBytes() int64 { return max(cmp.Or(p.keptBytes, defaultPatchBytes), 0) }

// The bases of an agreement are rows of the store, one for each page whose payload
// was acknowledged last: the payload's digest, and the payload in a zstd frame.
// They change in the commit that stores the receipt, and so are of what the indexer
// acknowledged, whole or not there (TestCrashesLoseNoReceipt). A base that does not
// have the digest that the state says is none: to lose some only makes patches
// larger. There is none of a page that the state does not have, so that a page that
// is new to it is not looked up (TestNoBaseOutlivesItsPage). They are bounded
// (TestBasesAreBounded), and go when the agreement is revoked
// (TestBasesGoWithTheAgreement).
func baseKey(series string, h [32]byte) []byte { return rowKey('A', series, 'k', h[:]) }

// basesKey is the row that counts the octets of all bases of an agreement.
func basesKey(series string) []byte { return rowKey('A', series, 'K') }

type basesRow struct {
	Octets int64 `json:"octets"`
}

func digestOf(payload []byte) []byte {
	d := sha256.Sum256(payload)
	return d[:]
}

// baseEncoder is that of all bases: its tables and window are taken once, and not for
// each receipt. Two are at work at most; a third session waits for one of them.
var baseEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(baseWindow))
})

// newBaseDecoder makes the decoder of bases.
func newBaseDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDictionary), zstd.WithDecoderLowmem(true))
}

// base is what the indexer holds of a page under a digest, nil if it is not kept.
func (a agreement) base(r durable.Reader, d *zstd.Decoder, h [32]byte, digest envelope.Hash) ([]byte, error) {
	row, err := r.Get(baseKey(a.rel.Series, h))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, nil
	}
	if err != nil || len(row) < sha256.Size || envelope.Hash(row[:sha256.Size]) != digest {
		return nil, err
	}
	payload, err := d.DecodeAll(row[sha256.Size:], nil)
	if err != nil || envelope.Hash(digestOf(payload)) != digest {
		return nil, nil // the page goes whole
	}
	return payload, nil
}

// kept is what of a batch is to become bases: a payload for each item, and how
// many octets the agreement may keep. No payloads are those of a batch that was
// sent before a restart.
type kept struct {
	bodies [][]byte
	most   int64
}

// aim is how many octets are left when bases were dropped because there were more than
// k.most.
func (k kept) aim() int64 { return k.most - k.most/16 }

// keepBases makes what was acknowledged the bases of its pages, in the commit of
// the receipt: b, and rows, which comes before it there and takes what is not read again,
// the bases of new pages. Where there is no room, a new page gets none: it would push out
// another that is as likely to change. One that changes gets one, and others go for it.
func (a agreement) keepBases(b, rows *durable.Batch, items []offered, decided []decided, k kept) error {
	if k.most == 0 {
		return nil
	}
	var count basesRow
	if _, err := durable.ReadJSON(b, basesKey(a.rel.Series), &count); err != nil {
		return err
	}
	encoder, err := baseEncoder()
	if err != nil {
		return err
	}
	var row []byte
	for i, it := range items {
		h := urlHash(it.URL)
		into := rows
		if !it.fresh {
			into = b
		}
		var old []byte
		if !it.fresh {
			if old, err = b.Get(baseKey(a.rel.Series, h)); err != nil && !errors.Is(err, durable.ErrNotFound) {
				return err
			}
		}
		count.Octets -= int64(len(old))
		row = row[:0]
		full := it.fresh && count.Octets >= k.aim()
		if d := decided[i].decision; !full && k.bodies != nil && it.Op == translog.OpPut && d != translog.Exclude && len(k.bodies[i]) <= maxDictionary {
			row = encoder.EncodeAll(k.bodies[i], append(row, it.Digest[:]...))
		}
		switch {
		case len(row) > 0 && int64(len(row)) <= k.most/8:
			count.Octets += int64(len(row))
			err = into.Set(baseKey(a.rel.Series, h), row)
		case old != nil:
			err = b.Delete(baseKey(a.rel.Series, h))
		default:
			err = nil
		}
		if err := errors.Join(err, a.evict(b, &count, k, it.Digest)); err != nil {
			return err
		}
	}
	return durable.WriteJSON(b, basesKey(a.rel.Series), count)
}

// evict drops bases when they have outgrown their bound, until the rest is a
// sixteenth below it: those behind a place that is as good as drawn, the digest of
// what came last.
func (a agreement) evict(b *durable.Batch, count *basesRow, k kept, from envelope.Hash) error {
	if count.Octets <= k.most {
		return nil
	}
	all := rowKey('A', a.rel.Series, 'k')
	for _, part := range [][2][]byte{{baseKey(a.rel.Series, from), durable.PrefixEnd(all)}, {all, baseKey(a.rel.Series, from)}} {
		var gone [][]byte
		left := count.Octets
		for kv, err := range b.ScanLengths(part[0], part[1]) {
			if err != nil {
				return err
			}
			if left <= k.aim() {
				break
			}
			left -= int64(kv.Length)
			gone = append(gone, bytes.Clone(kv.Key))
		}
		for _, key := range gone {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		count.Octets = left
	}
	return nil
}

// forgetBases drops the bases of the pages that a plan takes out of the state.
func (a agreement) forgetBases(b *durable.Batch, plan *state.Plan) error {
	var count basesRow
	ok, err := durable.ReadJSON(b, basesKey(a.rel.Series), &count)
	if err != nil || !ok {
		return err
	}
	for h := range plan.Removed() {
		old, err := b.Get(baseKey(a.rel.Series, h))
		if errors.Is(err, durable.ErrNotFound) {
			continue
		}
		if err := errors.Join(err, b.Delete(baseKey(a.rel.Series, h))); err != nil {
			return err
		}
		count.Octets -= int64(len(old))
	}
	return durable.WriteJSON(b, basesKey(a.rel.Series), count)
}

// deleteBases drops all bases of an agreement.
func (a agreement) deleteBases(b *durable.Batch) error {
	all := rowKey('A', a.rel.Series, 'k')
	return errors.Join(b.DeleteRange(all, durable.PrefixEnd(all)), b.Delete(basesKey(a.rel.Series)))
}

// dropBases forgets all bases of an agreement.
func (a agreement) dropBases() error {
	b := a.store.NewBatch()
	defer b.Close()
	if err := a.deleteBases(b); err != nil {
		return err
	}
	return b.Commit()
}

// dropRevoked forgets the bases of each agreement with an indexer that a
// revocation has reached.
func (p *Publisher) dropRevoked(indexer envelope.Name) error {
	rels, err := Relationships(p.dir)
	if err != nil {
		return err
	}
	for _, r := range rels {
		if r.Indexer != indexer || len(r.revocations) == 0 {
			continue
		}
		a := agreement{p.store, r}
		if _, err := p.store.Get(basesKey(r.Series)); errors.Is(err, durable.ErrNotFound) {
			continue
		}
		if err := a.dropBases(); err != nil {
			return err
		}
	}
	return nil
}
