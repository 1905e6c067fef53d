package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestHostileAnswersAreBounded(t *testing.T) {
	note, err := translog.SignNote(translog.Tree{Origin: testOrigin, Root: translog.SetOf(nil).Root}, testKey())
	check(t, err)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(note) }))
	t.Cleanup(elsewhere.Close)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 64 {
		z.Write(make([]byte, 1<<20))
	}
	check(t, z.Close())
	zipped := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(body)
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   error
	}{
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, ErrMalformed},
		{"a body one octet too long", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, translog.MaxNote+1)) }, ErrMalformed},
		{"a body that grows a thousandfold", func(w http.ResponseWriter, _ *http.Request) { zipped(w, bomb.Bytes()) }, ErrMalformed},
		{"a body that is not what its encoding says", func(w http.ResponseWriter, _ *http.Request) { zipped(w, note) }, ErrMalformed},
		{"an encoding that was not asked for", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			w.Write(note)
		}, ErrMalformed},
		{"an answer that never comes", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, ErrUnavailable},
		{"a body that never ends", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "log.example")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, ErrUnavailable},
		{"a body shorter than it says", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			w.Write(note)
		}, ErrUnavailable},
		{"headers without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
			w.Write(note)
		}, ErrUnavailable},
		{"a redirect to a true log", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
		}, ErrMalformed},
		{"another status with a true note", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			w.Write(note)
		}, ErrMalformed},
		{"not modified, and nothing was there before", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, ErrMalformed},
		{"a page that says hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") }, translog.ErrNote},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, translog.ErrNote},
		{"it is not there", http.NotFound, ErrAbsent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOf(t, tt.answer, Options{Timeout: time.Second, Tries: 1})
			if c.client.Transport.(*http.Transport).Proxy != nil {
				t.Fatal("a proxy may be asked")
			}
			if _, raw, err := c.Checkpoint(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("Checkpoint = %.40q, %v; want %v", raw, err, tt.want)
			}
		})
	}
}

// answers is a transport that needs no network, and so no real time.
type answers func(n int) *http.Response

func (a *counted) RoundTrip(*http.Request) (*http.Response, error) {
	a.at = append(a.at, time.Since(a.began))
	return a.answers(len(a.at)), nil
}

type counted struct {
	answers
	began time.Time
	at    []time.Duration
}

func TestABusyLogIsAskedAgainWithinBounds(t *testing.T) {
	answer := func(status int, after string) *http.Response {
		h := http.Header{}
		if after != "" {
			h.Set("Retry-After", after)
		}
		return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: h, Body: http.NoBody}
	}
	for _, tt := range []struct {
		name    string
		answers answers
		want    error
		at      []time.Duration
	}{
		{"once, and then it answers", func(n int) *http.Response {
			return answer(map[bool]int{true: 503, false: 200}[n == 1], "")
		}, nil, []time.Duration{0, 100 * time.Millisecond}},
		{"for ever", func(int) *http.Response { return answer(500, "") }, ErrUnavailable,
			[]time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}},
		{"as long as it asks for", func(n int) *http.Response {
			return answer(map[bool]int{true: 429, false: 200}[n < 3], "7")
		}, nil, []time.Duration{0, 7 * time.Second, 14 * time.Second}},
		{"longer than we wait", func(int) *http.Response { return answer(429, "3000") }, ErrUnavailable, []time.Duration{0}},
		{"what is not there is not asked for again", func(int) *http.Response { return answer(404, "") }, ErrAbsent, []time.Duration{0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New("http://log.example", testVkey(t), Options{})
				check(t, err)
				transport := &counted{answers: tt.answers, began: time.Now()}
				c.client.Transport = transport
				_, err = c.get(t.Context(), "/x", 10)
				if !errors.Is(err, tt.want) || fmt.Sprint(transport.at) != fmt.Sprint(tt.at) {
					t.Errorf("%v, asked at %v; want %v at %v", err, transport.at, tt.want, tt.at)
				}
			})
		})
	}
}

// TestWhatIsAbsentCostsNoConnection asks for a hundred things that are not there.
func TestWhatIsAbsentCostsNoConnection(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(http.NotFound))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	c, err := New(server.URL, testVkey(t), Options{})
	check(t, err)
	defer c.Close()
	for n := range uint64(100) {
		if _, err := c.SignedCheckpointAt(t.Context(), n); !errors.Is(err, ErrAbsent) {
			t.Fatal(err)
		}
	}
	if n := opened.Load(); n > 5 {
		t.Errorf("%d connections", n)
	}
}

func TestCheckpointOfWaitsForTheLogToPublish(t *testing.T) {
	note := func(size uint64) []byte {
		raw, err := translog.SignNote(translog.Tree{Origin: testOrigin, Size: size, Root: [32]byte{1}}, testKey())
		check(t, err)
		return raw
	}
	for _, tt := range []struct {
		name      string
		published []uint64 // one after the other; 0 is none
		want      uint64   // 0 for none
	}{
		{"it is there", []uint64{11}, 11},
		{"it comes a little later", []uint64{0, 0, 4, 4, 11}, 11},
		{"it never comes: the last one is told", []uint64{0, 4}, 4},
		{"the log never publishes", []uint64{0}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if n := tt.published[min(asked, len(tt.published))-1]; n > 0 {
					w.Write(note(n))
					return
				}
				http.NotFound(w, r)
			}), Options{})
			tree, _, err := c.CheckpointOf(t.Context(), 11, 300*time.Millisecond, 10*time.Millisecond)
			if tree.Size != tt.want || (tt.want == 0) != errors.Is(err, ErrAbsent) {
				t.Errorf("size %d, %v, want %d", tree.Size, err, tt.want)
			}
		})
	}
}

func TestAnEndedContextEndsTheWaiting(t *testing.T) {
	c := clientOf(t, http.NotFoundHandler(), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := c.CheckpointOf(ctx, 11, time.Hour, 10*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestLogURLHasOneForm(t *testing.T) {
	for _, tt := range []struct {
		url string
		ok  bool
	}{
		{"https://log.search.example", true},
		{"http://127.0.0.1:7480/", true},
		{"https://search.example/log", true},
		{"", false},
		{"log.search.example", false},
		{"file:///etc/passwd", false},
		{"https://", false},
		{"https://user:secret@log.search.example", false},
		{"https://log.search.example/?a=b", false},
		{"https://log.search.example/?", false},
		{"https://log.search.example/#top", false},
		{"https://log.search.example/#", false},
		{"https://log.search.example/\x1b", false},
	} {
		if err := CheckURL(tt.url); (err == nil) != tt.ok {
			t.Errorf("CheckURL(%q) = %v", tt.url, err)
		}
	}
}
