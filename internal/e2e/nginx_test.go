//go:build system

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A webRig is an nginx that hands out what publisherd exports, with a second
// publisher that follows it and an indexer that gets the pages.
type webRig struct {
	*testing.T
	bin, dir string
	format   string
	addr     string
}

func newWebRig(t *testing.T, format string) *webRig {
	w := &webRig{T: t, bin: buildPrograms(t), dir: t.TempDir(), format: format, addr: freeAddress(t)}
	for _, name := range []string{"www", "nginx", "site/docs"} {
		if err := os.MkdirAll(w.path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"index": "home", "a": "first", "b": "second", "docs/c": "third"} {
		w.page(name, text)
	}
	w.write("nginx/nginx.conf", w.nginxConf())
	w.meet()
	return w
}

func (w *webRig) path(name string) string { return filepath.Join(w.dir, name) }

func (w *webRig) write(name, text string) {
	w.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *webRig) page(name, text string) {
	w.Helper()
	w.write("site/"+name+".html", "<!DOCTYPE html><html lang=en><head><title>"+name+"</title></head><body><p>"+text+"</p></body></html>")
}

// nginxConf runs in one process in the foreground, and touches no file but
// those below the rig's folder.
func (w *webRig) nginxConf() string {
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += kind + "_temp_path " + w.path("nginx/"+kind) + ";\n"
	}
	in := map[string][2]string{
		"tct": {"include " + w.path("nginx/tct-http.conf") + ";", "include " + w.path("nginx/tct-server.conf") + ";"},
		"scp": {"", "root " + w.path("www") + "; etag on;"},
		"arc": {"types { application/json json; }", "root " + w.path("www") + "; etag on; gzip_static on;"},
		"rbt": {"", gitLocation(w.path("git.sock"))},
	}[w.format]
	return fmt.Sprintf(`daemon off;
master_process off;
pid %s;
error_log %s;
events {}
http {
%slog_format asked "$request_uri $status $bytes_sent";
access_log %s asked;
%s
server { listen %s; %s }
}
`, w.path("nginx/pid"), w.path("nginx/error.log"), temp, w.path("nginx/access.log"), in[0], w.addr, in[1])
}

// run runs one of our programs and returns what it prints.
func (w *webRig) run(program string, args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), filepath.Join(w.bin, program), args...)
	cmd.Dir = w.dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("%s %q: %v\n%s", program, args, err, stderr.String())
	}
	return string(out)
}

// meet makes publisher and indexer, which runs until the test ends.
func (w *webRig) meet() {
	w.Helper()
	w.run("indexerd", "init", "--dir", "idx", "--identity", "spiffe://search.test/indexer", "--listen", "127.0.0.1:0", "--public", "127.0.0.1:0",
		"--admin", "off", "--endpoint", "indexer.test:7443", "--log-url", "http://log.test")
	w.run("publisherd", "init", "--dir", "pub", "--identity", "spiffe://docs.test/publisher", "--origin", "https://docs.test")
	w.write("pub.card", w.run("publisherd", "card", "--dir", "pub"))
	w.write("idx.card", w.run("indexerd", "card", "--dir", "idx"))
	w.run("indexerd", "trust", "add", "pub.card", "--origin", "https://docs.test", "--dir", "idx")
	idx := exec.Command(filepath.Join(w.bin, "indexerd"), "run", "--dir", w.path("idx"))
	if err := idx.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		idx.Process.Signal(syscall.SIGTERM)
		idx.Wait()
	})
	var told struct{ Listen string }
	w.eventually("the indexer runs", func() bool {
		b, err := os.ReadFile(w.path("idx/run.json"))
		return err == nil && json.Unmarshal(b, &told) == nil
	})
	w.run("publisherd", "trust", "add", "idx.card", "--endpoint", told.Listen, "--dir", "pub")
	w.run("publisherd", "source", "add", "files", "--kind", "site", "--location", "site", "--base-url", "https://docs.test/", "--dir", "pub")
	sitemap := map[string]string{"tct": "/llm-sitemap.json", "scp": "/sitemap.xml", "arc": "/arc-sitemap.json", "rbt": "/docs.git"}[w.format]
	w.run("publisherd", "source", "add", "web", "--kind", w.format, "--location", "http://"+w.addr+sitemap, "--base-url", "https://docs.test/",
		"--ignore-robots", "--rate", "100", "--dir", "pub")
	w.run("publisherd", "grant", "issue", "--indexer", "spiffe://search.test/indexer", "--source", "web", "--scope", "https://docs.test/",
		"--purpose", "search.index", "--dir", "pub")
}

func (w *webRig) eventually(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(w.path("nginx/error.log"))
			w.Fatalf("not within a minute: %s\n%s", what, log)
		}
	}
}

func (w *webRig) export() {
	w.Helper()
	args := []string{"export", "files", "--format", w.format, "--out", "www", "--base-url", "http://" + w.addr + "/", "--dir", "pub"}
	if w.format == "tct" {
		args = append(args, "--nginx", "nginx")
	}
	w.run("publisherd", args...)
}

// A pushed is what push prints, with what nginx was asked for.
type pushed struct {
	Sent, Deleted int
	Refused       []any
	asked         []string
}

// push starts nginx, pushes, and ends nginx, so that its log is whole.
func (w *webRig) push() pushed {
	w.Helper()
	os.Remove(w.path("nginx/access.log"))
	server := exec.Command("nginx", "-p", w.path("nginx"), "-c", w.path("nginx/nginx.conf"), "-e", w.path("nginx/error.log"))
	if err := server.Start(); err != nil {
		w.Fatal(err)
	}
	defer func() {
		server.Process.Kill()
		server.Wait()
	}()
	w.eventually("nginx listens", func() bool {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
	var p pushed
	if err := json.Unmarshal([]byte(w.run("publisherd", "push", "--json", "--dir", "pub")), &p); err != nil {
		w.Fatal(err)
	}
	server.Process.Signal(syscall.SIGTERM)
	server.Wait()
	log, err := os.ReadFile(w.path("nginx/access.log"))
	if err != nil {
		w.Fatal(err)
	}
	p.asked = strings.Split(strings.TrimSpace(string(log)), "\n")
	return p
}

// check compares a push with what it has to be: how many pages it brings, and
// how many requests it takes, the first of which has the status first.
func (w *webRig) check(what string, sent, deleted, requests int, first string) {
	w.Helper()
	p := w.push()
	if p.Sent != sent || p.Deleted != deleted || len(p.Refused) > 0 {
		w.Errorf("%s: %d sent, %d deleted, refused %v; want %d, %d", what, p.Sent, p.Deleted, p.Refused, sent, deleted)
	}
	if len(p.asked) != requests || !strings.HasPrefix(p.asked[0], first+" ") {
		w.Errorf("%s: nginx was asked %q, want %d requests, the first answered by %s", what, p.asked, requests, first)
	}
}

func TestATCTTreeIsFollowedByNginx(t *testing.T) {
	w := newWebRig(t, "tct")
	w.export()
	w.check("the first round", 4, 0, 5, "/llm-sitemap.json 200")
	w.check("without a change", 0, 0, 1, "/llm-sitemap.json 304")
	w.page("a", "edited")
	w.export()
	w.check("with an edit", 1, 0, 2, "/llm-sitemap.json 200")
	if err := os.Remove(w.path("site/b.html")); err != nil {
		t.Fatal(err)
	}
	w.export()
	w.check("with a deletion", 0, 1, 1, "/llm-sitemap.json 200")
	w.check("without a change again", 0, 0, 1, "/llm-sitemap.json 304")
}

func TestCollectionsAreFollowedByNginx(t *testing.T) {
	w := newWebRig(t, "scp")
	w.export()
	w.check("the first round", 4, 0, 2, "/sitemap.xml 200")
	w.check("without a change", 0, 0, 1, "/sitemap.xml 304")
	time.Sleep(1100 * time.Millisecond) // collections are told apart by the second
	w.page("a", "edited")
	w.export()
	w.check("with an edit, by the delta alone", 1, 0, 2, "/sitemap.xml 200")
	schema, err := filepath.Abs(filepath.Join(root, "content/scp/schema/urlset.xsd"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("xmllint", "--nonet", "--noout", "--schema", schema, w.path("www/sitemap.xml")).CombinedOutput(); err != nil {
		t.Errorf("xmllint: %v\n%s", err, out)
	}
	time.Sleep(1100 * time.Millisecond)
	if err := os.Remove(w.path("site/b.html")); err != nil {
		t.Fatal(err)
	}
	w.export()
	w.check("with a deletion, by a snapshot", 0, 1, 2, "/sitemap.xml 200")
}

func TestAnARCSitemapIsFollowedByNginx(t *testing.T) {
	w := newWebRig(t, "arc")
	w.export()
	// The policy, the deltas, which are not there yet, and the sitemap.
	w.check("the first round", 4, 0, 2, arcPolicy)
	w.check("without a change", 0, 0, 3, arcPolicy)
	w.page("a", "edited")
	w.export()
	w.check("with an edit, by the delta alone", 1, 0, 2, arcPolicy)
	if err := os.Remove(w.path("site/b.html")); err != nil {
		t.Fatal(err)
	}
	w.export()
	w.check("with a deletion, by the delta as well", 0, 1, 2, arcPolicy)
	w.check("without a change again", 0, 0, 2, arcPolicy)
}

// arcPolicy is what each round of a sitemap begins with: there may be a policy.
const arcPolicy = "/.well-known/arc-policy.json 404"
