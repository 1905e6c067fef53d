package indexer

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// hasty serves the rig's sessions once more, with short times.
func (r *rig) hasty(brief times) (address string) {
	r.t.Helper()
	r.x.times = brief
	l := must[net.Listener](r.t)(net.Listen("tcp", "127.0.0.1:0"))
	s := r.x.NewServer()
	done := make(chan struct{})
	go func() { s.Serve(l); close(done) }()
	r.t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

// ended waits until the other side has closed the connection.
func ended(t *testing.T, c net.Conn, what string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, c)
	if n, ok := err.(net.Error); ok && n.Timeout() {
		t.Errorf("%s keeps its connection", what)
	}
}

// TestConnectionsThatBringNothingAreCut before TLS, within it, before HTTP/2, and
// when nothing was asked for in a while.
func TestConnectionsThatBringNothingAreCut(t *testing.T) {
	r := newRig(t)
	p := r.example()
	address := r.hasty(times{300 * time.Millisecond, 300 * time.Millisecond, time.Minute, time.Minute})
	dial := func() net.Conn {
		c := must[net.Conn](t)(net.Dial("tcp", address))
		t.Cleanup(func() { c.Close() })
		return c
	}
	silent := dial()
	slow := dial()
	if _, err := slow.Write([]byte{22, 3, 1, 0, 200, 1}); err != nil { // the beginning of a hello
		t.Fatal(err)
	}
	config := identity.ClientConfig(p.local.Certificate, p.trust, identity.Indexer, r.card.Identity, r.now)
	config.NextProtos = []string{"h2"}
	mute := tls.Client(dial(), config)
	if err := mute.Handshake(); err != nil {
		t.Fatal(err)
	}
	idle := tls.Client(dial(), config)
	// The preface, and empty settings.
	if _, err := idle.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	ended(t, silent, "who says nothing")
	ended(t, slow, "who says hello slowly")
	ended(t, mute, "who speaks TLS and nothing else")
	ended(t, idle, "who asks for nothing")
}

// TestAnIdentityHasFewConnections at once, and they do not count once they are over.
func TestAnIdentityHasFewConnections(t *testing.T) {
	r := newRig(t)
	p := r.example()
	config := identity.ClientConfig(p.local.Certificate, p.trust, identity.Indexer, r.card.Identity, r.now)
	config.NextProtos = []string{"h2"}
	// The other side speaks first in HTTP/2, so a connection that is taken says so.
	open := func() (*tls.Conn, bool) {
		c := must[*tls.Conn](t)(tls.Dial("tcp", r.addr, config))
		t.Cleanup(func() { c.Close() })
		if _, err := c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			return c, false
		}
		c.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err := io.ReadFull(c, make([]byte, 9))
		return c, err == nil
	}
	var all []*tls.Conn
	for i := range connectionsEach {
		c, ok := open()
		if !ok {
			t.Fatalf("connection %d is refused", i+1)
		}
		all = append(all, c)
	}
	if _, ok := open(); ok {
		t.Error("one more than there may be is taken")
	}
	other := r.publisher("spiffe://example.org/publisher", "https://example.org")
	other.greeted()
	all[0].Close()
	r.eventually("room for one more", func() bool { _, ok := open(); return ok })
}

// TestAPublisherThatReadsNothingIsGivenUp asks for much, and takes none of it.
func TestAPublisherThatReadsNothingIsGivenUp(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(200)
	c.close()
	r.addr = r.hasty(times{time.Minute, time.Minute, 500 * time.Millisecond, time.Minute})
	c = s.p.session(s)
	r.eventually("its session", func() bool { return r.x.sessions.count() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	asking := make(chan struct{})
	go func() {
		defer close(asking)
		for ctx.Err() == nil { // until the stream is over
			if c.stream.Send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_RangeRequest{RangeRequest: &oiv1.RangeRequest{Series: s.name}}}) != nil {
				return
			}
		}
	}()
	r.eventually("the session to be given up", func() bool { return r.x.sessions.count() == 0 })
	c.close()
	<-asking
	s.p.session(s) // it may come back
}

// TestASilentPublisherIsGivenUp whose connection lives, and who could come back.
func TestASilentPublisherIsGivenUp(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(1)
	c.close()
	r.addr = r.hasty(times{time.Minute, time.Minute, time.Minute, 500 * time.Millisecond})
	c = s.p.session(s)
	r.eventually("its session to be given up", func() bool { return r.x.sessions.count() == 0 })
	for {
		if _, err := c.stream.Recv(); err != nil {
			if status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("the session ended with %v", err)
			}
			break
		}
	}
	c.close()
}
