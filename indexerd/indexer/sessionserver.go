package indexer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// sessionVersion is what this edition speaks.
const sessionVersion = "uzpif-oi-session/1"

// exporterLabel names the TLS exporter that binds an announcement to its
// session.
const exporterLabel = "EXPORTER-uzpif-oi-announce-v1"

// queueIn is how many frames wait to be served. Of an honest publisher no more
// chunks are under way than that (credits are for whole chunks of it), so that
// reading goes on to what is behind them.
const queueIn = 24

// Times of a session.
const (
	helloTimeout = 15 * time.Second // for each of Hello and Announce
	chunkTimeout = 60 * time.Second // between two chunks of a batch
	frameTimeout = 10 * time.Minute // for all chunks of a batch
	watchEvery   = 2 * time.Second  // how often a session's right to live is checked
)

type service struct {
	oiv1.UnimplementedOutboundIndexingServer
	x *Indexer
}

type frames = link.Link[*oiv1.IndexerFrame, *oiv1.PublisherFrame]

// A session is one publisher's stream.
type session struct {
	x     *Indexer
	peer  *identity.Peer
	info  credentials.TLSInfo
	link  *frames
	self  *member
	nonce grants.Binding
	shown translog.Tree // the last tree that this session was shown
	live  map[string]*held

	// until is when certificate, key or card end, and judged the version of the
	// trust by which that was found. Both are owned by the lookout.
	until  time.Time
	judged uint64

	turn     context.Context // ends between two frames, see member.finish
	withdrew atomic.Bool     // the session brought a revocation
	probes   int             // that came; owned by run
	asks     *asker
	credit   *credit
	rising   rising
	strays   bool // chunks of a batch that is answered already may come; owned by run
}

// held is a series that this session announced.
type held struct {
	rec  *seriesRecord
	pair grants.Pair
}

// refusal is an error that the peer is told about by its reason.
type refusal struct {
	reason  grants.Reason
	detail  string
	retryMS uint32
}

func (r *refusal) Error() string { return string(r.reason) + ": " + r.detail }
func (r *refusal) Unwrap() error { return r.reason }

func (r *refusal) fault() *oiv1.Fault {
	return &oiv1.Fault{Reason: string(r.reason), Detail: r.detail, RetryMs: r.retryMS}
}

func refuse(reason grants.Reason, format string, args ...any) error {
	return &refusal{reason: reason, detail: fmt.Sprintf(format, args...)}
}

// asRefusal gives the refusal in err, if the peer may learn of it.
func asRefusal(err error) (*refusal, bool) {
	if r := exhausted(err); r != nil {
		return r, true
	}
	var r *refusal
	if errors.As(err, &r) {
		if told := *r; err != error(r) { // wrapped with what it is about
			told.detail = strings.Replace(err.Error(), r.Error(), r.detail, 1)
			return &told, true
		}
		return r, true
	}
	if reason := grants.ReasonOf(err); reason != "" {
		return &refusal{reason: reason, detail: err.Error()}, true
	}
	return nil, false
}

// refusalOf is the refusal of a grant, in the same words.
func refusalOf(series string, grant envelope.Hash, err error) grants.Refusal {
	told := grants.RefusalOf(series, grant, err)
	if r, ok := asRefusal(err); ok {
		told.Detail = r.detail
	}
	return told
}

// Session serves one stream.
func (s *service) Session(stream grpc.BidiStreamingServer[oiv1.PublisherFrame, oiv1.IndexerFrame]) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	credit, giveBack := s.x.newCredit()
	defer giveBack()
	ses, err := s.x.accept(ctx, stream, credit, cancel)
	if err != nil {
		return err
	}
	if err := s.x.call(ctx, ses.peer.Card.Identity); err != nil {
		return toStatus(err)
	}
	look := ses.watch()
	defer look.stop()
	ses.self.look = look.wake
	if err := s.x.sessions.join(ses.self); err != nil {
		return toStatus(err)
	}
	defer s.x.sessions.leave(ses.self)
	defer ses.rising.end()
	s.x.readers.Go(ses.link.Read)
	ses.link.Start(ctx)
	err = ses.run(ctx, look)
	ses.link.Close()
	ses.asks.stop()
	ses.forget()
	ses.written()
	s.x.log.Info("session ended", "publisher", ses.peer.Card.Identity, "error", err)
	return toStatus(err)
}

// accept finds out who is there. TLS has authenticated the peer; trust may
// have been withdrawn since.
func (x *Indexer) accept(ctx context.Context, stream grpc.BidiStreamingServer[oiv1.PublisherFrame, oiv1.IndexerFrame], credit *credit, cancel context.CancelCauseFunc) (*session, error) {
	pr, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no peer")
	}
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no TLS")
	}
	who, until, err := identity.VerifyPeer(info.State, x.trust, identity.Publisher, x.cfg.Now())
	if err != nil {
		x.log.Warn("session refused", "error", err)
		x.noteRefusal("session", string(grants.ErrUnknownPeer), "", "")
		return nil, status.Error(codes.PermissionDenied, string(grants.ErrUnknownPeer))
	}
	if !takeConnection(ctx) {
		return nil, status.Error(codes.FailedPrecondition, "there is one session on a connection")
	}
	s := &session{x: x, peer: who, info: info, until: until, credit: credit, live: make(map[string]*held), asks: newAsker()}
	s.self = &member{name: who.Card.Identity, end: cancel}
	s.self.ask, s.self.underWay = s.asks.nudge, s.asks.underWay
	s.turn, s.self.finish = context.WithCancelCause(ctx)
	s.self.send = func(f *oiv1.IndexerFrame) {
		ctx, cancel := context.WithTimeout(ctx, tellTimeout)
		defer cancel()
		// A session that does not take it is ending.
		_ = s.link.Urgent(ctx, f)
	}
	if _, err := rand.Read(s.nonce[:]); err != nil {
		return nil, toStatus(err)
	}
	s.link = link.New(stream, link.Options[*oiv1.IndexerFrame, *oiv1.PublisherFrame]{
		Beat: func() *oiv1.IndexerFrame {
			return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Heartbeat{Heartbeat: &oiv1.Heartbeat{Time: x.cfg.Now().Unix()}}}
		},
		IsBeat:    func(f *oiv1.PublisherFrame) bool { return f.GetHeartbeat() != nil },
		Admit:     credit.admit,
		Divert:    func(f *oiv1.PublisherFrame) (bool, error) { return s.overtake(ctx, f) },
		Heartbeat: heartbeat, Silence: x.times.silence, Queue: queueIn, Go: x.readers.Go,
	})
	return s, nil
}

// run is the life of a session. A refusal is told to the peer as a Fault.
func (s *session) run(ctx context.Context, look *lookout) error {
	err := s.serve(ctx)
	look.stop()
	s.x.pulse.ends.Add(endOf(cmp.Or(context.Cause(ctx), err)))
	if r, ok := asRefusal(err); ok {
		s.x.log.Warn("session refused", "publisher", s.peer.Card.Identity, "reason", string(r.reason), "detail", r.detail)
		s.x.noteRefusal("session", string(r.reason), s.peer.Card.Identity, "")
		if err := s.link.Urgent(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Fault{Fault: r.fault()}}); err != nil {
			return err
		}
		return nil
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, io.EOF), errors.Is(cause, context.Canceled):
		return nil // the publisher has said all, or hung up
	case cause != nil:
		return cause
	}
	return err
}

func (s *session) serve(ctx context.Context) error {
	hello, err := s.first(s.turn)
	if err != nil {
		return err
	}
	if hello.GetHello() == nil {
		return refuse(grants.ErrMalformed, "the first frame is Hello")
	}
	if err := s.greet(ctx, hello.GetHello()); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.self.ready.Store(true)
	s.x.pulse.begun.Add(1)
	if s.asksForContent() {
		s.ask(ctx)
	}
	for {
		f, err := s.next(s.turn)
		if err != nil {
			return err
		}
		if err := s.handle(ctx, f); err != nil {
			return err
		}
	}
}

// begin serves the second frame: an announcement, or, of a publisher that has
// no grant to announce, a revocation.
func (s *session) begin(ctx context.Context) error {
	f, err := s.first(s.turn)
	switch {
	case err != nil:
		return err
	case f.GetAnnounce() != nil:
		return s.announced(ctx, f.GetAnnounce())
	case f.GetRevocation() != nil:
		return s.revocation(ctx, f.GetRevocation())
	}
	return refuse(grants.ErrMalformed, "the second frame is Announce")
}

// first receives one of the two frames that begin the session.
func (s *session) first(ctx context.Context) (*oiv1.PublisherFrame, error) {
	ctx, cancel := limited(ctx, helloTimeout)
	defer cancel()
	return s.link.Recv(ctx)
}

// overtake serves a revocation as it comes, in the reading goroutine: a batch that
// is being worked on does not hold it up. It leaves everything else to the queue.
func (s *session) overtake(ctx context.Context, f *oiv1.PublisherFrame) (taken bool, err error) {
	if f.GetRevocation() == nil || !s.self.ready.Load() {
		return false, nil
	}
	return true, s.revocation(ctx, f.GetRevocation())
}

// next receives the next frame behind the announcement, unless ctx has ended.
func (s *session) next(ctx context.Context) (*oiv1.PublisherFrame, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.link.Recv(ctx)
}

// handle serves one frame of the running session.
func (s *session) handle(ctx context.Context, f *oiv1.PublisherFrame) error {
	s.self.serving.Store(true)
	defer s.self.serving.Store(false)
	if f.GetBatch() == nil && f.GetChunk() == nil && f.GetRevocation() == nil {
		if err := rest(ctx, s.x.pace(s.peer.Card.Identity).frames.Reserve().Delay()); err != nil {
			return err
		}
	}
	switch {
	case f.GetRevocation() != nil: // right behind the announcement, before that was answered
		return s.revocation(ctx, f.GetRevocation())
	case f.GetBatch() != nil:
		s.strays = false
		return s.batch(ctx, f.GetBatch())
	case f.GetChunk() != nil && s.strays:
		return nil // under way when its batch was answered
	case f.GetRebind() != nil:
		return s.rebind(ctx, f.GetRebind())
	case f.GetRangeRequest() != nil:
		return s.rangeRequest(ctx, f.GetRangeRequest())
	case f.GetFreshness() != nil:
		return s.freshness(ctx, f.GetFreshness())
	case f.GetContentAnswer() != nil:
		return s.contentAnswer(ctx, f.GetContentAnswer())
	case f.GetProbe() != nil:
		return s.probe(ctx, f.GetProbe())
	case f.GetReceiptRequest() != nil:
		return s.receiptRequest(ctx, f.GetReceiptRequest())
	case f.GetFault() != nil:
		s.x.log.Warn("fault from publisher", "publisher", s.peer.Card.Identity, "reason", f.GetFault().Reason, "detail", f.GetFault().Detail)
		return io.EOF
	}
	return refuse(grants.ErrMalformed, "a frame that has no place here")
}

// recv is the next frame, of a peer that is to go on within limit.
func (s *session) recv(ctx context.Context, limit time.Duration) (*oiv1.PublisherFrame, error) {
	ctx, cancel := limited(ctx, limit)
	defer cancel()
	return s.next(ctx)
}

func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, refuse(grants.ErrMalformed, "nothing came for %s", limit))
}

// greet answers Hello with Welcome.
func (s *session) greet(ctx context.Context, h *oiv1.Hello) error {
	spoken := false
	for i, v := range h.Versions {
		if i == 16 {
			break
		}
		spoken = spoken || v == sessionVersion
	}
	if !spoken {
		return refuse(grants.ErrVersion, "this indexer speaks %s", sessionVersion)
	}
	view := s.x.tlog.Released()
	w := &oiv1.Welcome{
		Version: sessionVersion, HeartbeatMs: uint32(heartbeat.Milliseconds()), Time: s.x.cfg.Now().Unix(),
		Nonce: s.nonce[:], Note: view.Note, Features: []string{grants.PackFeature, featurePatch},
		Limits: &oiv1.Limits{
			ChunkBytes: s.x.cfg.Limits.ChunkBytes, BatchItems: s.x.cfg.Limits.BatchItems,
			BatchBytes: s.x.cfg.Limits.BatchBytes, PageBytes: s.x.cfg.Limits.PageBytes, AloneBytes: s.x.cfg.Limits.AloneBytes,
			Signals:       maxSignals,
			InitialCredit: s.credit.initial,
		},
	}
	if bytes.Equal(h.Note, view.Note) {
		w.Note = nil // it has this very one
	} else if len(h.Note) > 0 {
		if err := s.prove(view, h.Note, w); err != nil {
			return err
		}
	}
	recs, err := seriesOf(s.x.store, s.peer.Card.Identity)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		seen := &oiv1.SeriesSeen{Series: rec.Series, Grant: wirePosition(rec.Grant), Policy: wirePosition(rec.Policy)}
		if !rec.Feed.ID.IsZero() {
			seen.Feed = wirePosition(rec.Feed)
		}
		w.Series = append(w.Series, seen)
	}
	s.shown = view.Tree
	return s.link.Send(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Welcome{Welcome: w}})
}

// prove shows in w that view goes on from the note that the publisher kept, of
// this log or of one before it.
func (s *session) prove(view translog.View, note []byte, w *oiv1.Welcome) error {
	log, err := s.x.logOf(note)
	if err != nil {
		return refuse(grants.ErrMalformed, "checkpoint note: %v", err)
	}
	if log != s.x.tlog {
		w.Consistency, w.Lineage, err = s.x.continued(view, log, note)
		return err
	}
	seen, err := translog.OpenNote(note, log.VerifierKey())
	if err != nil {
		return refuse(grants.ErrMalformed, "checkpoint note: %v", err)
	}
	if err := s.x.checkOwnNote(seen, note); err != nil {
		return err
	}
	path, err := view.Consistency(seen.Size)
	w.Consistency = rawHashes(path)
	return err
}

func wirePosition(p envelope.Position) *oiv1.Position {
	return &oiv1.Position{Epoch: p.Epoch, Sequence: p.Sequence, ObjectId: p.ID[:]}
}

func rawHashes(path [][32]byte) [][]byte {
	raw := make([][]byte, len(path))
	for i := range path {
		raw[i] = path[i][:]
	}
	return raw
}
