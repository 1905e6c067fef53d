package publisher

import (
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// counter counts what a connection carries, TLS included; handshake is the part
// of both that its handshake took. A trip is an answer that was taken after
// something was sent: frames that follow one another without a word from this
// side are one.
type counter struct {
	in, out, handshake, trips atomic.Int64 // since the last result; allIn and allOut since the start

	allIn, allOut atomic.Uint64

	spoken atomic.Bool                     // something was sent since the last trip
	raw    atomic.Pointer[syscall.RawConn] // of the connection that was opened last
}

func (n *counter) heard() {
	if n.spoken.Swap(false) {
		n.trips.Add(1)
	}
}

// left is how many octets have left this machine's queue: all that were sent, but
// what the other end has not acknowledged, where the system can say that. On a
// slow line the queue holds minutes.
func (n *counter) left() int64 {
	queued := 0
	if raw := n.raw.Load(); raw != nil {
		(*raw).Control(func(fd uintptr) {
			if q, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ); err == nil {
				queued = q
			}
		})
	}
	return max(0, n.out.Load()-int64(queued))
}

// counted is a connection whose octets n counts.
func (n *counter) counted(c net.Conn) net.Conn {
	if sc, ok := c.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			n.raw.Store(&raw)
		}
	}
	return countedConn{c, n}
}

type countedConn struct {
	net.Conn
	n *counter
}

func (c countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.in.Add(int64(n))
	c.n.allIn.Add(uint64(n))
	return n, err
}

func (c countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.out.Add(int64(n))
	c.n.allOut.Add(uint64(n))
	return n, err
}
