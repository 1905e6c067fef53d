package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

const password = "s3cret-Zq81"

func TestCredentialsAreInNoErrorLogOrFile(t *testing.T) {
	granted := 0
	c := newWebCase(t, content.FormatTCT, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, p, ok := r.BasicAuth(); ok && p == password {
			granted++
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	file := filepath.Join(c.dir, "credential")
	if err := os.WriteFile(file, []byte("Basic us:"+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_CREDENTIAL", "Basic us:"+password)
	t.Setenv("BROKEN_CREDENTIAL", "Bacis us:"+password)
	dir := t.TempDir()
	for i, r := range []Remote{{CredentialsFile: file}, {CredentialsEnv: "SOURCE_CREDENTIAL"}, {CredentialsEnv: "BROKEN_CREDENTIAL"}} {
		r.Rate, r.IgnoreRobots = maxRate, true
		c.source.Remote, c.reader = r, nil
		add := AddSource(dir, c.source)
		logger.Info("added", "source", c.source, "error", add)
		if add != nil {
			continue
		}
		_, err := c.remote().run(t.Context())
		logger.Error("scanned", "reader", fmt.Sprintf("%+v", c.reader), "error", err)
		if granted != i+1 {
			t.Errorf("%+v: the credential did not arrive", r)
		}
		b, err := os.ReadFile(filepath.Join(dir, "sources", "site.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		log.Write(b)
	}
	if granted != 2 || strings.Contains(log.String(), password) {
		t.Errorf("granted %d times; logs and files:\n%s", granted, log.String())
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	c.source.Remote = Remote{CredentialsFile: file}
	if err := AddSource(dir, c.source); !errors.Is(err, identity.ErrPermission) {
		t.Errorf("a credential that all may read: %v", err)
	}
}

func TestADeniedPurposeWithholdsTheGrant(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sources"), 0o755); err != nil {
		t.Fatal(err)
	}
	var p content.Preferences
	p.State(content.PurposeAITrain, content.No, "allow_ai_train in the policy")
	p.State(content.PurposeSearchIndex, content.Yes, "allow_search_indexing in the policy")
	if err := keepPreferences(dir, "site", p); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		purposes grants.Purposes
		refused  bool
	}{
		{"what is allowed may be granted", grants.Purposes{grants.SearchIndex}, false},
		{"what is not spoken of may be granted", grants.Purposes{grants.RAGRetrieve}, false},
		{"what is denied may not", grants.Purposes{grants.AITrain, grants.SearchIndex}, true},
		{"who denies training denies fine-tuning", grants.Purposes{grants.AIFinetune}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var refused *Refused
			stated, err := readPreferences(dir, "site")
			if err == nil {
				err = withheld(stated, "site", "spiffe://search.test/indexer", tt.purposes)
			}
			if errors.As(err, &refused) != tt.refused || tt.refused && refused.Reason != grants.ErrPurpose || err != nil && !tt.refused {
				t.Errorf("withheld = %v", err)
			}
		})
	}
	err := keepPreferences(dir, "site", content.Preferences{})
	if stated, read := readPreferences(dir, "site"); err != nil || read != nil || len(stated.Lines()) > 0 {
		t.Errorf("once the source says nothing any more: %q, %v, %v", stated.Lines(), err, read)
	}
}

func TestWhatASourceSaysIsKeptBeforeItsPages(t *testing.T) {
	c := newWebCase(t, content.FormatTCT, nil)
	c.write("index.html", "one")
	tree, err := tct.OpenExport(tct.ExportConfig{
		Dir: c.out, Mapping: tct.Mapping{Base: c.server.URL + "/"}, Policy: &tct.Policy{Profile: tct.PolicyProfile, Version: 1, AllowAITrain: content.No},
	})
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range (c.scanner().source).Pages(t.Context(), nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		p.URL = c.server.URL + "/"
		p.Payload, p.Fingerprint = tct.Encode(nil, tct.Document{URL: p.URL, Title: p.Title, Content: "one"})
		if err := tree.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tree.Commit(); err != nil {
		t.Fatal(err)
	}
	s := c.remote()
	broken := errors.New("the disk is full")
	s.keep = func(content.Preferences) error { return broken }
	if _, err := s.run(t.Context()); !errors.Is(err, broken) || c.j.mustHead(t).Revision != 0 {
		t.Errorf("preferences that could not be kept: %v, revision %d", err, c.j.mustHead(t).Revision)
	}
	c.round()
	if denied := c.kept.Denied(); len(denied) != 1 || denied[0].Purpose != content.PurposeAITrain {
		t.Errorf("kept %v", c.kept.Stated())
	}
}

func TestAServerIsAskedByItsInterval(t *testing.T) {
	l := &scanLoop{every: func() time.Duration { return time.Second }}
	for _, tt := range []struct {
		name  string
		s     Source
		draw  int64
		after time.Duration
	}{
		{"a folder by the daemon's own", Source{Location: "/srv"}, 0, time.Second},
		{"a server by the default, a tenth less", Source{Location: "https://a.test/s.json"}, 0, 15 * time.Minute * 9 / 10},
		{"a server by its own, a tenth more", Source{Location: "https://a.test/s.json", Remote: Remote{Interval: "10m"}}, int64(2 * time.Minute), 11 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l.draw = func(n int64) int64 { return min(tt.draw, n-1) }
			if got := l.pause(tt.s); got != tt.after {
				t.Errorf("pause = %v, want %v", got, tt.after)
			}
		})
	}
}

func TestARemoteSourceIsCheckedStrictly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		s     Source
		wants string
	}{
		{"a site on a server", Source{Kind: "site", Location: "https://a.test/"}, "a site is a folder"},
		{"an interval for a folder", Source{Kind: "tct", Location: "/srv", Remote: Remote{Interval: "5m"}}, "concern a location that is a URL"},
		{"an interval that is too short", Source{Kind: "tct", Location: "https://a.test/s.json", Remote: Remote{Interval: "1s"}}, "want a duration"},
		{"two places of a credential", Source{Kind: "tct", Location: "https://a.test/s.json", Remote: Remote{CredentialsFile: "a", CredentialsEnv: "b"}}, "not in several"},
		{"a credential in the clear", Source{Kind: "tct", Location: "http://a.test/s.json", Remote: Remote{CredentialsEnv: "HOME"}}, "HOME"},
		{"an origin with a path", Source{Kind: "scp", Location: "https://a.test/s.xml", Remote: Remote{AllowOrigins: []string{"https://b.test/x"}}}, "allowed origin"},
		{"another scheme", Source{Kind: "scp", Location: "ftp://a.test/s.xml"}, "no such file"},
		{"an endless rate", Source{Kind: "tct", Location: "https://a.test/s.json", Remote: Remote{Rate: 1e9}}, "rate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Name = "x"
			if err := AddSource(t.TempDir(), tt.s); err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("error %v, want %q in it", err, tt.wants)
			}
		})
	}
}
