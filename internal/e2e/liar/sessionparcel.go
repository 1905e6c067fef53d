package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// chunkBytes is the most that the pieces of a frame hold.
const chunkBytes = 1 << 20

// A change is one item of a batch; no payload is a deletion.
type change struct {
	url     string
	payload []byte
}

// put is a page as an honest publisher offers it.
func put(url string) change {
	// A document of valid text always encodes.
	payload, _ := tct.Encode(nil, tct.Document{URL: url, Title: "A page", Content: "Words at " + url})
	return change{url, payload}
}

// onePage is what an honest batch of an attack brings.
func onePage(s *series) []change { return []change{put(s.prefix + "new.html")} }

// A parcel is a batch; hooks change what they like.
type parcel struct {
	l       *liar
	s       *series
	changes []change
	header  envelope.Header
	body    translog.Manifest
	signer  *envelope.Signer
	items   oiv1.Items

	batch       *oiv1.Batch
	raw         []byte // what the frame holds
	frame       []byte
	chunks      int   // octets of a piece
	spoilt      error // of a hook
	interrupted bool  // begins a second batch in place of its pieces
}

// parcel is an honest batch on top of what the indexer holds.
func (l *liar) parcel(s *series, changes []change) (*parcel, error) {
	b := &parcel{l: l, s: s, changes: changes, signer: l.local.Envelope, chunks: chunkBytes}
	after := maps.Clone(s.pages)
	leaves := make([][32]byte, len(changes))
	for i, c := range changes {
		it := &oiv1.Item{Op: oiv1.Op_OP_TOMBSTONE, RevisionDelta: 1, Url: c.url}
		op, digest := translog.OpTombstone, [32]byte{}
		delete(after, urlHash(c.url))
		if c.payload != nil {
			op, digest = translog.OpPut, sha256.Sum256(c.payload)
			it.Op, it.Format, it.Length = oiv1.Op_OP_PUT, uint32(content.FormatTCT), uint64(len(c.payload))
			after[urlHash(c.url)] = state.Item{URLHash: urlHash(c.url), Digest: digest, Format: uint8(content.FormatTCT)}
		}
		if s.list != nil {
			if index, path, ok := s.list.Path([]byte(c.url)); ok {
				it.ScopeIndex, it.ScopePath = index, new(oiv1.Path)
				for _, h := range path {
					it.ScopePath.Hashes = append(it.ScopePath.Hashes, h[:])
				}
			}
		}
		b.items.Items = append(b.items.Items, it)
		leaves[i] = s.rel.LeafKey.Leaf(op, s.epoch, s.revision+uint64(i)+1, c.url, digest).Hash()
	}
	b.body = translog.Manifest{
		CollectionRef: s.rel.CollectionRef(), From: s.revision, GrantID: s.rel.Pair.Grant.Object.ID, JournalEpoch: s.epoch,
		Offered: translog.SetOf(leaves), Publisher: l.local.Name(), Through: s.revision + uint64(len(changes)),
	}
	var err error
	if b.body.StateBefore, err = rootOf(s.pages); err != nil {
		return nil, err
	}
	if b.body.StateAfter, err = rootOf(after); err != nil {
		return nil, err
	}
	b.header = envelope.Header{
		Type: envelope.BatchManifest, Authority: l.local.Name().Authority(), Subject: s.rel.Subject(l.local.Name()), Audience: l.indexer,
		Epoch: l.local.Epoch(envelope.UseEnvelope), IssuedAt: time.Now(),
	}
	return b, nil
}

// pack signs and compresses.
func (b *parcel) pack() error {
	b.header.Sequence = b.body.Through
	manifest, err := envelope.Sign(b.header, &b.body, b.signer)
	if err != nil {
		return err
	}
	raw, err := proto.Marshal(&b.items)
	if err != nil {
		return err
	}
	b.batch = &oiv1.Batch{Series: b.s.rel.Series, Manifest: manifest.Raw, ItemsBytes: uint64(len(raw))}
	for _, c := range b.changes {
		raw = append(raw, c.payload...)
	}
	return b.compress(raw)
}

// repack makes raw the content of the frame, so many octets of it items.
func (b *parcel) repack(raw []byte, items uint64) {
	b.batch.ItemsBytes = items
	b.spoilt = b.compress(raw)
}

// offer moves the items to the revisions behind from.
func (b *parcel) offer(from uint64) {
	leaves := make([][32]byte, len(b.changes))
	for i, c := range b.changes {
		leaves[i] = b.s.rel.LeafKey.Leaf(translog.OpPut, b.s.epoch, from+uint64(i)+1, c.url, sha256.Sum256(c.payload)).Hash()
	}
	b.body.Offered = translog.SetOf(leaves)
}

// compress makes raw the content of the frame.
func (b *parcel) compress(raw []byte) error {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return err
	}
	defer encoder.Close()
	b.raw, b.frame = raw, encoder.EncodeAll(raw, nil)
	b.batch.FrameBytes, b.batch.RawBytes = uint64(len(b.frame)), uint64(len(raw))
	return nil
}

// deliverOne sends the one batch of an attack.
func (c *line) deliverOne(a attack, s *series) error {
	changes := onePage(s)
	if a.changes != nil {
		changes = a.changes(s)
	}
	b, err := c.l.parcel(s, changes)
	if err != nil {
		return err
	}
	if a.batch != nil {
		a.batch(b)
	}
	if err := b.pack(); err != nil {
		return err
	}
	if a.packed != nil {
		a.packed(b)
	}
	if b.spoilt != nil {
		return b.spoilt
	}
	return c.deliver(b)
}

// deliver sends a packed batch. It returns nil if all of it was taken.
func (c *line) deliver(b *parcel) error {
	if err := c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}}); err != nil {
		return err
	}
	if b.interrupted {
		return c.deliver(&parcel{batch: b.batch, frame: b.frame, chunks: b.chunks})
	}
	for frame := b.frame; len(frame) > 0; {
		n := min(len(frame), b.chunks)
		if err := c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: frame[:n]}}}); err != nil {
			return err
		}
		frame = frame[n:]
	}
	return c.result()
}

// result receives the answer to a batch or rebind.
func (c *line) result() error {
	f, err := c.recv()
	for err == nil && f.GetCredit() != nil {
		f, err = c.recv() // of what was sent before
	}
	if err != nil {
		return err
	}
	r := f.GetBatchResult()
	switch {
	case r.GetRefused() != nil:
		return refused(r.Refused)
	case r.GetCommitted() == nil:
		return fmt.Errorf("no answer to the batch but %v", f)
	case len(r.Committed.Refusals) > 0:
		return told("excluded", r.Committed.Refusals[0].Reason, r.Committed.Refusals[0].Detail)
	}
	return nil
}
