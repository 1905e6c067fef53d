package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// serveHastily serves h with times of less than a second, and gives its address.
func serveHastily(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	ServeHTTP(group, ctx, l, h, 400*time.Millisecond, 800*time.Millisecond, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// begin opens a connection and sends the beginning of a request.
func begin(t *testing.T, address, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSlowClientsOfHTTPAreCut: who sends a header or a body by drops.
func TestSlowClientsOfHTTPAreCut(t *testing.T) {
	address := serveHastily(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			fmt.Fprintln(w, "ok")
		}
	}))
	for name, text := range map[string]string{
		"a header": "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ", "a body": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nslow",
	} {
		c := begin(t, address, text)
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, c)
		if n, ok := err.(net.Error); ok && n.Timeout() {
			t.Errorf("who sends %s by drops keeps the connection", name)
		}
	}
}

// TestWhoReadsNoAnswerIsCut, and somebody else is answered meanwhile.
func TestWhoReadsNoAnswerIsCut(t *testing.T) {
	unread := make(chan error, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /much", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for b := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(b)
		}
		unread <- err
	})
	mux.HandleFunc("GET /little", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	address := serveHastily(t, mux)
	begin(t, address, "GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
	resp, err := http.Get("http://" + address + "/little")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("another client is answered %s", resp.Status)
	}
	select {
	case <-unread:
	case <-time.After(20 * time.Second):
		t.Error("who takes nothing keeps the connection")
	}
}
