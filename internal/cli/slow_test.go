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

// TestSlowClientsOfHTTPAreCut: who sends a header or a body by drops, and who takes
// an answer by drops or not at all. Others are answered meanwhile.
func TestSlowClientsOfHTTPAreCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	unread := make(chan error, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /much", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for b := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(b)
		}
		unread <- err
	})
	ServeHTTP(group, ctx, l, mux, 400*time.Millisecond, 800*time.Millisecond, slog.New(slog.DiscardHandler))
	for name, begin := range map[string]string{
		"a header": "GET /much HTTP/1.1\r\nHost: a\r\nX-Slow: ", "a body": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nslow",
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, c)
		if n, ok := err.(net.Error); ok && n.Timeout() {
			t.Errorf("who sends %s by drops keeps the connection", name)
		}
	}
	deaf, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if _, err := io.WriteString(deaf, "GET /much HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post("http://"+l.Addr().String()+"/", "text/plain", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("another client: %v, %v", resp, err)
	}
	resp.Body.Close()
	select {
	case err := <-unread:
		if err == nil {
			t.Error("all was written to who takes nothing")
		}
	case <-time.After(20 * time.Second):
		t.Error("who takes nothing keeps the connection")
	}
	cancel()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
