package indexer

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A patch batch brings pages as differences to what is held of them: its payloads
// are compressed under a dictionary that both sides have, the held payloads of the
// pages that name a base, in this series and in the order of the items. What is
// stored is a frame of its own, which needs no other
// (TestAPatchIsStoredWhole). A base that is not held, whatever the reason, is one
// refusal, base-unknown, of the whole batch (TestAForeignBaseIsUnknown).

// maxDictionary bounds the dictionary of a patch batch, in octets.
const maxDictionary = 8 << 20

// featurePatch tells a publisher that patch batches are taken here.
const featurePatch = "patch"

// baseBytes is how much of the digest of its base an item names. It tells a base
// from another by mistake; on which one a patch really was made shows in what comes
// out, which the manifest binds.
const baseBytes = 8

// checkPatch judges what the header of a batch says of its dictionary.
func checkPatch(f *oiv1.Batch) error {
	switch {
	case f.DictionaryBytes == 0 && f.ListFrameBytes == 0:
		return nil
	case f.DictionaryBytes > maxDictionary:
		return refuse(grants.ErrOversize, "a dictionary of %d octets, at most %d", f.DictionaryBytes, maxDictionary)
	case f.DictionaryBytes == 0, f.ListFrameBytes == 0, f.ListFrameBytes >= f.FrameBytes, f.ItemsBytes == 0, f.ItemsBytes >= f.RawBytes, f.Alone:
		return refuse(grants.ErrMalformed, "the header of a patch batch that cannot be one")
	}
	return nil
}

// weight is what a batch takes of the memory for all batches: its frame as it
// comes and decompressed; of a patch batch also the dictionary, the frame that is
// made of it, and the one stored frame out of which bases are cut at a time.
func (l Limits) weight(f *oiv1.Batch) int64 {
	w := f.FrameBytes + f.RawBytes
	if f.DictionaryBytes > 0 {
		w += f.DictionaryBytes + f.RawBytes + l.BatchBytes + itemBytes
	}
	return min(int64(w), l.batchMemory())
}

// takePatch reads what an item says of its base.
func (it *item) takePatch(w *oiv1.Item) error {
	if len(w.Base) != 0 && (len(w.Base) != baseBytes || it.op != translog.OpPut) {
		return refuse(grants.ErrMalformed, "a base that is none")
	}
	it.base = w.Base
	return nil
}

// open makes items and payloads of what came of a batch. A batch that was answered
// before may not be opened again: its bases are gone by it.
func (in *ingest) open(f *oiv1.Batch, frame []byte) error {
	if f.DictionaryBytes > 0 {
		return in.openPatch(f, frame)
	}
	in.frame = frame
	var raw []byte
	if f.RawBytes > 0 { // else the batch only moves the cursor
		var err error
		if raw, err = in.s.x.decompress(frame, f.RawBytes); err != nil {
			return err
		}
	}
	if err := in.decode(raw[:f.ItemsBytes], f.RawBytes); err != nil {
		return err
	}
	for i := range in.items {
		if in.items[i].base != nil {
			return refuse(grants.ErrMalformed, "item %d: a base in a batch without a dictionary", i)
		}
	}
	return in.checkPayloads(raw)
}

// openPatch opens a patch batch, and makes the frame that is stored.
func (in *ingest) openPatch(f *oiv1.Batch, frame []byte) error {
	if err := in.answeredBefore(); err != nil || in.answered != nil {
		return err
	}
	list, err := in.s.x.decompress(frame[:f.ListFrameBytes], f.ItemsBytes)
	if err != nil {
		return err
	}
	if err := in.decode(list, f.RawBytes); err != nil {
		return err
	}
	dictionary, err := in.dictionary(f.DictionaryBytes)
	if err != nil {
		return err
	}
	raw, err := unpatch(list, frame[f.ListFrameBytes:], dictionary, f.RawBytes)
	if err != nil {
		return err
	}
	if err := in.checkPayloads(raw); err != nil {
		return err
	}
	in.frame, err = encodeFrame(raw)
	return err
}

// answeredBefore finds the answer that a batch was given already.
func (in *ingest) answeredBefore() error {
	var before answeredBatch
	ok, err := durable.ReadJSON(in.s.x.store, batchKey(in.held.rec.SID, &in.body), &before)
	if err == nil && ok && before.BatchID == in.manifest.ID {
		in.answered = &before
	}
	return err
}

// smallFrame is how many octets the encoder of small frames is for.
const smallFrame = 256 << 10

// smallEncoder is that of all small frames: its tables are taken once, and not for
// each page that a publisher edits. Two are at work at most; another waits.
var smallEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(smallFrame), zstd.WithZeroFrames(true))
})

// newFrameEncoder makes the encoder of frames that are put together here.
func newFrameEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxWindow), zstd.WithZeroFrames(true))
}

// encodeFrame makes one frame.
func encodeFrame(raw []byte) ([]byte, error) {
	if len(raw) <= smallFrame {
		encoder, err := smallEncoder()
		if err != nil {
			return nil, err
		}
		return encoder.EncodeAll(raw, nil), nil
	}
	encoder, err := newFrameEncoder()
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(raw, nil), encoder.Close()
}

// unpatch decompresses the payloads of a patch batch behind its list, into so many
// octets as were announced for both.
func unpatch(list, frame, dictionary []byte, size uint64) ([]byte, error) {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(max(size, maxWindow)),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderDictRaw(0, dictionary),
	)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return decompress(d, append(make([]byte, 0, size), list...), frame, size-uint64(len(list)))
}

// A base is one part of a dictionary, and where it lies.
type base struct {
	row catalogueRow
	at  uint64 // in the dictionary
}

// dictionary puts the held payloads of the items with a base together. They are
// read segment by segment, so that each is opened once, and one is in memory.
func (in *ingest) dictionary(size uint64) (_ []byte, err error) {
	snapshot, err := in.s.x.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	rec, err := readSeries(snapshot, in.held.rec.Publisher, in.held.rec.Series)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, refuse(grants.ErrNoGrant, "the series is gone")
	}
	bases, err := in.bases(snapshot, rec, size)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(bases, func(a, b base) int { return cmp.Compare(a.row.Segment, b.row.Segment) })
	dictionary := make([]byte, size)
	var frame []byte
	for i := range bases {
		b := &bases[i]
		if i == 0 || b.row.Segment != bases[i-1].row.Segment {
			if frame, err = in.s.x.frame(snapshot, rec, &b.row); err != nil {
				return nil, err
			}
		}
		payload, err := b.row.payload(frame)
		if err != nil {
			return nil, err
		}
		copy(dictionary[b.at:], payload)
	}
	return dictionary, nil
}

// bases finds the rows of a dictionary of size octets.
func (in *ingest) bases(r durable.Reader, rec *seriesRecord, size uint64) ([]base, error) {
	newest, bound, err := rec.pairs(r)
	if err != nil {
		return nil, err
	}
	keep, now := rec.keeping(newest, bound), in.s.x.latest().Unix()
	var all []base
	at := uint64(0)
	for i := range in.items {
		it := &in.items[i]
		if it.base == nil {
			continue
		}
		b := base{at: at}
		ok, err := readRow(r, sidKey('C', rec.SID, it.h[:]...), &b.row)
		if err != nil {
			return nil, err
		}
		if !ok || !b.row.Held || b.row.File != 0 || !bytes.HasPrefix(b.row.Digest[:], it.base) || keep.until(b.row.At) <= now {
			return nil, refuse(grants.ErrBase, "item %d: %s", i, it.url)
		}
		if b.row.Length > size-at {
			return nil, refuse(grants.ErrMalformed, "the bases are more than the %d octets of the dictionary", size)
		}
		at += b.row.Length
		all = append(all, b)
	}
	if at != size {
		return nil, refuse(grants.ErrMalformed, "the bases have %d octets, and the dictionary %d", at, size)
	}
	return all, nil
}
