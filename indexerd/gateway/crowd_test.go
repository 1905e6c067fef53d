package gateway

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// A door is a gateway's listener, and what has come through it.
type door struct {
	t        *testing.T
	g        *Gateway
	l        net.Listener
	accepted chan net.Conn
	done     chan error
}

func openDoor(t *testing.T, c Config) *door {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, g: New(c), accepted: make(chan net.Conn, 3*clientConnections), done: make(chan error, 1)}
	d.l = d.g.Listener(inner)
	go func() {
		for {
			c, err := d.l.Accept()
			if err != nil {
				d.done <- err
				return
			}
			d.accepted <- c
		}
	}()
	return d
}

func (d *door) dial() net.Conn {
	d.t.Helper()
	c, err := net.Dial("tcp", d.l.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c
}

// come opens a connection that is let in.
func (d *door) come() net.Conn {
	d.t.Helper()
	d.dial()
	return <-d.accepted
}

// turnedAway opens a connection that is closed at once.
func (d *door) turnedAway() {
	d.t.Helper()
	c := d.dial()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		d.t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		d.t.Errorf("one too many is kept: %v", err)
	}
}

// shut closes all, behind which nobody is counted.
func (d *door) shut(held []net.Conn) {
	d.t.Helper()
	d.l.Close()
	if err := <-d.done; !errors.Is(err, net.ErrClosed) {
		d.t.Error(err)
	}
	for _, c := range held {
		c.Close()
	}
	if len(d.g.peers.open) != 0 {
		d.t.Errorf("%d clients are counted still", len(d.g.peers.open))
	}
}

// TestAClientHasSoManyConnections opens more than a client may have: those that are too
// many are closed, and one that is closed makes room for another.
func TestAClientHasSoManyConnections(t *testing.T) {
	d := openDoor(t, Config{})
	var held []net.Conn
	for range clientConnections {
		held = append(held, d.come())
	}
	d.turnedAway()
	held[0].Close()
	held[0].Close() // counts once
	held = append(held, d.come())
	d.turnedAway()
	if f := d.g.Figures(); f.Crowded != 2 {
		t.Errorf("%d connections are counted as closed, want 2", f.Crowded)
	}
	d.shut(held)
}

// TestConnectionsOfAProxyAreNotCounted: they bring the requests of many.
func TestConnectionsOfAProxyAreNotCounted(t *testing.T) {
	d := openDoor(t, Config{Proxied: true})
	var held []net.Conn
	for range 2 * clientConnections {
		held = append(held, d.come())
	}
	if f := d.g.Figures(); f.Crowded != 0 {
		t.Errorf("%d connections were closed", f.Crowded)
	}
	d.shut(held)
}
