package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// largestPage is the largest payload that is offered, whatever an indexer says
// that it takes.
const largestPage = content.MaxPayload

// An alone is a page that is too large to share a batch. Its frame is made while
// it is sent, chunk by chunk, so that beside the payload no more is held than
// the encoder's window and the chunks that are queued: some 40 MiB
// (TestALargePageIsSentInBoundedMemory).
type alone struct {
	list    []byte // the one item
	payload []byte
}

// setAlone makes a draft of the one page that it offers.
func (d *drafter) setAlone(dr *draft, payload []byte) error {
	list, err := (proto.MarshalOptions{Deterministic: true}).Marshal(&dr.wire)
	if err != nil {
		return fmt.Errorf("batch of %s: %w", d.agreed.rel.Collection, err)
	}
	dr.alone = &alone{list, payload}
	dr.itemsBytes, dr.rawBytes = len(list), len(list)+len(payload)
	return nil
}

// take waits until no other page alone is in hand.
func (d *drafter) take(ctx context.Context) error {
	select {
	case d.one <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *drafter) giveBack() { <-d.one }

// sendAlone sends a page alone.
func (s *session) sendAlone(ctx context.Context, series string, manifest *envelope.Object, dr *draft) error {
	err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: &oiv1.Batch{
		Series: series, Manifest: manifest.Raw, Alone: true, ItemsBytes: uint64(dr.itemsBytes), RawBytes: uint64(dr.rawBytes),
		Request: dr.answers,
	}}})
	if err != nil {
		return err
	}
	out := &chunkWriter{ctx: ctx, s: s, size: s.chunkSize()}
	encoder, err := newEncoder(largestPage, 0, zstd.WithLowerEncoderMem(false)) // a page may be many windows long
	if err != nil {
		return err
	}
	defer encoder.Close()
	encoder.ResetContentSize(out, int64(dr.rawBytes))
	if err := dr.alone.encode(encoder); err != nil {
		return errors.Join(out.err, err)
	}
	return out.end()
}

func (a *alone) encode(encoder *zstd.Encoder) error {
	for _, part := range [][]byte{a.list, a.payload} {
		if _, err := encoder.Write(part); err != nil {
			return err
		}
	}
	return encoder.Close()
}

// A chunkWriter sends what is written to it in chunks of size octets. A chunk is
// sent when more is known to follow, so that end can mark the last one.
type chunkWriter struct {
	ctx  context.Context
	s    *session
	size int
	data []byte
	err  error
}

func (w *chunkWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 && w.err == nil {
		if len(w.data) == w.size {
			w.put(false)
			continue
		}
		if w.data == nil {
			w.data = make([]byte, 0, w.size) // a message is not changed once it is sent
		}
		m := min(len(b), w.size-len(w.data))
		w.data, b = append(w.data, b[:m]...), b[m:]
	}
	return n - len(b), w.err
}

func (w *chunkWriter) put(last bool) {
	w.err = w.s.sendChunks(w.ctx, w.data, last)
	w.data = nil
}

// end sends the last chunk.
func (w *chunkWriter) end() error {
	if w.err == nil {
		w.put(true)
	}
	return w.err
}
