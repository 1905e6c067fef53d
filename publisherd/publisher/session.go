package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	"github.com/uzpif-oi/uzpif-oi/internal/tracing"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// sessionVersion is what this edition speaks.
const sessionVersion = "uzpif-oi-session/1"

// Times of a session.
const (
	dialTimeout  = 20 * time.Second
	replyTimeout = 2 * time.Minute // for one answer of the indexer
	heartbeat    = 20 * time.Second
	silence      = 42 * time.Second
)

// replyTime is how long one answer of an indexer may take.
func (p *Publisher) replyTime() time.Duration {
	return cmp.Or(time.Duration(p.reply.Load()), replyTimeout)
}

// window is how much an indexer may send ahead of its being read. It is fixed:
// gRPC would measure the line else, by a ping and its answer with each message,
// and those would be most of what a session costs in which nothing has changed.
const window = 1 << 20

// maxMessage is the largest message accepted from an indexer.
const maxMessage = 4 << 20

// ErrUnavailable is returned when the indexer cannot be reached.
var ErrUnavailable = errors.New("the indexer cannot be reached")

// ErrNoAnswer is returned when the indexer lets the time for an answer pass.
var ErrNoAnswer = errors.New("the indexer did not answer in time")

// Refused is what the other side, or this side on its owner's behalf, does not
// allow. Reason is one of the codes of package grants.
type Refused struct {
	Reason  grants.Reason
	Detail  string
	RetryMS uint32 // when not 0: how long to wait before trying again

	ended bool // it ended the session, and is not about what was sent last
}

func (r *Refused) Error() string {
	if r.Detail == "" {
		return "refused (" + string(r.Reason) + "): " + r.Reason.Error()
	}
	return "refused (" + string(r.Reason) + "): " + r.Detail
}

func (r *Refused) Unwrap() error { return r.Reason }

// refusedBy is a refusal that the indexer sent.
func refusedBy(f *oiv1.Fault) error {
	return &Refused{Reason: grants.Reason(clean(f.Reason)), Detail: clean(f.Detail), RetryMS: f.RetryMs}
}

// endedBy is refusedBy of a fault that ended the session.
func endedBy(f *oiv1.Fault) error {
	return &Refused{Reason: grants.Reason(clean(f.Reason)), Detail: clean(f.Detail), RetryMS: f.RetryMs, ended: true}
}

// ErrProtocol is returned when the indexer says what the protocol does not
// allow, or what its own log contradicts.
var ErrProtocol = errors.New("the indexer broke the protocol")

// ErrDraining is returned when the indexer is shutting down.
var ErrDraining = errors.New("the indexer is shutting down")

type frames = link.Link[*oiv1.PublisherFrame, *oiv1.IndexerFrame]

// A session is one stream to one indexer.
type session struct {
	p       *Publisher
	peer    *identity.Peer
	rels    []*Relationship
	conn    *grpc.ClientConn
	wire    *counter
	link    *frames
	ended   chan struct{} // the writing goroutine has ended
	cancel  context.CancelCauseFunc
	watched sync.WaitGroup
	anew    chan struct{}         // closed when another session is to take its place
	lost    atomic.Pointer[error] // why watch has ended it
	welcome *oiv1.Welcome
	tree    translog.Tree // the newest verified tree of the indexer's log
	note    []byte
	held    map[string]*oiv1.CollectionState // by series
	reach   uint64                           // the head that the push under way is to reach
	refused map[string]error                 // series that the indexer did not admit
	credit  uint64                           // of the batch under way, in octets
	early   *oiv1.BatchResult                // its answer, if it came before all was sent
	fewer   atomic.Uint32                    // the most items of a batch while others deliver as well; 0: they do not
	poison  int                              // pages that were found to be refused with every batch
	whole   bool                             // no patches any more: a base was unknown
	partly  bool                             // what is pushed is still being scanned
	first   firstPush                        // of a collection that was
	told    bool                             // the indexer said by itself that a deletion is done
	span    tracing.Span                     // of the whole session
	traced  context.Context                  // carries span, and is used for nothing else
	probing probing
	asking  asking

	compared chan struct{}      // closed when the first comparison with the public log is done
	hurry    context.CancelFunc // ends it
}

// dial opens a session to an indexer and brings it to the point where batches
// may be sent: hello, welcome, announcement, result. Nothing about the
// publisher's pages is said before the indexer's identity and its log's
// consistency are verified.
//
// An announcement is refused whole. If it is for some of its series only, the
// others are announced on a new stream, and the session remembers what was said
// of those that were left out.
func (p *Publisher) dial(ctx context.Context, rels []*Relationship) (*session, error) {
	s, err := p.dialOnce(ctx, rels)
	err = p.judged(rels, err)
	var refused *announcementRefused
	if !errors.As(err, &refused) {
		return s, err
	}
	var rest []*Relationship
	for _, r := range rels {
		if refused.series[r.Series] == nil {
			rest = append(rest, r)
		}
	}
	if len(rest) == 0 || len(rest) == len(rels) {
		return nil, err
	}
	for series, why := range refused.series {
		p.log.Info("series refused", "indexer", rels[0].Indexer, "series", series, "error", why)
	}
	if s, err = p.dialOnce(ctx, rest); err != nil {
		return nil, p.judged(rest, err)
	}
	s.refused = refused.series
	return s, nil
}

func (p *Publisher) dialOnce(ctx context.Context, rels []*Relationship) (_ *session, err error) {
	if err := p.checkClock(); err != nil {
		return nil, err
	}
	who, ok := p.trust.Lookup(rels[0].Indexer)
	if !ok {
		return nil, &Refused{Reason: grants.ErrUnknownPeer, Detail: "import its card with trust add"}
	}
	if err := p.presentable(); err != nil {
		return nil, err
	}
	s := &session{p: p, peer: who, rels: rels, wire: new(counter), ended: make(chan struct{}), anew: make(chan struct{}), held: make(map[string]*oiv1.CollectionState), reach: math.MaxUint64}
	if s.tree, s.note, err = p.logTree(who.Card.Identity); err != nil {
		return nil, err
	}
	if err := p.recheck(ctx, who, s.tree, s.note); err != nil {
		return nil, err
	}
	var hs *handshake
	if s.conn, hs, err = p.connect(who, s.wire); err != nil {
		return nil, err
	}
	ctx, s.span = p.trace.Start(ctx, "session", "indexer", string(who.Card.Identity))
	s.traced = ctx
	ctx, s.cancel = context.WithCancelCause(ctx)
	s.watched.Go(func() { s.watch(ctx, hs) })
	stream, err := s.open(ctx)
	if err == nil {
		err = s.begin(ctx, stream)
	}
	if err != nil {
		err = hs.explain(err)
		s.close()
		return nil, err
	}
	return s, nil
}

// connect prepares a connection to an indexer, whose octets wire counts.
// Nothing is dialled before the first call on it.
func (p *Publisher) connect(who *identity.Peer, wire *counter) (*grpc.ClientConn, *handshake, error) {
	hs := &handshake{wire: wire}
	hs.TransportCredentials = credentials.NewTLS(identity.ClientConfig(hs.certificate(p.local), p.trust, identity.Indexer, who.Card.Identity, p.now))
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(hs),
		grpc.WithContextDialer(p.dialing(wire, hs)),
		grpc.WithUserAgent("publisherd"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: grpcbackoff.DefaultConfig, MinConnectTimeout: min(dialTimeout, p.replyTime())}),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: heartbeat, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}
	if h := p.trace.Client(); h != nil {
		options = append(options, grpc.WithStatsHandler(h))
	}
	conn, err := grpc.NewClient("passthrough:///"+who.Address(), options...)
	return conn, hs, err
}

// dialing opens connections whose octets wire counts, those to a proxy included.
// gRPC reports a proxy's refusal only as text, so hs keeps it.
func (p *Publisher) dialing(wire *counter, hs *handshake) func(context.Context, string) (net.Conn, error) {
	d := link.Dialer{Proxy: p.proxy, Authorization: p.proxyCredential, Wrap: wire.counted}
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := d.Dial(ctx, address)
		if errors.Is(err, link.ErrProxy) {
			hs.err.Store(&err)
		}
		return conn, err
	}
}

// open starts the stream and its two goroutines.
func (s *session) open(ctx context.Context) (grpc.ClientStream, error) {
	stream, err := oiv1.NewOutboundIndexingClient(s.conn).Session(ctx)
	if err != nil {
		close(s.ended)
		return nil, fmt.Errorf("%w: %s at %s: %w", ErrUnavailable, s.name(), s.peer.Address(), err)
	}
	s.link = link.New(stream, link.Options[*oiv1.PublisherFrame, *oiv1.IndexerFrame]{
		Beat: func() *oiv1.PublisherFrame {
			return &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Heartbeat{Heartbeat: &oiv1.Heartbeat{Time: s.p.now().Unix()}}}
		},
		IsBeat:    func(f *oiv1.IndexerFrame) bool { return f.GetHeartbeat() != nil },
		Heartbeat: heartbeat, Silence: silence,
	})
	s.p.goroutines.Go(s.link.Read)
	go func() {
		defer close(s.ended)
		s.link.Write(ctx)
		stream.CloseSend()
	}()
	return stream, nil
}

// next returns the indexer's next frame within the reply time; a Fault becomes
// a Refused, and a Drain is an error that says to come back.
func (s *session) next(ctx context.Context) (*oiv1.IndexerFrame, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.p.replyTime(), fmt.Errorf("%w: %s, within %s", ErrNoAnswer, s.name(), s.p.replyTime()))
	defer cancel()
	f, err := s.link.Recv(ctx)
	for err == nil && s.byItself(f) {
		if err = s.asking.violated; err == nil {
			f, err = s.link.Recv(ctx)
		}
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	s.wire.heard()
	if x := f.GetFault(); x != nil {
		return nil, endedBy(x)
	}
	if x := f.GetDrain(); x != nil {
		return nil, &Draining{time.Duration(x.ComeBackMs) * time.Millisecond}
	}
	return f, nil
}

// explain tells a broken stream from an end that this side wanted.
func (s *session) explain(ctx context.Context, err error) error {
	if lost := s.lost.Load(); lost != nil {
		return *lost
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: session with %s: %w", ErrUnavailable, s.name(), err)
}

// begin exchanges the frames that come before any batch.
func (s *session) begin(ctx context.Context, stream grpc.ClientStream) error {
	hello := &oiv1.Hello{Versions: []string{sessionVersion}, Note: s.note}
	if err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: hello}}); err != nil {
		return err
	}
	f, err := s.next(ctx)
	if err != nil {
		return err
	}
	if s.welcome = f.GetWelcome(); s.welcome == nil {
		return s.violation("no welcome")
	}
	if len(s.welcome.Note) == 0 { // it is the one that was shown
		s.welcome.Note = s.note
	}
	if err := s.checkWelcome(); err != nil {
		return err
	}
	s.compareLog(ctx)
	exporter, err := exporterOf(stream.Context())
	if err != nil {
		return err
	}
	return s.announce(ctx, exporter)
}

func (s *session) send(ctx context.Context, f *oiv1.PublisherFrame) error {
	if err := s.link.Send(ctx, f); err != nil {
		return s.explain(ctx, err)
	}
	s.wire.spoken.Store(true)
	return nil
}

// violation is an answer that the protocol does not allow.
func (s *session) violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrProtocol, s.name(), fmt.Sprintf(format, args...))
}

func (s *session) name() envelope.Name { return s.peer.Card.Identity }

// checkWelcome verifies version, limits and the log's continuity.
func (s *session) checkWelcome() error {
	w := s.welcome
	switch {
	case w.Version != sessionVersion:
		return &Refused{Reason: grants.ErrVersion, Detail: fmt.Sprintf("the indexer speaks %.40q", w.Version)}
	case len(w.Nonce) != 32:
		return s.violation("a nonce of %d octets", len(w.Nonce))
	case w.Limits == nil || w.Limits.ChunkBytes < 1024 || w.Limits.BatchItems == 0 || w.Limits.BatchBytes < 64<<10 || w.Limits.PageBytes == 0 || w.Limits.InitialCredit < leastCredit:
		return s.violation("limits that no batch can keep")
	}
	path, err := hashes(w.Consistency)
	if err != nil {
		return s.violation("consistency proof: %v", err)
	}
	if log, err := logOf(s.peer, w.Note); err != nil {
		return err
	} else if log != s.peer.Card.Log {
		return s.violation("its log is %.80q still, and its card names %q", log.Origin, s.peer.Card.Log.Origin)
	}
	if s.tree.Origin != "" && s.tree.Origin != s.peer.Card.Log.Origin {
		return s.continueLog(evaluate.Continuation{Note: w.Note, Checkpoints: w.Lineage, Consistency: path})
	}
	tree, err := evaluate.Grow(s.tree, w.Note, s.peer.Card.Log.VKey, s.peer.Card.Log.Origin, path)
	if err != nil {
		return s.violation("its log does not continue the one that was seen before: %v", err)
	}
	if own, err := translog.OpenNote(w.Note, s.peer.Card.Log.VKey); err != nil || own != tree {
		return s.violation("its log has fewer entries than the %d when it was last seen", s.tree.Size)
	}
	s.tree, s.note = tree, w.Note
	s.p.pulse.peer(s.name()).seen(s.p.now())
	return s.p.setLogTree(s.name(), w.Note)
}

func hashes(raw [][]byte) ([][32]byte, error) {
	if len(raw) > 128 {
		return nil, fmt.Errorf("%d hashes", len(raw))
	}
	out := make([][32]byte, len(raw))
	for i, b := range raw {
		if len(b) != 32 {
			return nil, fmt.Errorf("a hash of %d octets", len(b))
		}
		out[i] = [32]byte(b)
	}
	return out, nil
}

// exporterLabel names the TLS exporter that binds an announcement to its
// session.
const exporterLabel = "EXPORTER-uzpif-oi-announce-v1"

// exporterOf reads the exporter from the connection of this very stream.
func exporterOf(ctx context.Context) ([32]byte, error) {
	var out [32]byte
	pr, ok := peer.FromContext(ctx)
	if !ok {
		return out, errors.New("the stream has no peer")
	}
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return out, errors.New("the stream is not under TLS")
	}
	b, err := info.State.ExportKeyingMaterial(exporterLabel, nil, len(out))
	if err != nil {
		return out, fmt.Errorf("TLS exporter: %w", err)
	}
	copy(out[:], b)
	return out, nil
}
