package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
)

func openOwn(t *testing.T, seed uint64, entries int) *peer.Ours {
	t.Helper()
	own, err := peer.OpenOurs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	next := load.Entries(seed, 64)
	for range entries {
		if err := own.Add(t.Context(), next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := own.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return own
}

func TestAnHonestLogPasses(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), []string{"--dir", t.TempDir(), "--for", "3s", "--adders", "8", "--readers", "2"}, &out, &out)
	if err != nil {
		t.Errorf("run = %v\n%s", err, out.String())
	}
}

// TestALyingLogIsFound serves a log whose answers are changed on the way, or
// which shows another log of the same key from some moment on.
func TestALyingLogIsFound(t *testing.T) {
	honest, other, shorter := openOwn(t, 1, 300), openOwn(t, 2, 301), openOwn(t, 1, 299)
	var later atomic.Bool // the first checkpoint was seen
	change := func(path string, with func([]byte) []byte) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Accept-Encoding") // so that what is changed is not compressed
			a := httptest.NewRecorder()
			honest.Handler().ServeHTTP(a, r)
			body := a.Body.Bytes()
			if strings.HasPrefix(r.URL.Path, path) {
				body = with(body)
			}
			w.WriteHeader(a.Code)
			_, _ = w.Write(body) // the peer may have gone
		})
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			if at < len(b) {
				b[at] ^= 1
			}
			return b
		}
	}
	switchTo := func(second *peer.Ours) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			own := honest
			if later.Load() {
				own = second
			}
			own.Handler().ServeHTTP(w, r)
			if r.URL.Path == "/checkpoint" {
				later.Store(true)
			}
		})
	}
	for _, tt := range []struct {
		name string
		log  http.Handler
		want string
	}{
		{"a fork", switchTo(other), "from size 300 to 301"},
		{"a log that shrinks", switchTo(shorter), "went back from size 300 to 299"},
		{"an entry in a bundle", change("/tile/entries/", flip(2)), "by tiles"},
		{"a bundle that ends too soon", change("/tile/entries/", func(b []byte) []byte { return b[:66] }), "has 1 entries"},
		{"a hash in a tile", change("/tile/0/", flip(0)), "by tiles"},
		{"an entry by itself", change("/entry/", flip(0)), "by the served proof"},
		{"a proof for another entry", change("/proof/inclusion", func([]byte) []byte { return []byte(`{"hashes":[],"index":999,"size":300}`) }), "a proof for entry 999"},
		{"a signature", change("/checkpoint", flip(120)), "not a checkpoint note"},
		{"a bundle that is gone", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/tile/entries/") {
				http.NotFound(w, r)
				return
			}
			honest.Handler().ServeHTTP(w, r)
		}), "and not there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			later.Store(false)
			s := httptest.NewServer(tt.log)
			defer s.Close()
			n := newTally()
			w, err := newWatcher(s.URL, honest.VerifierKey(), 1, n)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			w.checkpoint(ctx, 0)
			w.checkpoint(ctx, 0)
			for index := uint64(0); index < 300 && n.inconsistent.Load() == 0; index++ {
				if last := w.latest.Load(); last != nil {
					w.byTiles(ctx, *last, index)
					w.byProof(ctx, *last, index)
				}
			}
			var out strings.Builder
			if err := n.end(&out, time.Second); err == nil || !strings.Contains(out.String(), tt.want) {
				t.Errorf("end = %v, want a complaint with %q:\n%s", err, tt.want, out.String())
			}
		})
	}
}

func TestAFailingLogIsNotCalledHonest(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close() // nobody listens
	n := newTally()
	w, err := newWatcher(s.URL, "x+00000000+AA==", 1, n)
	if err != nil {
		t.Fatal(err)
	}
	w.watch(t.Context(), 200*time.Millisecond, 1)
	var out strings.Builder
	if err := n.end(&out, time.Second); err == nil {
		t.Errorf("end = nil although nobody answered\n%s", out.String())
	}
}
