package indexer

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// Bounds of the transport.
const (
	maxMessage = 1<<20 + 128<<10 // one chunk with its framing, or one announcement
	// window is how much of one connection may wait to be read. It is fixed, so
	// that no pings go with each message to measure the line; see Publisher.
	window = 1 << 20
	// readBuffer is that of a connection: none. TLS holds a record of its own, so that
	// one more saves no call of the system.
	readBuffer = 0
	// writeBuffer is what one call of the system takes. A connection has one only
	// while it writes.
	writeBuffer = 32 << 10
	heartbeat   = 20 * time.Second
	silence     = 42 * time.Second
)

// TLS is the configuration of the session endpoint: TLS 1.3 both ways, each
// peer looked up by its own identity, nothing resumed. Who is refused is logged,
// at most once a second behind the first ten, since anybody can knock.
func (x *Indexer) TLS() *tls.Config {
	c := identity.ServerConfig(x.local.Certificate, x.trust, identity.Publisher, x.cfg.Now)
	c.VerifyConnection = x.loudly(c.VerifyConnection)
	return c
}

// loudly is judge, whose refusals are logged.
func (x *Indexer) loudly(judge func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	told := rate.NewLimiter(rate.Every(time.Second), 10)
	return func(cs tls.ConnectionState) error {
		err := judge(cs)
		if err != nil {
			x.noteRefusal("connection", string(grants.ErrUnknownPeer), "", "")
		}
		if err != nil && told.Allow() {
			x.log.Warn("connection refused", "error", err)
		}
		return err
	}
}

// NewServer makes the gRPC server of sessions. More options may be given, such
// as interceptors.
func (x *Indexer) NewServer(more ...grpc.ServerOption) *grpc.Server {
	if h := x.cfg.Trace.Server(); h != nil {
		more = append(more, grpc.StatsHandler(h))
	}
	s := grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(newPerIdentity(credentials.NewTLS(x.TLS()), x.times.stuck)),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(4),
		grpc.ConnectionTimeout(x.times.handshake),
		grpc.StatsHandler(oneSession{}),
		grpc.WaitForHandlers(true),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(readBuffer),
		grpc.WriteBufferSize(writeBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: heartbeat, Timeout: 10 * time.Second, MaxConnectionIdle: x.times.idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}, more...)...)
	oiv1.RegisterOutboundIndexingServer(s, &service{x: x})
	return s
}

// Serve accepts sessions on l until ctx ends, and meanwhile keeps trust and
// certificate in step with their files. Then it asks the publishers to come
// back, lets what is in flight finish for at most 10 s (20 s while sessions go on
// ending), and ends what is left: within 28 s in all.
func (x *Indexer) Serve(ctx context.Context, s *grpc.Server, l net.Listener) error {
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		identity.Watch{Trust: x.trust, Local: x.local, Now: x.cfg.Now, Log: x.log, Changed: x.sessions.wakeAll}.Run(watching)
	})
	defer watch.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		told, atWork := x.sessions.drain(drainTime)
		x.log.Info("drained", "sessions", told, "at_work", atWork, "left", x.sessions.count())
		x.sessions.endAll(errShutdown)
		stopServer(s, told)
	})
	defer stop()
	err := s.Serve(netutil.LimitListener(l, maxConnections))
	if errors.Is(err, grpc.ErrServerStopped) || ctx.Err() != nil {
		return nil
	}
	return err
}

// stopServer closes the connections once what was sent on them is out, the reason
// of a refusal above all, and without waiting for more than flushTime, and flushEach
// for each of the sessions that there were.
func stopServer(s *grpc.Server, sessions int) {
	cut := time.AfterFunc(min(flushTime+time.Duration(sessions)*flushEach, flushMost), s.Stop)
	defer cut.Stop()
	s.GracefulStop()
}

// oneSession gives each connection a flag that its one session takes.
type oneSession struct{}

type connKey struct{}

func (oneSession) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connKey{}, new(atomic.Bool))
}
func (oneSession) HandleConn(context.Context, stats.ConnStats)                     {}
func (oneSession) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (oneSession) HandleRPC(context.Context, stats.RPCStats)                       {}

// takeConnection reports whether ctx's stream is the first session of its
// connection.
func takeConnection(ctx context.Context) bool {
	flag, ok := ctx.Value(connKey{}).(*atomic.Bool)
	return ok && flag.CompareAndSwap(false, true)
}

// toStatus is where errors meet gRPC codes. What is not listed is our own
// fault, and the peer learns no more than that.
func toStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errStuck):
		return status.Error(codes.ResourceExhausted, errStuck.Error())
	case errors.Is(err, link.ErrSilent):
		return status.Error(codes.DeadlineExceeded, link.ErrSilent.Error())
	case errors.Is(err, errFenced):
		return status.Error(codes.Aborted, errFenced.Error())
	case errors.Is(err, errShutdown):
		return status.Error(codes.Unavailable, errShutdown.Error())
	case errors.Is(err, ErrEnding):
		return status.Error(codes.Aborted, ErrEnding.Error())
	case errors.Is(err, errLapsed):
		return status.Error(codes.PermissionDenied, errLapsed.Error())
	case errors.Is(err, errRemoved):
		return status.Error(codes.PermissionDenied, errRemoved.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	if r := exhausted(err); r != nil {
		s := status.New(codes.ResourceExhausted, r.detail)
		if told, err := s.WithDetails(r.fault()); err == nil {
			s = told
		}
		return s.Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Internal, "internal error")
}
