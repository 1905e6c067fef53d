package indexer

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// Bounds of connections, so that none costs anything for long that brings nothing.
const (
	maxConnections  = 20_000           // to the session port at once; more wait to be accepted
	connectionsEach = 8                // of one identity at once: its session, a newer one, and single calls
	handshakeTime   = 10 * time.Second // for TLS and the first octets of HTTP/2
	idleTime        = time.Minute      // without a session or a call
	stuckTime       = 30 * time.Second // in which a peer takes nothing of what it is sent
)

// times are those of handshakeTime, idleTime, stuckTime and silence; tests shorten them.
type times struct{ handshake, idle, stuck, silence time.Duration }

func defaultTimes() times { return times{handshakeTime, idleTime, stuckTime, silence} }

// perIdentity are transport credentials that let each identity have so many connections
// at once, and give up one whose peer takes nothing off the wire.
type perIdentity struct {
	credentials.TransportCredentials
	stuck time.Duration

	// openMu guards open.
	openMu sync.Mutex
	open   map[string]int // by identity; none at 0
}

func newPerIdentity(c credentials.TransportCredentials, stuck time.Duration) *perIdentity {
	return &perIdentity{TransportCredentials: c, stuck: stuck, open: make(map[string]int)}
}

// ServerHandshake is called by a goroutine for each connection.
func (c *perIdentity) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	// TLS has found exactly one URI, which is that of an identity.
	name := info.(credentials.TLSInfo).State.PeerCertificates[0].URIs[0].String()
	if !c.enter(name) {
		conn.Close()
		return nil, nil, fmt.Errorf("%s has %d connections already", name, connectionsEach)
	}
	return &identityConn{Conn: conn, stuck: c.stuck, leave: sync.OnceFunc(func() { c.leave(name) })}, info, nil
}

// Clone shares the count: gRPC clones what it is given.
func (c *perIdentity) Clone() credentials.TransportCredentials { return c }

func (c *perIdentity) enter(name string) bool {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	if c.open[name] >= connectionsEach {
		return false
	}
	c.open[name]++
	return true
}

func (c *perIdentity) leave(name string) {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	if c.open[name]--; c.open[name] == 0 {
		delete(c.open, name)
	}
}

// A identityConn is counted until it is closed, which gRPC does with each.
type identityConn struct {
	net.Conn
	stuck time.Duration
	leave func()
}

func (c *identityConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// Write gives the peer so long to take what is written.
func (c *identityConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stuck)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// errStuck ends the session of a publisher that reads nothing.
var errStuck = errors.New("the publisher took nothing for too long")

// written waits until what was urgent is out, for as long as a peer that takes it
// needs: the time counts from the moment that a frame is offered to it, since with
// thousands of sessions that end together it may be long until that.
func (s *session) written() {
	look := time.NewTicker(flushTime / 4)
	defer look.Stop()
	for begun := time.Now(); time.Since(begun) < flushMost; {
		select {
		case <-s.link.Written():
			return
		case <-look.C:
			if s.link.Stuck() > flushTime { // the Send fails when the stream's handler has returned
				return
			}
		}
	}
}
