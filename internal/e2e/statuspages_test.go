//go:build system

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// adminOf waits for the admin address in a daemon's run.json.
func adminOf(t *testing.T, dir string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var run struct{ Admin string }
		b, err := os.ReadFile(filepath.Join(dir, "run.json"))
		if err == nil && json.Unmarshal(b, &run) == nil && run.Admin != "" {
			return "http://" + run.Admin
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no admin address: %v", dir, err)
		}
	}
}

// chart waits for a page that has seen enough to draw.
func (p *programs) chart(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		b, err := fetch(t.Context(), url)
		if err == nil && strings.Contains(string(b), "<svg") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no chart after a minute: %v", url, err)
		}
	}
}

// TestStatusPagesInChromium opens the pages of both daemons while they work, and
// lets the script renew them.
func TestStatusPagesInChromium(t *testing.T) {
	p := newPrograms(t, 12)
	p.bin = buildPrograms(t)
	config, err := os.ReadFile(filepath.Join(p.Idx, "indexerd.yaml"))
	pair.Check(t, err)
	config = []byte(strings.Replace(string(config), `admin: "off"`, "admin: 127.0.0.1:0", 1))
	pair.Check(t, os.WriteFile(filepath.Join(p.Idx, "indexerd.yaml"), config, 0o644))
	p.startIndexerd()
	daemon := exec.Command(filepath.Join(p.bin, "publisherd"), "run", "--dir", p.Pub, "--admin", "127.0.0.1:0")
	pair.Check(t, daemon.Start())
	defer func() { daemon.Process.Kill(); daemon.Wait() }()
	pages := map[string][]string{
		adminOf(t, p.Idx) + "/": {"indexerd", "Agreements", "spiffe://docs.test/publisher", "Transparency log", "Witnesses", "Pages taken in"},
		adminOf(t, p.Pub) + "/": {"publisherd", "Indexers and grants", "spiffe://search.test/indexer", "Collections", "Logs of the indexers", "Pages acknowledged"},
	}
	p.pushAll()
	for i := range 12 {
		p.Write(i, fmt.Sprintf("other words %d", i))
	}
	p.pushAll()
	for url, wants := range pages {
		p.chart(t, url)
		dom, console, others := newBrowser(t, url).load(url, "--virtual-time-budget=12000")
		for _, want := range append(wants, "search.index", "Certificate and trust", "Admin actions", "<svg", "Updated every five seconds.", "Stop updating</button>") {
			if !strings.Contains(dom, want) {
				t.Errorf("%s: %q is not in the document:\n%s", url, want, dom)
			}
		}
		if len(console) > 0 || len(others) > 0 {
			t.Errorf("%s: the console says %q; also asked for: %q", url, console, others)
		}
	}
}
