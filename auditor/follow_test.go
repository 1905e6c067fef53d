package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/follow"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
)

func TestFollowConfigRefusesWhatItDoesNotKnow(t *testing.T) {
	const good = "- url: https://log.example\n  key: card.json\n"
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"a log", good, true},
		{"two logs, one with everything", good + "- url: https://b.example\n  key: b.json\n  witnesses: p.txt\n  quorum: 2\n  notes: [a, b]\n", true},
		{"JSON, which is YAML", `[{"url": "https://log.example", "key": "card.json"}]`, true},
		{"nothing", "", false},
		{"an empty list", "[]\n", false},
		{"a log that is no list", "url: https://log.example\nkey: card.json\n", false},
		{"a log without a key", "- url: https://log.example\n", false},
		{"a log without a URL", "- key: card.json\n", false},
		{"an unknown member", good + "  password: x\n", false},
		{"a member twice", good + "  key: other.json\n", false},
		{"a quorum that is no number", good + "  quorum: many\n", false},
		{"two documents", good + "---\n" + good, false},
		{"no YAML", "- [", false},
	} {
		if logs, err := parseFollowConfig([]byte(tt.text)); (err == nil) != tt.ok {
			t.Errorf("%s: %+v, %v", tt.name, logs, err)
		}
	}
}

func FuzzFollowConfig(f *testing.F) {
	f.Add([]byte("- url: https://log.example\n  key: card.json\n  notes: [a]\n"))
	f.Add([]byte("- &a {url: u, key: k}\n- *a\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		logs, err := parseFollowConfig(raw)
		if err == nil && len(logs) == 0 {
			t.Error("no log, and no error")
		}
		for _, log := range logs {
			if log.URL == "" || log.Key == "" {
				t.Errorf("%q is read as %+v", raw, log)
			}
		}
	})
}

func TestFilesOfAConfigAreBesideIt(t *testing.T) {
	log := followLog{Key: "card.json", Notes: []string{"notes", "/var/notes"}}
	log.within("/etc/auditor")
	if got := fmt.Sprint(log); got != "{ /etc/auditor/card.json  0 [/etc/auditor/notes /var/notes]}" {
		t.Error(got)
	}
}

// TestFollowServesMetricsUntilItIsStopped runs the command as a daemon, over a log
// that is not there.
func TestFollowServesMetricsUntilItIsStopped(t *testing.T) {
	s, dir := stage.New(t, 1), t.TempDir()
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	card := filepath.Join(dir, "card.json")
	if err := os.WriteFile(card, s.Indexer.Card.Object.Raw, 0o600); err != nil {
		t.Fatal(err)
	}
	f := followFlags{followLog: followLog{URL: gone.URL, Key: card}, state: filepath.Join(dir, "state"), every: time.Hour, stale: time.Hour, json: true}
	logs, err := f.logs()
	if err != nil {
		t.Fatal(err)
	}
	set, err := follow.Open(follow.Options{Dir: f.state, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Rand: func(int64) int64 { return 0 }}, logs)
	if err != nil {
		t.Fatal(err)
	}
	monitor := followMonitor(set)
	ask := func(path string) (int, string) {
		rec := httptest.NewRecorder()
		monitor.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		return rec.Code, rec.Body.String()
	}
	if code, body := ask("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "has not been looked at yet") {
		t.Errorf("readyz: %d, %s", code, body)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out := writerFunc(func(b []byte) (int, error) {
		if !strings.Contains(string(b), `"reason":"absent"`) {
			t.Errorf("printed: %s", b)
		}
		cancel()
		return len(b), nil
	})
	if err := followOn(ctx, out, set, f, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("followOn = %v", err)
	}
	for path, want := range map[string]string{"/readyz": "ok", "/healthz": "ok", "/metrics": `uzpif_oi_follow_errors_total{log="` + s.Origin() + `",reason="absent"} 1`} {
		if code, body := ask(path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %s", path, code, body)
		}
	}
	f.metrics = "nonsense"
	if err := followOn(t.Context(), io.Discard, set, f, slog.New(slog.DiscardHandler)); cli.CodeOf(err) != cli.Usage {
		t.Errorf("--metrics nonsense: %v", err)
	}
	if err := set.Close(); err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
