package indexer

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// Bounds of the feed's transport.
const (
	feedRequest = 4 << 10 // octets of one request
	feedCalls   = 40      // at once on one connection: as many as a consumer has purposes, and some
)

// errSlow ends a stream whose consumer takes nothing.
var errSlow = errors.New("the consumer took nothing for too long")

// NewFeedServer makes the gRPC server of the feed. It accepts consumers alone, over
// TLS 1.3, each recognised by its own record.
func (x *Indexer) NewFeedServer() *grpc.Server {
	c := x.feed.consumers.ServerConfig(x.local.Certificate, x.cfg.Now)
	c.VerifyConnection = x.loudly(c.VerifyConnection)
	s := grpc.NewServer(
		grpc.Creds(newPerIdentity(credentials.NewTLS(c), x.times.stuck)),
		grpc.MaxRecvMsgSize(feedRequest),
		grpc.MaxConcurrentStreams(feedCalls),
		grpc.ConnectionTimeout(x.times.handshake),
		grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: heartbeat, Timeout: 10 * time.Second, MaxConnectionIdle: x.times.idle}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	oiv1.RegisterFeedServer(s, &feedService{x: x})
	return s
}

// ServeFeed accepts consumers on l until ctx ends, and then ends their streams.
func (x *Indexer) ServeFeed(ctx context.Context, s *grpc.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		x.feed.endAll(errShutdown)
		stopServer(s, 0)
	})
	defer stop()
	err := s.Serve(netutil.LimitListener(l, maxConnections))
	if errors.Is(err, grpc.ErrServerStopped) || ctx.Err() != nil {
		return nil
	}
	return err
}

// feedService is the wire's side of the feed.
type feedService struct {
	oiv1.UnimplementedFeedServer
	x *Indexer
}

// consumer finds out who calls, at this moment.
func (f *feedService) consumer(ctx context.Context) (*identity.Consumer, credentials.TLSInfo, error) {
	pr, ok := peer.FromContext(ctx)
	if !ok {
		return nil, credentials.TLSInfo{}, status.Error(codes.Unauthenticated, "no peer")
	}
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, info, status.Error(codes.Unauthenticated, "no TLS")
	}
	c, until, err := f.x.feed.consumers.Verify(info.State, f.x.cfg.Now())
	if err == nil && !f.x.cfg.Now().Before(until) {
		err = errLapsed
	}
	if err != nil {
		return nil, info, refuse(grants.ErrUnknownPeer, "%s", err)
	}
	return c, info, nil
}

// listenerOf is a consumer for one of its purposes.
func listenerOf(c *identity.Consumer, purpose string) (listener, error) {
	p, err := grants.ParsePurpose(purpose)
	if err != nil {
		return listener{}, err
	}
	l := listener{c.Identity, p, c.ThirdParty, c.AddedAt.Unix()}
	if slices.Contains(c.Purposes, purpose) {
		return l, nil
	}
	err = refuse(grants.ErrPurpose, "%s may not read for %s", c.Identity, purpose)
	if slices.Contains(c.Former, purpose) {
		return l, &formerError{err}
	}
	return listener{}, err
}

// A formerError refuses a consumer a purpose that it had: it is told to drop what it
// was handed, and may say that this is done.
type formerError struct{ error }

func (f *formerError) Unwrap() error { return f.error }

func isFormer(err error) bool { return errors.As(err, new(*formerError)) }

// Subscribe serves one stream.
func (f *feedService) Subscribe(q *oiv1.SubscribeRequest, stream grpc.ServerStreamingServer[oiv1.FeedItem]) error {
	c, info, err := f.consumer(stream.Context())
	if err != nil {
		return feedStatus(err)
	}
	l, err := listenerOf(c, q.GetPurpose())
	if err != nil {
		f.x.feed.refused.Add(1)
	}
	if err != nil && !isFormer(err) {
		return feedStatus(err)
	}
	out := &feedStream{stream: stream}
	s := f.x.subscription(stream.Context(), l, out.send)
	if err := f.x.feed.join(s); err != nil {
		return feedStatus(err)
	}
	if why, ok := asRefusal(err); ok {
		defer f.x.feed.leave(s)
		return feedStatus(s.farewell(why))
	}
	done := make(chan error, 1)
	// The goroutine ends with the stream: a Send that waits fails as soon as this
	// function has returned.
	f.x.readers.Go(func() {
		defer f.x.feed.leave(s)
		done <- s.run(q.GetCursor(), true)
	})
	err = f.watch(s, out, info, done)
	s.end(err)
	f.x.log.Info("feed ended", "consumer", l.name, "purpose", l.purpose, "error", err)
	return feedStatus(err)
}

// watch waits for the end of a stream, and meanwhile looks who its consumer is, and
// whether it takes what it is told.
func (f *feedService) watch(s *subscription, out *feedStream, info credentials.TLSInfo, done <-chan error) error {
	tick := time.NewTicker(feedLook)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-s.ctx.Done(): // by a newer stream, the end of the indexer, or its consumer
			return context.Cause(s.ctx)
		case <-tick.C:
		}
		if since := out.since.Load(); since != 0 && time.Since(time.Unix(0, since)) > feedStuck {
			f.x.feed.slow.Add(1)
			return errSlow
		}
		if why := f.standing(s.l, info); why != nil && s.lost.CompareAndSwap(nil, why) {
			s.woken <- struct{}{} // once: there is room for it
		}
	}
}

// standing is why a listener is none any more: its record is gone, lacks the
// purpose, or says something else of it; or its certificate has ended.
func (f *feedService) standing(l listener, info credentials.TLSInfo) *refusal {
	now := f.x.cfg.Now()
	c, until, err := f.x.feed.consumers.Verify(info.State, now)
	if err != nil || !now.Before(until) {
		return &refusal{reason: grants.ErrUnknownPeer, detail: "the consumer is not known any more, or its certificate has ended"}
	}
	again, err := listenerOf(c, string(l.purpose))
	if err != nil || again != l {
		return &refusal{reason: grants.ErrPurpose, detail: "the consumer may not read for this purpose any more, or on other terms"}
	}
	return nil
}

// A feedStream sends items as messages.
type feedStream struct {
	stream grpc.ServerStreamingServer[oiv1.FeedItem]
	since  atomic.Int64 // when the message was begun that is being sent, in Unix nanoseconds; 0: none is
}

func (o *feedStream) message(m *oiv1.FeedItem) error {
	o.since.Store(time.Now().UnixNano())
	defer o.since.Store(0)
	return o.stream.Send(m)
}

// send sends an item, and the payload of a put in pieces behind it.
func (o *feedStream) send(it *FeedItem) error {
	m := wireFeedItem(it)
	if it.Op != FeedPut || len(it.Page.Payload) == 0 {
		return o.message(m)
	}
	cursor, rest := m.Cursor, it.Page.Payload
	m.Cursor = nil
	if err := o.message(m); err != nil {
		return err
	}
	for len(rest) > 0 {
		if it.watch != nil {
			// What has ended can not be told within a payload: the stream ends, and who
			// comes again is told.
			if err := it.watch.Look(); err != nil {
				return err
			}
		}
		n := min(len(rest), feedPiece)
		piece := &oiv1.FeedItem{Item: &oiv1.FeedItem_Piece{Piece: &oiv1.FeedPiece{Data: rest[:n]}}}
		if rest = rest[n:]; len(rest) == 0 {
			piece.Cursor = cursor
		}
		if err := o.message(piece); err != nil {
			return err
		}
	}
	return nil
}

// Purged takes down what a consumer says to have dropped.
func (f *feedService) Purged(ctx context.Context, q *oiv1.PurgedRequest) (*oiv1.PurgedAnswer, error) {
	c, _, err := f.consumer(ctx)
	if err != nil {
		return nil, feedStatus(err)
	}
	l, err := listenerOf(c, q.GetPurpose())
	if err != nil && !isFormer(err) {
		return nil, feedStatus(err)
	}
	at, err := f.x.purged(l, q.GetCursor())
	if err != nil {
		return nil, feedStatus(err)
	}
	return &oiv1.PurgedAnswer{Recorded: seconds(at)}, nil
}

// purged makes durable that a listener has dropped what it was to drop, up to a
// cursor that it was given.
func (x *Indexer) purged(l listener, cursor []byte) (at envelope.Time, err error) {
	x.feed.purgedMu.Lock()
	defer x.feed.purgedMu.Unlock()
	p, err := x.feed.open(x.store, l, cursor, true)
	if err != nil {
		return at, err
	}
	return x.writePurged(l, p.number)
}

// feedStatus is toStatus for the feed, whose refusals end a call.
func feedStatus(err error) error {
	r, ok := asRefusal(err)
	if err == nil || !ok || exhausted(err) != nil {
		if errors.Is(err, errSlow) {
			return status.Error(codes.ResourceExhausted, errSlow.Error())
		}
		return toStatus(err)
	}
	code := codes.PermissionDenied
	if r.reason == grants.ErrCursor {
		code = codes.OutOfRange
	}
	s := status.New(code, r.Error())
	if told, err := s.WithDetails(r.fault()); err == nil {
		s = told
	}
	return s.Err()
}
