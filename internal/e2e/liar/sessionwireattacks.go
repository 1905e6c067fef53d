package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// wireAttacks lie about the connection, and about the log that it was shown.
var wireAttacks = []attack{
	{name: "replayed-stream", lie: "shows its announcement again on another stream of the connection", run: replayOnStream},
	{name: "resumed", lie: "resumes the TLS session of a connection that was closed", run: resume},
	{name: "slow-loris", lie: "announces one octet at a time", run: slowLoris},
	{name: "own-note", lie: "shows a note by the log's own key that is larger than the log", run: ownNote},
}

// replayOnStream ends a session, and shows what was signed for it on a second
// stream of the same connection, whose exporter is the same.
func replayOnStream(l *liar) error {
	first, err := l.greeted(nil)
	if err != nil {
		return err
	}
	f, err := first.announcement(nil, l.honest)
	if err != nil {
		return err
	}
	if err := first.announce(f, l.honest); err != nil {
		return err
	}
	if err := first.stream.CloseSend(); err != nil {
		return err
	}
	if _, err := first.recv(); err == nil || err.Error() != "ended OK" {
		return fmt.Errorf("the first session: %w", err)
	}
	second, err := l.openOn(first.conn)
	if err != nil {
		return err
	}
	if err := second.greet(nil); err != nil {
		return err
	}
	return second.announce(f, l.honest)
}

// resume makes two connections that share what is needed to resume the first.
func resume(l *liar) error {
	config := l.tls()
	config.NextProtos = []string{"h2"}
	config.SessionTicketsDisabled = false
	config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	config.ServerName = "indexer.test" // the cache is by name
	for range 2 {
		conn, err := (&tls.Dialer{Config: config}).DialContext(l.ctx, "tcp", l.endpoint)
		if err != nil {
			return err
		}
		secure := conn.(*tls.Conn)
		// A ticket would come behind the handshake, with the server's first words.
		err = secure.SetReadDeadline(time.Now().Add(time.Second / 2))
		if err == nil {
			_, err = secure.Read(make([]byte, 1024))
		}
		resumed := secure.ConnectionState().DidResume
		if err := errors.Join(err, secure.Close()); err != nil {
			return err
		}
		if resumed {
			return nil
		}
	}
	return verdict("not resumed")
}

// A slowConn writes one octet at a time once it is slow.
type slowConn struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowConn) Write(b []byte) (n int, err error) {
	if !c.slow.Load() {
		return c.Conn.Write(b)
	}
	for ; n < len(b) && err == nil; n++ {
		time.Sleep(200 * time.Millisecond)
		_, err = c.Conn.Write(b[n : n+1])
	}
	return n, err
}

func slowLoris(l *liar) error {
	slow := new(atomic.Bool)
	conn, err := grpc.NewClient("passthrough:///"+l.endpoint, grpc.WithTransportCredentials(credentials.NewTLS(l.tls())),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			return slowConn{c, slow}, err
		}))
	if err != nil {
		return err
	}
	l.conns = append(l.conns, conn)
	c, err := l.openOn(conn)
	if err != nil {
		return err
	}
	if err := c.greet(nil); err != nil {
		return err
	}
	f, err := c.announcement(nil, l.honest)
	if err != nil {
		return err
	}
	slow.Store(true)
	if err := c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: f}}); err != nil {
		return err
	}
	return c.endsBy(time.Now().Add(cutBy))
}

// ownNote signs with the key of the indexer, from its folder: the note is such as
// only a copy of the log can have made that went its own way.
func ownNote(l *liar) error {
	indexer, err := identity.Load(l.indexerDir, time.Now())
	if err != nil {
		return err
	}
	note, err := translog.SignNote(translog.Tree{Origin: indexer.Card.Log.Origin, Size: 1_000_000, Root: [32]byte{1}}, indexer.LogKey)
	if err != nil {
		return err
	}
	c, err := l.open()
	if err != nil {
		return err
	}
	hello := &oiv1.Hello{Versions: []string{sessionVersion}, Note: note}
	f, err := c.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: hello}})
	for err == nil && f.GetDrain() != nil { // it may say goodbye before it says why
		f, err = c.recv()
	}
	return err
}
