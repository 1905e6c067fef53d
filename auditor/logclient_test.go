package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// clientOf is a client of h that does not wait long.
func clientOf(t *testing.T, h http.Handler) *logClient {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := newLogClient(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	c.patience, c.interval, c.client.Timeout = 200*time.Millisecond, 10*time.Millisecond, 500*time.Millisecond
	return c
}

func TestCheckpointWaitsForTheLogToPublish(t *testing.T) {
	s := stage.New(t, 1)
	for _, tt := range []struct {
		name      string
		published func() uint64
		want      uint64 // size of the note; 0 for none
	}{
		{"it is there", sizes(11), 11},
		{"it comes a little later", sizes(0, 0, 4, 4, 11), 11},
		{"it never comes: the last one is told", sizes(0, 4), 4},
		{"the log never publishes", sizes(0), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOf(t, serveLog(t, s, s.Log, tt.published))
			note, err := c.checkpoint(t.Context(), s.Indexer.Card.Log.VKey, 11)
			if tt.want == 0 {
				if !errors.Is(err, errUnreachable) {
					t.Errorf("checkpoint = %v, want %v", err, errUnreachable)
				}
				return
			}
			tree, bad := translog.OpenNote(note, s.Indexer.Card.Log.VKey)
			if err != nil || bad != nil || tree.Size != tt.want {
				t.Errorf("size %d, %v, %v, want %d", tree.Size, err, bad, tt.want)
			}
		})
	}
}

func TestHostileAnswersAreBounded(t *testing.T) {
	s := stage.New(t, 1)
	elsewhere := httptest.NewServer(serveLog(t, s, s.Log, sizes(11)))
	t.Cleanup(elsewhere.Close)
	for _, tt := range []struct {
		name        string
		answer      http.HandlerFunc
		unreachable bool
	}{
		{"an endless body", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, false},
		{"a body one octet too long", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, maxNote+1)) }, false},
		{"an answer that never comes", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true},
		{"a body that never ends", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "log.search")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, true},
		{"headers without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
			fmt.Fprint(w, "x")
		}, true},
		{"a redirect to the true log", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
		}, true},
		{"another status with a true note", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			w.Write(s.Note(t, 11))
		}, true},
		{"a page that says hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOf(t, tt.answer)
			note, err := c.checkpoint(t.Context(), s.Indexer.Card.Log.VKey, 11)
			if err == nil || errors.Is(err, errUnreachable) != tt.unreachable {
				t.Errorf("checkpoint = %.40q, %v; want unreachable %v", note, err, tt.unreachable)
			}
		})
	}
}

func TestAProofOfOtherSizesIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, answer string }{
		{"other sizes", `{"from":3,"hashes":[],"to":9}`},
		{"no sizes", `{}`},
		{"a hash of another form", `{"from":3,"hashes":["00"],"to":7}`},
		{"no JSON", `proof`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, tt.answer) }))
			if path, err := c.Consistency(t.Context(), 3, 7); err == nil {
				t.Errorf("Consistency = %v", path)
			}
		})
	}
}

func TestALogThatWithholdsIsNotUnreachable(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	a := s.Answer(t, b, 5, stage.Lie{})
	raw, err := evaluate.Seal(s.Evidence(t, b, a, 0, s.Size()))
	if err != nil {
		t.Fatal(err)
	}
	o := evaluate.Options{Cards: []*identity.Card{s.Indexer.Card}, Now: time.Now()}
	c := clientOf(t, serveLog(t, s, s.Log[:11], sizes(11)))
	report, unreachable := askLog(t.Context(), c, raw, o, evaluate.Verify(t.Context(), raw, o))
	if report.Verdict != evaluate.Included || unreachable != nil || !strings.Contains(report.Reasons[0], "does not publish a tree of 15 entries") {
		t.Errorf("%s, unreachable %v, reasons %q", report.Verdict, unreachable, report.Reasons)
	}
}

func TestAnEndedContextEndsTheWaiting(t *testing.T) {
	s := stage.New(t, 1)
	c := clientOf(t, serveLog(t, s, s.Log, sizes(4)))
	c.patience = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.checkpoint(ctx, s.Indexer.Card.Log.VKey, 11); err == nil {
		t.Error("it still waits")
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
		{"https://log.search.example/\x1b", false},
	} {
		if _, err := newLogClient(tt.url); (err == nil) != tt.ok {
			t.Errorf("newLogClient(%q) = %v", tt.url, err)
		}
	}
}

func TestNothingThatMovesTheCursorIsPrinted(t *testing.T) {
	for in, want := range map[string]string{
		"plain, äöü “quoted”\nnext": "plain, äöü “quoted”\nnext",
		"a\x1b[2Jb":                 "a\uFFFD[2Jb",
		"a\u202eb\u2066c\rd":        "a\uFFFDb\uFFFDc\uFFFDd",
	} {
		if got := safe(in); got != want {
			t.Errorf("safe(%q) = %q, want %q", in, got, want)
		}
	}
}
