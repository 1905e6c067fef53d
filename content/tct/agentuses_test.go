package tct_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

func TestHeadersAndRobotsTxtSayHowPagesMayBeUsed(t *testing.T) {
	o := newOrigin(t, map[string]string{"/a/": "a", "/b/": "b"}, nil)
	o.instead = func(w http.ResponseWriter, r *http.Request, site http.Handler) {
		switch r.URL.Path {
		case "/robots.txt":
			io.WriteString(w, "User-agent: *\nAllow: /\nContent-Signal: search=yes, ai-input=no\n")
			return
		case "/a/llm.json":
			w.Header().Add("Content-Usage", "train-ai=y")
			w.Header().Add("Content-Usage", "train-ai=n")
			w.Header().Add("X-Robots-Tag", "noarchive")
		}
		site.ServeHTTP(w, r)
	}
	run := sync1(t, newAgent(t, o, func(c *tct.AgentConfig, _ *fetch.Config) { c.IgnoreRobots = false }), memory{})
	if run.err != nil || len(run.pages) != 2 || len(run.pages["/b/"].Preferences.Stated()) != 0 {
		t.Fatalf("%+v, %v", run.pages, run.err)
	}
	var denied []string
	for _, d := range run.pages["/a/"].Preferences.Denied() {
		denied = append(denied, d.Purpose)
	}
	if got := strings.Join(denied, " "); got != "ai.finetune ai.train archive" {
		t.Errorf("the page denies %q", got)
	}
	if w := strings.Join(run.pages["/a/"].Warnings, "\n"); !strings.Contains(w, "it is not offered under a grant of archive") {
		t.Errorf("warnings %q", w)
	}
	answer, by := run.Preferences.About(content.PurposeRAGRetrieve)
	if answer != content.No || !strings.HasSuffix(by.Origin, "line 3: Content-Signal ai-input=no") || !run.Preferences.Allows(content.PurposeSearchIndex) {
		t.Errorf("the site says %v", run.Preferences.Stated())
	}
}
