package walk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestDocumentsAreKeptAsLongAsTheySay(t *testing.T) {
	for _, tt := range []struct {
		name   string
		maxAge time.Duration // 0: it does not say
		fresh  time.Duration
		stale  time.Duration
	}{{"a minute", time.Minute, 30 * time.Second, 70 * time.Second}, {"it does not say", 0, 59 * time.Minute, 61 * time.Minute}} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			m := document([]rbt.Root{s.root()}, file("a", "a.md", "A"))
			m.Cache = rbt.Cache{MaxAge: tt.maxAge, HasMaxAge: tt.maxAge > 0}
			s.put(".burrow.json", marshal(t, m))
			var conditional, whole atomic.Int32
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/.burrow.json" {
					if r.Header.Get("If-None-Match") != "" {
						conditional.Add(1)
					} else {
						whole.Add(1)
					}
				}
				return false
			}
			c := at(t, s)
			now := time.Now()
			c.State, c.Now = t.TempDir(), func() time.Time { return now }
			start := now
			for _, step := range []struct {
				at                 time.Duration
				whole, conditional int32
			}{{0, 1, 0}, {tt.fresh, 1, 0}, {tt.stale, 1, 1}, {tt.stale + tt.fresh, 1, 1}, {2*tt.stale + time.Second, 1, 2}} {
				now = start.Add(step.at)
				mustOpen(t, c)
				if whole.Load() != step.whole || conditional.Load() != step.conditional {
					t.Errorf("after %v: %d requests and %d conditional ones, want %d and %d", step.at, whole.Load(), conditional.Load(), step.whole, step.conditional)
				}
			}
			w := mustOpen(t, c)
			file := w.cache.file(s.base + ".burrow.json")
			writeFile(t, file, "{}\n{}")
			mustOpen(t, c)
			if whole.Load() != 2 {
				t.Error("a kept document that was changed is used")
			}
		})
	}
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fail  func(w http.ResponseWriter)
		times int32
		want  string
	}{
		{"the connection is cut twice", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 2, "A"},
		{"too many requests, three times", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 3, "A"},
		{"too many requests, for ever", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 1000, "rate_limited"},
		{"the connection is always cut", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 1000, "transport_error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.put("a.md", "A")
			s.put(".burrow.json", marshal(t, document([]rbt.Root{s.root()}, file("a", "a.md", "A"))))
			s.server.Config.SetKeepAlivesEnabled(false) // on a connection that was idle, Go itself asks once more
			var n atomic.Int32
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/a.md" || n.Add(1) > tt.times {
					return false
				}
				tt.fail(w)
				return true
			}
			var pauses []time.Duration
			pause := func(ctx context.Context, d time.Duration) error {
				if d >= time.Millisecond {
					pauses = append(pauses, d)
				}
				return ctx.Err()
			}
			c := at(t, s)
			now := time.Now()
			made, err := fetch.New(fetch.Config{
				UserAgent: "test", Allowed: []string{s.server.URL}, Rate: 10_000, Retries: 3, Sleep: pause, Now: func() time.Time { return now },
				RootCAs: s.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer made.Close()
			c.Client, c.Sleep = made, pause
			_, texts := all(t, mustOpen(t, c))
			checkTexts(t, texts, map[string]string{".burrow.json a": tt.want})
			if len(pauses) < 2 || len(pauses) > 20 {
				t.Fatalf("pauses are %v", pauses)
			}
			if pauses[1] < pauses[0]*3/2 {
				t.Errorf("pauses do not grow: %v", pauses)
			}
		})
	}
}

func TestASlowBodyIsCutOff(t *testing.T) {
	s := newSite(t)
	s.put(".burrow.json", marshal(t, document([]rbt.Root{s.root()}, file("a", "a.md", "A"))))
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/a.md" {
			return false
		}
		for range 1000 {
			if _, err := w.Write([]byte("A")); err != nil {
				return true
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return true
			case <-time.After(20 * time.Millisecond):
			}
		}
		return true
	}
	c := at(t, s)
	c.Limits.Request = 100 * time.Millisecond
	_, texts := all(t, mustOpen(t, c))
	checkTexts(t, texts, map[string]string{".burrow.json a": "transport_error"})
}

func TestHostsAreJudged(t *testing.T) {
	s := small(t)
	for _, tt := range []struct {
		name     string
		only, no []string
		ok       bool
	}{
		{"any", nil, nil, true}, {"the one that is listed", []string{"127.0.0.1"}, nil, true},
		{"another is listed", []string{"example.org"}, nil, false}, {"it is kept out", nil, []string{"127.0.0.1"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := at(t, s)
			c.OnlyHosts, c.NoHosts = tt.only, tt.no
			w, err := Open(t.Context(), c)
			w.Close()
			if ok := err == nil; ok != tt.ok {
				t.Errorf("Open = %v", err)
			}
		})
	}
	w := &web{config: &Config{NoHosts: []string{"example.org"}}}
	for host, want := range map[string]bool{"example.org": false, "a.EXAMPLE.org.": false, "badexample.org": true} {
		if got := w.isOurs("https://" + host + "/"); got != want {
			t.Errorf("%s: %t", host, got)
		}
	}
}

func TestARedirectLeadsToNoHostThatMayNotBeAsked(t *testing.T) {
	s := small(t)
	kept := newSite(t)
	elsewhere := strings.Replace(kept.base, "127.0.0.1", "localhost", 1)
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/a.md" {
			http.Redirect(w, r, elsewhere+"a.md", http.StatusFound)
		}
		return r.URL.Path == "/a.md"
	}
	c := at(t, s)
	c.NoHosts = []string{"localhost"}
	w := mustOpen(t, c)
	_, texts := all(t, w)
	if texts[".burrow.json a"] != string(rbt.TransportError) || texts[".burrow.json b"] != "B" {
		t.Errorf("entries are %q", texts)
	}
	if p := w.Report.Problems; len(p) != 1 || !strings.Contains(p[0].Attempts[0].Error, errRedirected.Error()) {
		t.Errorf("problems are %+v", p)
	}
	if asked := kept.requests(); len(asked) != 0 {
		t.Errorf("the host was asked for %q", asked)
	}
}

func TestNoRootLeadsToAPrivateAddress(t *testing.T) {
	inside, outside := small(t), newSite(t)
	outside.before = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, strings.TrimSuffix(inside.base, "/")+r.URL.Path, http.StatusFound)
		return true
	}
	for name, s := range map[string]*site{"the root is private": inside, "a redirect leads to it": outside} {
		t.Run(name, func(t *testing.T) {
			c := at(t, s)
			c.Client = client(t, outside)
			c.IgnoreRobots = true
			w, err := Open(t.Context(), c)
			w.Close()
			if !errors.Is(err, fetch.ErrForbiddenAddress) {
				t.Errorf("Open = %v", err)
			}
			if got := inside.requests(); len(got) != 0 {
				t.Errorf("it was asked for %q", got)
			}
		})
	}
}

func TestNoCredentialIsTold(t *testing.T) {
	const token = "TOK123"
	s := small(t)
	delete(s.files, "b.md")
	var sent atomic.Int32
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+token {
			sent.Add(1)
		}
		return false
	}
	var log bytes.Buffer
	c := at(t, s)
	made, err := fetch.New(fetch.Config{
		UserAgent: "test", Allowed: []string{s.server.URL}, Rate: 10_000, Credentials: map[string]fetch.Credential{s.server.URL: fetch.Bearer(token)},
		RootCAs: s.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	c.Client, c.Log = made, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w := mustOpen(t, c)
	all(t, w)
	report, err := w.Report.Marshal()
	if err != nil || sent.Load() == 0 || len(w.Report.Problems) == 0 {
		t.Fatal(err, sent.Load(), w.Report.Problems)
	}
	if text := string(report) + log.String() + fmt.Sprintf("%+v", c); strings.Contains(text, token) {
		t.Errorf("the token is told:\n%s", text)
	}
}
