package follow

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// TestAHangingLogHoldsUpNoOther follows one log that takes every request and
// answers none, beside one that grows.
func TestAHangingLogHoldsUpNoOther(t *testing.T) {
	slow, quick, dir := newLiar(t, 1), newLiar(t, 1), t.TempDir()
	var card *identity.Card = slow.stage.OtherLog(t)
	slow.stage.Indexer.Card = card
	slow.answer = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		<-r.Context().Done()
		return true
	}
	o := quick.options(dir)
	o.Remote.Timeout = time.Minute
	s, err := Open(o, []Log{{URL: slow.url, Card: card}, {URL: quick.url, Card: quick.card()}})
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex // guards rounds
	rounds := map[string]int{}
	s.Run(ctx, func(r *Report) {
		mu.Lock()
		defer mu.Unlock()
		if rounds[r.Origin]++; r.Err != nil {
			t.Error(r.Err)
		}
		quick.grow(1, nil)
		if rounds[r.Origin] == 5 {
			cancel()
		}
	})
	if n := rounds[quick.stage.Origin()]; n != 5 || rounds[card.Log.Origin] != 0 {
		t.Errorf("%v rounds, want 5 of the quick one", rounds)
	}
	if n := s.Figures()[1]; n.Verified != 4 || n.Rounds != 5 || n.Checked != 4 {
		t.Errorf("%+v", n)
	}
	check(t, s.Close())
}

func TestALogThatIsDownIsAskedLessOften(t *testing.T) {
	s := &Set{o: Options{Every: time.Minute, Rand: func(n int64) int64 { return n - 1 }}}
	for _, tt := range []struct {
		failures int
		most     time.Duration
	}{{0, time.Minute}, {1, 2 * time.Minute}, {2, 4 * time.Minute}, {3, 8 * time.Minute}, {4, longestPause}, {1000, longestPause}} {
		if got := s.wait(tt.failures); got != tt.most {
			t.Errorf("after %d failures: %s, want %s", tt.failures, got, tt.most)
		}
	}
	s.o.Rand = func(int64) int64 { return 0 }
	if got := s.wait(1000); got != time.Minute {
		t.Errorf("at least %s", got)
	}
	s.o.Every = time.Hour
	if got := s.wait(3); got != time.Hour {
		t.Errorf("every hour: %s", got)
	}
}

// scrape is what the metrics of s are.
func scrape(t *testing.T, s *Set) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(s.Collector())
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return rec.Body.String()
}

func TestMetricsShowTheRounds(t *testing.T) {
	l := newLiar(t, 1)
	l.grow(12, nil)
	s, err := Open(l.options(t.TempDir()), []Log{{URL: l.url, Card: l.card()}})
	check(t, err)
	s.Once(t.Context())
	l.set(func() { l.answer = absent("/") })
	s.Once(t.Context())
	l.set(func() { l.answer = nil })
	l.rewrite(3)
	l.pass(90 * time.Second)
	s.Once(t.Context())
	got := scrape(t, s)
	for _, want := range []string{
		"tree_entries{L} 12", "verified_entries{L} 12", "entries_verified_total{L} 12", "rounds_total{L} 3",
		"last_success_timestamp_seconds{L} 1.7621", "checkpoint_age_seconds{L} 90", "cosignatures{L} 0", "notes_refused{L} 0", "notes_ahead{L} 0",
		`alerts{kind="fork",L} 1`, `alerts{kind="stale",L} 0`, `errors_total{L,reason="absent"} 1`, `errors_total{L,reason="unavailable"} 0`,
	} {
		line := prefix + strings.Replace(want, "L}", `log="`+l.stage.Origin()+`"}`, 1)
		line = strings.Replace(line, "{L,", `{log="`+l.stage.Origin()+`",`, 1)
		if !strings.Contains(got, "\n"+line) {
			t.Errorf("there is no line %q in\n%s", line, got)
		}
	}
	check(t, s.Close())
}

// TestEveryMetricIsDescribed compares names and types with doc/metrics.md.
func TestEveryMetricIsDescribed(t *testing.T) {
	doc, err := os.ReadFile("../../doc/metrics.md")
	check(t, err)
	described := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `("+prefix+"[a-z0-9_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(doc), -1) {
		described[row[1]] = row[2]
	}
	l := newLiar(t, 1)
	l.grow(1, nil)
	s, err := Open(l.options(t.TempDir()), []Log{{URL: l.url, Card: l.card()}})
	check(t, err)
	s.Once(t.Context())
	for _, row := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(scrape(t, s), -1) {
		if described[row[1]] != row[2] {
			t.Errorf("doc/metrics.md says of %s %q, it is a %s", row[1], described[row[1]], row[2])
		}
		delete(described, row[1])
	}
	for name := range described {
		t.Errorf("doc/metrics.md describes %s, which is not there", name)
	}
	for _, k := range Kinds() {
		if k.meaning() == "" || !strings.Contains(string(doc), "| `"+string(k)+"` |") {
			t.Errorf("alerts of kind %s are not described", k)
		}
	}
	for _, r := range Reasons() {
		if !strings.Contains(string(doc), "| `"+string(r)+"` |") {
			t.Errorf("the reason %s is not described", r)
		}
	}
	check(t, s.Close())
}
