package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

func discard() *log.Logger { return log.New(io.Discard, "", 0) }

func gzipped(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, p := range parts {
		w := gzip.NewWriter(&all)
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all.Bytes()
}

func zstdOf(t testing.TB, b []byte) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(b, nil)
}

func TestContentCodingsAreUndoneUnderLimits(t *testing.T) {
	plain := []byte(strings.Repeat("some words, and more of them; ", 100))
	zeros := make([]byte, 16<<20)
	for _, tt := range []struct {
		name, coding string
		body         []byte
		want         error // nil: the body is plain
	}{
		{"gzip", "gzip", gzipped(t, plain), nil},
		{"gzip in several members", "x-gzip", gzipped(t, plain[:7], plain[7:]), nil},
		{"zstd", "ZSTD", zstdOf(t, plain), nil},
		{"nothing", "identity", plain, nil},
		{"a gzip bomb", "gzip", gzipped(t, zeros), fetch.ErrTooLarge},
		{"a zstd bomb", "zstd", zstdOf(t, zeros), fetch.ErrTooLarge},
		{"a zstd frame of nine octets that asks for 512 MiB", "zstd", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98, 0x01, 0x00, 0x00}, fetch.ErrTooLarge},
		{"gzip cut short", "gzip", gzipped(t, plain)[:40], fetch.ErrCoding},
		{"zstd cut short", "zstd", zstdOf(t, plain)[:12], fetch.ErrCoding},
		{"gzip that is none", "gzip", plain, fetch.ErrCoding},
		{"a coding that was not asked for", "br", plain, fetch.ErrCoding},
		{"two codings", "gzip, gzip", gzipped(t, gzipped(t, plain)), fetch.ErrCoding},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "zstd, gzip" {
					t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
				}
				w.Header().Set("Content-Encoding", tt.coding)
				w.Write(tt.body)
			})
			c, _ := newClient(t, nil, s)
			r, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
			var got []byte
			if err == nil {
				got, err = r.Body.ReadAll(32 << 20)
				r.Body.Close()
			}
			if !errors.Is(err, tt.want) || err == nil && !bytes.Equal(got, plain) {
				t.Errorf("read %d octets, %v; want %v", len(got), err, tt.want)
			}
			if err == nil {
				if wire, size := r.Body.Size(); wire != int64(len(tt.body)) || size != int64(len(plain)) {
					t.Errorf("Size = %d, %d", wire, size)
				}
			}
		})
	}
}

func TestABombIsNoticedBeforeItIsLarge(t *testing.T) {
	bomb := gzipped(t, make([]byte, 64<<20))
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb)
	})
	c, _ := newClient(t, func(c *fetch.Config) { c.MaxBody = 1 << 30 }, s)
	r, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	n, err := io.Copy(io.Discard, r.Body)
	if !errors.Is(err, fetch.ErrTooLarge) || n > 2<<20 {
		t.Errorf("read %d octets, %v; want ErrTooLarge behind the first MiB", n, err)
	}
}

func TestABodyThatIsAllPackagingIsBounded(t *testing.T) {
	empty := gzipped(t, nil)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for block := bytes.Repeat(empty, 1000); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	c, _ := newClient(t, func(c *fetch.Config) { c.MaxBody = 1 << 20 }, s)
	r, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if n, err := io.Copy(io.Discard, r.Body); !errors.Is(err, fetch.ErrTooLarge) || n != 0 {
		t.Errorf("read %d octets, %v; want ErrTooLarge", n, err)
	}
}

func TestEveryWaitHasAnEnd(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			<-r.Context().Done()
		case "/stalls":
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/drips":
			for {
				if _, err := io.WriteString(w, "a"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
	for _, tt := range []struct {
		path   string
		change func(*fetch.Config)
	}{
		{"/silent", func(c *fetch.Config) { c.HopTimeout = 50 * time.Millisecond }},
		{"/silent", func(c *fetch.Config) { c.Timeout = 50 * time.Millisecond }},
		{"/stalls", func(c *fetch.Config) { c.StallTimeout = 50 * time.Millisecond }},
		{"/drips", func(c *fetch.Config) { c.Timeout = 200 * time.Millisecond }},
	} {
		c, _ := newClient(t, tt.change, s)
		r, err := c.Get(t.Context(), s.URL+tt.path, fetch.Conditions{})
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want DeadlineExceeded", tt.path, err)
		}
	}
	c, _ := newClient(t, nil, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Get(ctx, s.URL+"/silent", fetch.Conditions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
}
