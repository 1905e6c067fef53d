package publisher

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// handshake keeps what gRPC reports only as text: the error of the TLS
// handshake, and whether the other side ever said a word behind it. In TLS 1.3
// the server judges our certificate after our handshake is complete, so that
// its refusal looks like any broken connection, except that nothing came.
type handshake struct {
	credentials.TransportCredentials
	err   atomic.Pointer[error]
	shown atomic.Pointer[tls.Certificate]     // the own certificate
	state atomic.Pointer[tls.ConnectionState] // once it is complete
	heard atomic.Bool
	wire  *counter
}

// heardConn notes that something was read.
type heardConn struct {
	net.Conn
	heard *atomic.Bool
}

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.heard.Load() {
		c.heard.Store(true)
	}
	return n, err
}

// explain makes of an error in the beginning of a connection what it means.
func (h *handshake) explain(err error) error {
	if tlsErr := h.err.Load(); tlsErr != nil {
		return classifyHandshake(*tlsErr)
	}
	if status.Code(err) == codes.PermissionDenied {
		return &Refused{Reason: grants.ErrUnknownPeer, Detail: "the indexer does not trust this identity; give its operator the card"}
	}
	if h.state.Load() != nil && !h.heard.Load() && errors.Is(err, ErrUnavailable) {
		return &Refused{Reason: grants.ErrUnknownPeer, Detail: "the indexer hung up before its first word: it does not trust this identity or its certificate; give its operator the card"}
	}
	return err
}

func (h *handshake) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		h.err.Store(&err)
		return conn, info, err
	}
	h.wire.handshake.Store(h.wire.in.Load() + h.wire.out.Load())
	if t, ok := info.(credentials.TLSInfo); ok {
		h.state.Store(&t.State)
	}
	return heardConn{conn, &h.heard}, info, nil
}

func (h *handshake) Clone() credentials.TransportCredentials { return h }

// certificate is the one to show, as gRPC asks for it; it is remembered.
func (h *handshake) certificate(l *identity.Local) func() *tls.Certificate {
	return func() *tls.Certificate {
		c := l.Certificate()
		h.shown.Store(c)
		return c
	}
}

// classifyHandshake tells a peer that is not who it should be from a network
// that does not work.
func classifyHandshake(err error) error {
	for _, e := range []error{identity.ErrUnknownPeer, identity.ErrWrongPeer, identity.ErrRole, identity.ErrPeerKey, identity.ErrCertificate, identity.ErrValidity, identity.ErrPath, identity.ErrNoCard, identity.ErrUnknownAuthority} {
		if errors.Is(err, e) {
			return &Refused{Reason: grants.ErrUnknownPeer, Detail: err.Error()}
		}
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
