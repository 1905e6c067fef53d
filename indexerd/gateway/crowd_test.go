package gateway

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// TestAClientHasSoManyConnections opens more than a client may have: those that are too
// many are closed, and one that is closed makes room for another. Behind a proxy they
// are not counted.
func TestAClientHasSoManyConnections(t *testing.T) {
	for _, proxied := range []bool{false, true} {
		g := New(Config{Proxied: proxied})
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := g.Listener(inner)
		accepted := make(chan net.Conn, 3*clientConnections)
		done := make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					done <- err
					return
				}
				accepted <- c
			}
		}()
		dial := func() net.Conn {
			c, err := net.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		var held []net.Conn
		for range clientConnections {
			dial()
			held = append(held, <-accepted)
		}
		extra := dial()
		if proxied {
			held = append(held, <-accepted)
		} else if err := extra.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		} else if _, err := extra.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("one too many is kept: %v", err)
		}
		if f := g.Figures(); f.Crowded != map[bool]uint64{false: 1, true: 0}[proxied] {
			t.Errorf("behind a proxy: %t, %d connections were closed", proxied, f.Crowded)
		}
		held[0].Close()
		held[0].Close() // is counted once
		dial()
		held = append(held, <-accepted)
		if extra = dial(); !proxied {
			extra.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := extra.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("one too many is kept: %v", err)
			}
		}
		l.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		for _, c := range held {
			c.Close()
		}
		if len(g.peers.open) != 0 {
			t.Errorf("%d clients are counted still", len(g.peers.open))
		}
	}
}
