package indexer

import (
	"context"
	"crypto/sha256"
	"io"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// How much may come for a page alone.
const (
	aloneItems = 64 << 10 // octets of the one item
	// A frame of what does not shrink is larger than that: by less than a
	// hundredth, and some octets.
	aloneSlack = 64 << 10
)

// aloneAtOnce is how many pages are received alone at once, over all sessions.
// Each holds its payload once, to look into it, and some 20 MiB to decompress
// and seal it, beside what batches may hold.
const aloneAtOnce = 2

// checkAlone judges the header of a page alone.
func (l Limits) checkAlone(f *oiv1.Batch) error {
	switch {
	case f.DictionaryBytes != 0, f.ListFrameBytes != 0:
		return refuse(grants.ErrMalformed, "a page alone is no patch")
	case f.FrameBytes != 0:
		return refuse(grants.ErrMalformed, "a page alone whose frame's length is known")
	case f.ItemsBytes == 0 || f.ItemsBytes > aloneItems || f.ItemsBytes > f.RawBytes:
		return refuse(grants.ErrOversize, "an item of %d octets, at most %d", f.ItemsBytes, aloneItems)
	case f.RawBytes-f.ItemsBytes > l.PageBytes:
		return refuse(grants.ErrOversize, "a page of %d octets, at most %d", f.RawBytes-f.ItemsBytes, l.PageBytes)
	case f.RawBytes-f.ItemsBytes <= l.AloneBytes:
		return refuse(grants.ErrMalformed, "a page of %d octets needs no batch alone", f.RawBytes-f.ItemsBytes)
	}
	return nil
}

// An aloneFrame reads the chunks of a page alone one behind the other, to the
// one that is marked as the last. It holds one chunk.
type aloneFrame struct {
	ctx  context.Context
	s    *session
	data []byte
	from time.Time // when it began
	came uint64    // octets
	left uint64    // octets that may still come
	last bool
	used uint64 // octets that were read since the last credit
	// broken is why no more can be read: the stream has ended, or the peer broke
	// the rules. Anything else that is wrong with a page is found by who reads it.
	broken error
}

func (f *aloneFrame) Read(b []byte) (int, error) {
	for len(f.data) == 0 {
		if f.broken != nil {
			return 0, f.broken
		}
		if f.last {
			return 0, io.EOF
		}
		f.broken = f.next()
	}
	n := copy(b, f.data)
	f.data = f.data[n:]
	return n, nil
}

func (f *aloneFrame) next() error {
	if err := drips(f.came, time.Since(f.from)); err != nil {
		return err
	}
	frame, err := f.s.recv(f.ctx, chunkTimeout)
	if err != nil {
		return err
	}
	c := frame.GetChunk()
	switch {
	case c == nil:
		return refuse(grants.ErrMalformed, "a frame of another kind within a batch")
	case len(c.Data) == 0 && !c.Last, len(c.Data) > int(f.s.x.cfg.Limits.ChunkBytes), uint64(len(c.Data)) > f.left:
		return refuse(grants.ErrOversize, "a chunk of %d octets", len(c.Data))
	}
	f.data, f.last = c.Data, c.Last
	f.left -= uint64(len(c.Data))
	f.came += uint64(len(c.Data))
	if f.used += uint64(len(c.Data)); f.used < aloneWindow/2 || f.last {
		return nil
	}
	octets := f.used
	f.used = 0
	return f.s.more(f.ctx, octets)
}

// alone takes a page that travels alone, from its header to its answer. The
// order of things: file, its sync and its folder's; then the commit that names
// it; then the answer.
func (s *session) alone(ctx context.Context, f *oiv1.Batch) error {
	if err := s.x.cfg.Limits.checkAlone(f); err != nil {
		return err
	}
	within, cancel := context.WithTimeoutCause(ctx, frameTimeout, refuse(grants.ErrMalformed, "the frame did not come within %s", frameTimeout))
	defer cancel()
	frame := &aloneFrame{ctx: within, s: s, left: f.RawBytes + f.RawBytes/100 + aloneSlack}
	in, err := s.takeAlone(ctx, f, frame)
	if in != nil {
		defer s.x.settleFile(in)
	}
	if err == nil {
		s.noteBatch(in)
		return s.answer(ctx, f.Series, in.manifest.ID, in.answered)
	}
	if frame.broken != nil {
		return frame.broken
	}
	if durable.IsFull(err) {
		err = &refusal{reason: grants.ErrExhausted, detail: "the disk is full", retryMS: retryFull}
	}
	r, ok := asRefusal(err)
	if !ok {
		return err
	}
	s.strays = true
	id := envelope.Hash{}
	if o, err := envelope.Parse(f.Manifest); err == nil {
		id = o.ID
	}
	return s.refuseBatch(ctx, f, id, r)
}

// takeAlone waits for its turn, stages the page, and commits it.
func (s *session) takeAlone(ctx context.Context, f *oiv1.Batch, frame *aloneFrame) (*ingest, error) {
	err := s.x.store.Room()
	if err == nil {
		err = s.x.turn(ctx, s.peer.Card.Identity, f.RawBytes)
	}
	if err != nil {
		return nil, err
	}
	turn, cancel := s.x.patient(ctx)
	defer cancel()
	select {
	case s.x.alone <- struct{}{}:
		defer func() { <-s.x.alone }()
	case <-turn.Done():
		return nil, context.Cause(turn)
	}
	// Nothing is staged for who has no right to send it.
	in, err := s.offered(f)
	if err != nil {
		return nil, err
	}
	if r := s.overLimit(f); r != nil {
		return nil, r
	}
	if err := s.more(ctx, aloneWindow); err != nil {
		return nil, err
	}
	frame.from = time.Now()
	payload, err := in.stage(f, frame)
	if err != nil {
		return in, err
	}
	select {
	case s.x.slots <- struct{}{}:
		defer func() { <-s.x.slots }()
	case <-ctx.Done():
		return in, context.Cause(ctx)
	}
	if err := in.checkAlone(payload); err != nil {
		return in, err
	}
	return in, s.x.committed(ctx, in)
}

// offered opens the manifest of a batch and binds it to session and grant.
func (s *session) offered(f *oiv1.Batch) (*ingest, error) {
	h := s.live[f.Series]
	if h == nil {
		return nil, refuse(grants.ErrNoGrant, "series %.80q was not announced in this session", f.Series)
	}
	in := &ingest{s: s, held: h}
	v := s.verifier()
	var err error
	in.manifest, err = envelope.Open(f.Manifest, &in.body, envelope.Expecting(envelope.BatchManifest, v.Keys, v.Now))
	if err != nil {
		return nil, err
	}
	if err := in.choosePair(); err != nil {
		return nil, err
	}
	if err := in.chooseList(); err != nil {
		return nil, err
	}
	if err := in.checkManifest(); err != nil {
		return in, err
	}
	return in, in.checkMode(f)
}

// stage decompresses the frame of a page alone as it comes, and seals it, as it
// came, in a file, which is durable on return.
func (in *ingest) stage(f *oiv1.Batch, frame *aloneFrame) (payload []byte, err error) {
	// What is written is known by its page, so the item comes first.
	head := &headReader{r: frame}
	d, err := newStreamDecoder(head)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list := make([]byte, f.ItemsBytes)
	if _, err := io.ReadFull(d, list); err != nil {
		return nil, refuse(grants.ErrMalformed, "frame: %v", err)
	}
	if err := in.decode(list, f.RawBytes); err != nil {
		return nil, err
	}
	if len(in.items) != 1 || in.items[0].op != translog.OpPut || in.items[0].base != nil {
		return nil, refuse(grants.ErrMalformed, "a page alone is one page")
	}
	if err := in.fitsAlone(); err != nil {
		return nil, err
	}
	seal, err := in.beginFile()
	if err != nil {
		return nil, err
	}
	if err := head.passOn(seal); err != nil {
		return nil, err
	}
	payload = make([]byte, f.RawBytes-f.ItemsBytes)
	_, err = io.ReadFull(d, payload)
	if err == nil {
		_, err = io.ReadFull(d, make([]byte, 1)) // the frame, and the last chunk, end here
	}
	switch {
	case head.failed != nil:
		return nil, head.failed
	case err == nil:
		return nil, refuse(grants.ErrMalformed, "the frame holds more than the %d octets that were announced", f.RawBytes)
	case err != io.EOF || frame.broken != nil || !frame.last:
		return nil, refuse(grants.ErrMalformed, "frame: %v", err)
	}
	if err := seal.Close(); err != nil {
		return nil, err
	}
	file := in.file
	in.file = nil // kept or removed, whatever Keep says
	return payload, file.Keep()
}

// maxHead bounds what of a frame may come before its items are known, in octets:
// an encoder's first blocks.
const maxHead = 1 << 20

// A headReader keeps what is read of r, until it is told where to pass it on.
type headReader struct {
	r      io.Reader
	head   []byte
	to     io.Writer
	failed error // of to
}

func (h *headReader) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	switch {
	case h.to == nil && len(h.head)+n > maxHead:
		h.failed = refuse(grants.ErrMalformed, "no items within the first %d octets of the frame", maxHead)
	case h.to == nil:
		h.head = append(h.head, b[:n]...)
	case h.failed == nil:
		_, h.failed = h.to.Write(b[:n])
	}
	if h.failed != nil {
		return n, h.failed
	}
	return n, err
}

func (h *headReader) passOn(to io.Writer) error {
	_, h.failed = to.Write(h.head)
	h.head, h.to = nil, to
	return h.failed
}

// beginFile leases and begins the file of the one item.
func (in *ingest) beginFile() (*largeWriter, error) {
	x, rec := in.s.x, in.held.rec
	now, err := readSeries(x.store, rec.Publisher, rec.Series)
	if err != nil {
		return nil, err
	}
	if now == nil {
		return nil, refuse(grants.ErrNoGrant, "the series is gone")
	}
	a, err := x.keys.aead(rec.Publisher, rec.Series, now.DataKey, true)
	if err != nil {
		return nil, err
	}
	in.dataKey = now.DataKey
	in.large = largeName{rec.SID, x.segment.Add(1), in.items[0].h}
	x.large.lease(in.large)
	if in.file, err = x.large.create(in.large); err != nil {
		return nil, err
	}
	return newLargeWriter(in.file, newLargeSeal(a, rec.Publisher, rec.Series, in.large.file))
}

// checkAlone looks into the payload, as checkPayloads does.
func (in *ingest) checkAlone(payload []byte) error {
	it := &in.items[0]
	it.digest = sha256.Sum256(payload)
	if err := in.contentInScope(); err != nil {
		return err
	}
	in.judge(it, payload)
	it.leaf = in.held.rec.leafKey().Leaf(it.op, in.body.JournalEpoch, it.revision, it.url, it.digest).Hash()
	if got := translog.SetOf(in.leaves()); got != in.body.Offered {
		return refuse(grants.ErrMalformed, "the items are not those that the manifest was signed for")
	}
	return nil
}

// settleFile ends the lease on the file of a batch whose commit is answered, or
// will never come, and removes what nothing names by then: that file, if it was
// for nothing, or the one that it took the place of.
func (x *Indexer) settleFile(in *ingest) {
	if in.large == (largeName{}) {
		return
	}
	if in.file != nil { // not finished
		if err := in.file.Drop(); err != nil {
			x.log.Error("file of a large page", "error", err)
		}
	}
	x.large.release(in.large)
	if x.tlog.Err() == nil { // else the next start knows what was committed
		x.removeFiles(append(in.replaced(), in.large)...)
	}
}
