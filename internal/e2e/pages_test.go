//go:build system

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// A browser is a Chromium that reaches the network through the test alone.
type browser struct {
	t     testing.TB
	proxy string

	// askedMu guards asked: the URLs that the browser asked for.
	askedMu sync.Mutex
	asked   []string
}

// newBrowser makes a browser that gets at the server whose URL begins with only,
// and at nothing else.
func newBrowser(t testing.TB, only string) *browser {
	b := &browser{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.String()
		b.askedMu.Lock()
		b.asked = append(b.asked, asked)
		b.askedMu.Unlock()
		if r.Method != http.MethodGet || !strings.HasPrefix(asked, only) {
			http.Error(w, "outside the test", http.StatusForbidden)
			return
		}
		r.RequestURI = ""
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		io.Copy(w, resp.Body)
	}))
	t.Cleanup(server.Close)
	b.proxy = server.URL
	return b
}

// own are the hosts of Chromium's own services, not all of which a flag turns
// off: it tries them whatever it shows.
var own = []string{
	"accounts.google.com", "www.google.com", "clients2.google.com", "content-autofill.googleapis.com", "edgedl.me.gvt1.com",
	"optimizationguide-pa.googleapis.com", "redirector.gvt1.com", "safebrowsing.googleapis.com", "update.googleapis.com",
}

// load opens url and returns the document as it stands then, what the console
// says, and which other URLs were asked for on behalf of the page.
func (b *browser) load(url string, flags ...string) (dom string, console, others []string) {
	b.t.Helper()
	b.askedMu.Lock()
	b.asked = nil
	b.askedMu.Unlock()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", append(flags,
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-extensions", "--no-pings",
		"--disable-features=OptimizationHints,MediaRouter,Translate,AutofillServerCommunication,CertificateTransparencyComponentUpdater",
		"--user-data-dir="+b.t.TempDir(), "--proxy-server="+b.proxy, "--proxy-bypass-list=<-loopback>",
		"--enable-logging=stderr", "--v=0", "--dump-dom", url)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var missing *exec.Error
		if errors.As(err, &missing) {
			b.t.Fatalf("%v; make test-system installs it", err)
		}
		b.t.Fatalf("chromium: %v: %s", err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.Contains(line, "CONSOLE") {
			console = append(console, strings.TrimSpace(line))
		}
	}
	b.askedMu.Lock()
	defer b.askedMu.Unlock()
	for _, asked := range b.asked {
		u, err := neturl.Parse(asked)
		pair.Check(b.t, err)
		if asked != url && !slices.Contains(own, u.Hostname()) {
			others = append(others, asked)
		}
	}
	return stdout.String(), console, others
}

func TestPagesInChromium(t *testing.T) {
	p := newPrograms(t, 12)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	p.pushAll()
	pair.Check(t, os.Remove(p.Page(3)))
	p.pushAll()
	time.Sleep(500 * time.Millisecond) // the log publishes its last checkpoint
	b := newBrowser(t, p.public)
	for _, tt := range []struct {
		path  string
		wants []string
	}{
		{"/", []string{
			"spiffe://search.test/indexer", p.VKey(), "<strong>Pages taken in</strong> <span class=\"soft\">12 pages</span>",
			"<strong>Pages removed</strong>", "auditor fsck http://" + p.Public + " --key card.json", `href="entry/1"`,
		}},
		{"/entry/1", []string{"<h1>Entry 1</h1>", "delete-ack", "Pages removed", `href="../proof/inclusion?index=1&amp;size=2"`}},
	} {
		dom, console, others := b.load(p.public + tt.path)
		for _, want := range tt.wants {
			if !strings.Contains(dom, want) {
				t.Errorf("%s: %q is not in the document:\n%s", tt.path, want, dom)
			}
		}
		if len(console) > 0 || len(others) > 0 {
			t.Errorf("%s: the console says %q; also asked for: %q", tt.path, console, others)
		}
	}
}

// TestStatusInChromium opens the report about a grant under a policy that lets
// it load nothing and run nothing.
func TestStatusInChromium(t *testing.T) {
	p := newPrograms(t, 12)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	p.pushAll()
	pair.Check(t, os.Remove(p.Page(3)))
	p.pushAll()
	time.Sleep(500 * time.Millisecond) // the log publishes its last checkpoint
	rels, err := publisher.Relationships(p.Pub)
	pair.Check(t, err)
	grant := rels[0].Pair.Grant.Object.ID.String()
	card, err := exec.Command(filepath.Join(p.bin, "indexerd"), "card", "--dir", p.Idx).Output()
	pair.Check(t, err)
	file := filepath.Join(t.TempDir(), "indexer.json")
	pair.Check(t, os.WriteFile(file, card, 0o600))
	report, err := exec.Command(filepath.Join(p.bin, "auditor"), "status", grant, "--log", p.public, "--key", file, "--format", "html").Output()
	pair.Check(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
		w.Write(report)
	}))
	defer server.Close()
	dom, console, others := newBrowser(t, server.URL).load(server.URL + "/")
	for _, want := range []string{"<h1>In force", "Taken in", "Deleted", "<svg", grant, "It does not show"} {
		if !strings.Contains(dom, want) {
			t.Errorf("%q is not in the document:\n%s", want, dom)
		}
	}
	if len(console) > 0 || len(others) > 0 {
		t.Errorf("the console says %q; also asked for: %q", console, others)
	}
}

// What TestPagesInChromium finds nothing of can be found.
func TestPagesInChromiumThatMisbehaveAreNoticed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "style-src 'none'")
		fmt.Fprint(w, "<!DOCTYPE html><title>x</title><link rel=icon href=data:,><style>p{color:red}</style><img src=//elsewhere.test/a.png><p>text")
	}))
	defer server.Close()
	dom, console, others := newBrowser(t, server.URL).load(server.URL + "/")
	if !strings.Contains(dom, "<p>text") || len(others) != 1 || others[0] != "http://elsewhere.test/a.png" {
		t.Errorf("%s; also asked for: %q", dom, others)
	}
	if all := strings.Join(console, "\n"); !strings.Contains(all, "Content Security Policy") {
		t.Errorf("the console says %q", console)
	}
}
