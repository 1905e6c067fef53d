package publisher

import (
	"context"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// maxDictionary bounds the dictionary of a patch batch, in octets.
const maxDictionary = 8 << 20

// leastPatched is the length of a frame, in octets, below which a patch would save less
// than its two frames have around what differs.
const leastPatched = 256

// baseBytes is how much of the digest of its base an item names.
const baseBytes = 8

// featurePatch is said by an indexer that takes patch batches.
const featurePatch = "patch"

// A patch is the other form of a draft: the list of items in one frame, and the
// payloads in another, under a dictionary of what the indexer holds of the pages
// that changed. The manifest is the same for both forms, which is why a batch whose
// base is unknown is sent whole under the same identity.
type patch struct {
	frame      []byte // both frames
	listFrame  int    // octets of the first
	itemsBytes int
	dictionary int // octets
	rawBytes   int
	pages      int // that have a base
}

// newPatch makes the patch of items, bodies and bases, which stand side by side; a
// base that is nil is none. There is no patch if it has no base, or if it is not
// smaller than limit octets.
func newPatch(items []*oiv1.Item, bodies, bases [][]byte, limit int) (*patch, error) {
	octets, held := octetsOf(bodies), octetsOf(bases)
	if octets == 0 || held == 0 { // as for all that is new
		return nil, nil
	}
	p := new(patch)
	var list oiv1.Items
	dictionary, raw := make([]byte, 0, held), make([]byte, 0, octets)
	for i, it := range items {
		if bases[i] != nil {
			it = proto.CloneOf(it)
			it.Base = digestOf(bases[i])[:baseBytes]
			dictionary = append(dictionary, bases[i]...)
			p.pages++
		}
		list.Items = append(list.Items, it)
		raw = append(raw, bodies[i]...)
	}
	listed, err := (proto.MarshalOptions{Deterministic: true}).Marshal(&list)
	if err != nil {
		return nil, err
	}
	p.itemsBytes, p.dictionary, p.rawBytes = len(listed), len(dictionary), len(listed)+len(raw)
	if p.frame, err = encodeFrame(listed, nil); err != nil {
		return nil, err
	}
	p.listFrame = len(p.frame)
	payloads, err := encodeFrame(raw, dictionary)
	if err != nil {
		return nil, err
	}
	if p.frame = append(p.frame, payloads...); len(p.frame) >= limit {
		return nil, nil
	}
	return p, nil
}

func octetsOf(all [][]byte) (n int) {
	for _, b := range all {
		n += len(b)
	}
	return n
}

// encodeFrame compresses raw, under a dictionary if there is one.
func encodeFrame(raw, dictionary []byte) ([]byte, error) {
	var options []zstd.EOption
	switch {
	case dictionary != nil:
		options = append(options, zstd.WithEncoderDictRaw(0, dictionary))
	case len(raw) <= smallFrame:
		encoder, err := smallEncoder()
		if err != nil {
			return nil, err
		}
		return encoder.EncodeAll(raw, nil), nil
	}
	encoder, err := newEncoder(len(raw), len(dictionary), options...)
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(raw, nil), encoder.Close()
}

// patches reports whether the indexer takes patch batches, and this side keeps
// what they need.
func (s *session) patches() bool {
	return slices.Contains(s.welcome.Features, featurePatch) && s.p.patchBytes() > 0
}

// setPatch gives a draft its other form, if there is one and it is smaller.
func (d *drafter) setPatch(r durable.Reader, dr *draft) error {
	if !d.patches || len(dr.frame) < leastPatched {
		return nil
	}
	decoder, err := newBaseDecoder()
	if err != nil {
		return err
	}
	defer decoder.Close()
	bases, left := make([][]byte, len(dr.items)), maxDictionary
	for i, it := range dr.items {
		if it.held.IsZero() {
			continue
		}
		if bases[i], err = d.agreed.base(r, decoder, urlHash(it.URL), it.held); err != nil {
			return err
		}
		if len(bases[i]) > left {
			bases[i] = nil
		}
		left -= len(bases[i])
	}
	dr.patch, err = newPatch(dr.wire.Items, dr.bodies, bases, len(dr.frame))
	if err != nil {
		return fmt.Errorf("patch batch of %s: %w", d.agreed.rel.Collection, err)
	}
	return nil
}

// header is that of a draft in the form in which it is sent, and its frame.
func (dr *draft) header(series string, manifest *envelope.Object) (*oiv1.Batch, []byte) {
	b := &oiv1.Batch{Series: series, Manifest: manifest.Raw, Request: dr.answers}
	if p := dr.patch; p != nil {
		b.FrameBytes, b.ItemsBytes, b.RawBytes = uint64(len(p.frame)), uint64(p.itemsBytes), uint64(p.rawBytes)
		b.DictionaryBytes, b.ListFrameBytes = uint64(p.dictionary), uint64(p.listFrame)
		return b, p.frame
	}
	b.FrameBytes, b.ItemsBytes, b.RawBytes = uint64(len(dr.frame)), uint64(dr.itemsBytes), uint64(dr.rawBytes)
	return b, dr.frame
}

// exchange sends a draft and gives its answer. A patch whose base is unknown goes
// whole, under the same manifest; from then on all of the session does.
func (s *session) exchange(ctx context.Context, series string, manifest *envelope.Object, dr *draft) (*oiv1.BatchResult, error) {
	if s.whole {
		dr.patch = nil
	}
	for {
		if err := s.sendBatch(ctx, series, manifest, dr); err != nil {
			return nil, err
		}
		answer, err := s.result(ctx, series, manifest.ID)
		if err != nil || dr.patch == nil || answer.GetRefused().GetReason() != string(grants.ErrBase) {
			return answer, err
		}
		s.p.log.Warn("a patch was on what the indexer does not hold", "indexer", s.name(), "series", series, "detail", clean(answer.Refused.Detail))
		dr.patch, s.whole = nil, true
	}
}
