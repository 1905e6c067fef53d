package indexer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxWindow is the largest zstd window that is accepted.
const maxWindow = 8 << 20

// itemBytes bounds the list of items of a frame, beside the payloads.
const itemBytes = 8 << 20

// newDecoder makes the decoder of frames. What a frame claims is checked
// before it is given to it; its own limits are the second wall.
func newDecoder(l Limits) (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(l.BatchBytes+itemBytes),
		zstd.WithDecodeAllCapLimit(true),
	)
}

// batch takes one batch from its header to its answer. Whatever is refused is
// answered by its reason, and the session goes on; only a broken stream or a
// fault of our own ends it.
func (s *session) batch(ctx context.Context, f *oiv1.Batch) (err error) {
	ctx, span := s.x.cfg.Trace.Start(ctx, "batch", "collection", s.collection(f.Series))
	span.Count("frame_bytes", int(f.FrameBytes))
	defer func() { span.End(outcome(err)) }()
	if f.Alone {
		return s.alone(ctx, f)
	}
	if err := errors.Join(s.x.cfg.Limits.checkSizes(f), checkPatch(f)); err != nil {
		return err
	}
	if r := s.overLimit(f); r != nil {
		return s.turnAway(ctx, f, r)
	}
	weight := s.x.cfg.Limits.weight(f)
	err = s.x.turn(ctx, s.peer.Card.Identity, f.RawBytes)
	if err == nil {
		err = s.reserve(ctx, weight)
	}
	if err != nil {
		if r := exhausted(err); r != nil {
			return s.turnAway(ctx, f, r)
		}
		return err
	}
	defer s.x.memory.Release(weight)
	if err := s.allow(ctx, f.FrameBytes); err != nil {
		return err
	}
	frame, err := s.frame(ctx, f)
	if err != nil {
		return err
	}
	in, err := s.commit(ctx, f, frame)
	if err == nil {
		s.noteBatch(in)
		return s.answer(ctx, f.Series, in.manifest.ID, in.answered)
	}
	r, ok := asRefusal(err)
	if !ok {
		return err
	}
	id := envelope.Hash{}
	if o, err := envelope.Parse(f.Manifest); err == nil {
		id = o.ID
	}
	return s.refuseBatch(ctx, f, id, r)
}

func (s *session) refuseBatch(ctx context.Context, f *oiv1.Batch, id envelope.Hash, r *refusal) error {
	s.x.log.Warn("batch refused", "publisher", s.peer.Card.Identity, "series", f.Series, "reason", string(r.reason), "detail", r.detail)
	s.x.noteRefusal("batch", string(r.reason), s.peer.Card.Identity, s.collection(f.Series))
	return s.link.Urgent(ctx, batchResult(&oiv1.BatchResult{
		Series: f.Series, BatchId: id[:], Refused: r.fault(),
	}))
}

// commit checks a batch whose frame is there, in its turn, and commits it.
func (s *session) commit(ctx context.Context, f *oiv1.Batch, frame []byte) (*ingest, error) {
	turn, cancel := s.x.patient(ctx)
	defer cancel()
	select {
	case s.x.slots <- struct{}{}:
		defer func() { <-s.x.slots }()
	case <-turn.Done():
		return nil, context.Cause(turn)
	}
	in, err := s.evaluated(ctx, f, frame)
	if err == nil {
		s.rising.batch(s.x.store, in.held.rec.SID, len(in.items))
		if err = s.x.committed(ctx, in); err == nil {
			s.x.removeFiles(in.replaced()...)
		}
	}
	return in, err
}

// evaluated is ingest, under a span of its own.
func (s *session) evaluated(ctx context.Context, f *oiv1.Batch, frame []byte) (in *ingest, err error) {
	_, span := s.x.cfg.Trace.Start(ctx, "evaluate")
	defer func() {
		if in != nil {
			span.Count("items", len(in.items))
		}
		span.End(outcome(err))
	}()
	return s.ingest(f, frame)
}

// committed has the log's writer commit a batch, under a span of its own.
func (x *Indexer) committed(ctx context.Context, in *ingest) error {
	ctx, span := x.cfg.Trace.Start(ctx, "commit")
	in.planAhead()
	err := x.tlog.Commit(ctx, in)
	span.Count("entries", len(in.sets))
	span.End(outcome(err))
	return err
}

// outcome is how something ended, in one word; empty if well.
func outcome(err error) string {
	if err == nil {
		return ""
	}
	if r, ok := asRefusal(err); ok {
		return string(r.reason)
	}
	return endOf(err)
}

func batchResult(r *oiv1.BatchResult) *oiv1.IndexerFrame {
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_BatchResult{BatchResult: r}}
}

// checkSizes judges a batch by what its header says, before anything of it is
// read or allocated.
func (l Limits) checkSizes(f *oiv1.Batch) error {
	switch {
	case f.RawBytes > l.BatchBytes+itemBytes, f.ItemsBytes > itemBytes, f.ItemsBytes > f.RawBytes:
		return refuse(grants.ErrOversize, "a frame of %d octets, %d of them items; at most %d", f.RawBytes, f.ItemsBytes, l.BatchBytes)
	case f.FrameBytes > l.BatchBytes+itemBytes:
		return refuse(grants.ErrOversize, "a compressed frame of %d octets, at most %d", f.FrameBytes, l.BatchBytes)
	}
	return nil
}

// frame puts the chunks of a batch together. What is held grows with what
// really comes.
func (s *session) frame(ctx context.Context, f *oiv1.Batch) ([]byte, error) {
	frame := make([]byte, 0, min(f.FrameBytes, uint64(s.x.cfg.Limits.ChunkBytes)))
	err := s.chunks(ctx, f, func(data []byte) { frame = append(frame, data...) })
	return frame, err
}

// chunks hands each chunk of a batch to take. All of them have to come within
// frameTimeout, and after the first minute at leastRate.
func (s *session) chunks(ctx context.Context, f *oiv1.Batch, take func(data []byte)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, frameTimeout, refuse(grants.ErrMalformed, "the frame did not come within %s", frameTimeout))
	defer cancel()
	l, began := s.x.cfg.Limits, time.Now()
	for left := f.FrameBytes; left > 0; {
		if err := drips(f.FrameBytes-left, time.Since(began)); err != nil {
			return err
		}
		next, err := s.recv(ctx, chunkTimeout)
		if err != nil {
			return err
		}
		data := next.GetChunk().GetData()
		switch {
		case next.GetChunk() == nil:
			return refuse(grants.ErrMalformed, "a frame of another kind within a batch")
		case len(data) == 0 || len(data) > int(l.ChunkBytes) || uint64(len(data)) > left:
			return refuse(grants.ErrOversize, "a chunk of %d octets", len(data))
		}
		take(data)
		left -= uint64(len(data))
	}
	return nil
}

// leastRate is how many octets of a frame have to come each second: a batch holds
// memory that others wait for.
const leastRate = 16 << 10

// drips refuses a frame of which so little has come in so long.
func drips(octets uint64, d time.Duration) error {
	if d < chunkTimeout || octets >= uint64(d.Seconds()*leastRate) {
		return nil
	}
	return refuse(grants.ErrMalformed, "%d octets in %s, at least %d a second have to come", octets, d.Round(time.Second), leastRate)
}

// tinyFrame is below what an encoder has to state the size of.
const tinyFrame = 256

// contentSize is what a frame's header says of its size. A tiny frame may say
// nothing; assume is then what it is taken to be.
func contentSize(h *zstd.Header, assume uint64) (uint64, bool) {
	if h.HasFCS {
		return h.FrameContentSize, true
	}
	return assume, assume <= tinyFrame
}

// decompress opens the frame into exactly as many octets as were announced.
func (x *Indexer) decompress(frame []byte, raw uint64) ([]byte, error) {
	return decompress(x.decoder, make([]byte, 0, raw), frame, raw)
}

// decompress appends what the frame holds to dst, which has room for it.
func decompress(d *zstd.Decoder, dst, frame []byte, raw uint64) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(frame); err != nil {
		return nil, refuse(grants.ErrMalformed, "frame: %v", err)
	}
	size, ok := contentSize(&h, raw)
	if !ok || size != raw || h.WindowSize > maxWindow || h.DictionaryID != 0 {
		return nil, refuse(grants.ErrMalformed, "the frame's header does not fit the batch")
	}
	out, err := d.DecodeAll(frame, dst)
	if err != nil {
		return nil, refuse(grants.ErrMalformed, "frame: %v", err)
	}
	if got := uint64(len(out) - len(dst)); got != raw {
		return nil, refuse(grants.ErrMalformed, "the frame holds %d octets, %d were announced", got, raw)
	}
	return out, nil
}

// ingest checks everything about a batch that does not depend on what else is
// committed, and prepares its proposal.
func (s *session) ingest(f *oiv1.Batch, frame []byte) (*ingest, error) {
	in, err := s.offered(f)
	if err != nil {
		return nil, err
	}
	if err := in.open(f, frame); err != nil || in.answered != nil {
		return in, err
	}
	if err := in.contentInScope(); err != nil {
		return nil, err
	}
	if got := translog.SetOf(in.leaves()); got != in.body.Offered {
		return nil, refuse(grants.ErrMalformed, "the items are not those that the manifest was signed for")
	}
	rec, err := readSeries(s.x.store, in.held.rec.Publisher, in.held.rec.Series)
	if err != nil {
		return nil, err
	}
	return in, in.sealFrame(rec.DataKey)
}

// choosePair finds the pair that the batch is offered under: the one that the
// session announced, or the one before it, while that still holds the state.
func (in *ingest) choosePair() error {
	in.pair = in.held.pair
	id := in.body.GrantID
	if id == in.pair.Grant.Object.ID {
		return nil
	}
	rec, err := readSeries(in.s.x.store, in.held.rec.Publisher, in.held.rec.Series)
	if err != nil {
		return err
	}
	if rec == nil || rec.Bound != id {
		return refuse(grants.ErrSuperseded, "the batch is under grant %s", id)
	}
	in.pair, err = pairOf(in.s.x.store, id)
	return err
}

// checkManifest binds the manifest to session, series and grant.
func (in *ingest) checkManifest() error {
	o, m, h := in.manifest, &in.body, in.held
	switch {
	case m.Publisher != in.s.peer.Card.Identity:
		return refuse(grants.ErrIssuer, "the manifest is %s's", m.Publisher)
	case o.Audience != in.s.x.local.Name():
		return refuse(grants.ErrAudience, "the manifest is for %s", o.Audience)
	case o.Subject != h.rec.subject(in.pair.Grant), o.Authority != m.Publisher.Authority(), o.Sequence != m.Through:
		return refuse(grants.ErrMalformed, "the manifest's envelope does not fit its body")
	case m.CollectionRef != h.rec.leafKey().CollectionRef(h.rec.Collection):
		return refuse(grants.ErrScope, "the manifest is for another collection")
	}
	return in.pair.Fresh(in.s.x.cfg.Now())
}

// decode reads the list of items, and where in the frame of so many octets the
// payload of each begins.
func (in *ingest) decode(raw []byte, total uint64) error {
	list, err := readItems(raw, int(in.s.x.cfg.Limits.BatchItems))
	if err != nil {
		return err
	}
	in.items = make([]item, len(list))
	seen := make(map[string]bool, len(list))
	revision, offset := in.base(), uint64(len(raw))
	for i, w := range list {
		if w == nil || w.RevisionDelta == 0 || w.RevisionDelta > in.body.Through-revision || w.Length > total-offset {
			return refuse(grants.ErrMalformed, "item %d: revision or length", i)
		}
		revision += w.RevisionDelta
		it := item{op: translog.Op(w.Op), revision: revision, url: w.Url, format: uint8(min(w.Format, 255)), modified: w.Modified, offset: offset, length: w.Length}
		err := errors.Join(it.takePath(w), it.takePatch(w))
		if err == nil {
			err = in.checkItem(&it)
		}
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		if seen[w.Url] {
			return refuse(grants.ErrMalformed, "item %d: a URL twice in one batch", i)
		}
		seen[w.Url] = true
		offset += w.Length
		in.items[i] = it
	}
	if offset != total {
		return refuse(grants.ErrMalformed, "%d octets behind the last payload", total-offset)
	}
	return nil
}

// checkItem refuses, with the whole batch, what an honest publisher never
// sends: a URL that is not canonical, or a page outside the scope.
func (in *ingest) checkItem(it *item) error {
	if it.op != translog.OpPut && it.op != translog.OpTombstone {
		return refuse(grants.ErrMalformed, "operation %d", it.op)
	}
	if err := content.IsCanonical(it.url); err != nil {
		return refuse(grants.ErrMalformed, "%v", err)
	}
	it.h = sha256.Sum256([]byte(it.url))
	if it.op == translog.OpTombstone {
		if it.length != 0 {
			return refuse(grants.ErrMalformed, "a deletion with a payload")
		}
		return nil // it needs a live grant of the series, not its scope
	}
	return in.inScope(it)
}

// checkPayloads computes digests and looks into each payload, on all cores. An
// item whose payload is malformed or too large is excluded alone.
func (in *ingest) checkPayloads(raw []byte) error {
	k := in.held.rec.leafKey()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	const stride = 64
	for lo := 0; lo < len(in.items); lo += stride {
		group.Go(func() error {
			maker := k.Maker()
			for i := lo; i < min(lo+stride, len(in.items)); i++ {
				it := &in.items[i]
				if it.op == translog.OpPut {
					payload := raw[it.offset : it.offset+it.length]
					it.digest = sha256.Sum256(payload)
					in.judge(it, payload)
				}
				it.leaf = maker.Hash(it.op, in.body.JournalEpoch, it.revision, it.url, it.digest)
			}
			return nil
		})
	}
	return group.Wait()
}

// judge excludes an item whose payload this indexer does not take.
func (in *ingest) judge(it *item, payload []byte) {
	l := in.s.x.cfg.Limits
	switch {
	case uint64(len(payload)) > l.PageBytes:
		it.reason, it.detail = grants.ErrOversize, fmt.Sprintf("%d octets", len(payload))
	case in.large == (largeName{}) && l.AloneBytes > 0 && uint64(len(payload)) > l.AloneBytes:
		it.reason, it.detail = grants.ErrOversize, fmt.Sprintf("%d octets; above %d a page travels alone", len(payload), l.AloneBytes)
	default:
		if err := checkPayload(content.Format(it.format), payload, it.url); err != nil {
			it.reason, it.detail = grants.ErrPayload, err.Error()
		}
	}
}

// sealFrame encrypts the frame under a data key of the series, for a segment
// number of its own.
func (in *ingest) sealFrame(generation uint32) error {
	rec := in.held.rec
	a, err := in.s.x.keys.aead(rec.Publisher, rec.Series, generation, true)
	if err != nil {
		return err
	}
	in.dataKey, in.segment = generation, in.s.x.segment.Add(1)
	in.sealed, err = seal(a, rec.Publisher, rec.Series, in.segment, in.frame)
	return err
}

// reseal seals the frame anew if a deletion has begun another data key since.
func (in *ingest) reseal() error {
	if in.dataKey == in.rec.DataKey {
		return nil
	}
	if in.large != (largeName{}) { // too much to be done again in the log's writer
		return &refusal{reason: grants.ErrExhausted, detail: "the series has another data key since", retryMS: retryDeletion}
	}
	return in.sealFrame(in.rec.DataKey)
}
