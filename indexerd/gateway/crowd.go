package gateway

import (
	"net"
	"sync"
)

// Bounds of one client: what it may have open at once, of connections and of requests
// that are being answered. Behind a proxy, which brings the requests of many over
// connections of its own, the second alone counts.
const (
	clientConnections = 32
	clientRequests    = 32
)

// kernelBuffer is how much of an answer may wait in the kernel for a client that does
// not take it, in octets: what lies there can not be taken back when consent ends. The
// kernel may give twice as much.
const kernelBuffer = 128 << 10

// A crowd counts what each client has open, and lets it have so many.
type crowd struct {
	most int

	// openMu guards open.
	openMu sync.Mutex
	open   map[string]int // by client; none at 0
}

// enter counts one more, unless there are enough.
func (c *crowd) enter(client string) bool {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	if c.open[client] >= c.most {
		return false
	}
	if c.open == nil {
		c.open = make(map[string]int)
	}
	c.open[client]++
	return true
}

func (c *crowd) leave(client string) {
	c.openMu.Lock()
	defer c.openMu.Unlock()
	if c.open[client]--; c.open[client] == 0 {
		delete(c.open, client)
	}
}

// Listener bounds the connections of each client, and how much of an answer waits in the
// kernel. A connection too many is closed before anything is read of it. It is to stand
// right on the socket: what bounds all connections stands on top of it, so that those
// which are closed at once take no place there.
func (g *Gateway) Listener(l net.Listener) net.Listener { return &listener{l, g} }

type listener struct {
	net.Listener
	g *Gateway
}

// Accept waits for a connection of a client that may have it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetWriteBuffer(kernelBuffer) // what fails here fails when it is written to
		}
		if l.g.c.Proxied {
			return c, nil
		}
		client := network(c.RemoteAddr().String())
		if !l.g.peers.enter(client) {
			l.g.crowded.Add(1)
			c.Close()
			continue
		}
		return &counted{Conn: c, leave: sync.OnceFunc(func() { l.g.peers.leave(client) })}, nil
	}
}

// A counted connection is one of its client's until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close closes it.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
