//go:build system

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/cgi"
	"net/http/fcgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// gitLocation passes all to a FastCGI server.
func gitLocation(socket string) string {
	return `location / {
fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string; fastcgi_param CONTENT_TYPE $content_type;
fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param SERVER_PROTOCOL $server_protocol; fastcgi_param REQUEST_URI $request_uri;
fastcgi_param SCRIPT_NAME ""; fastcgi_param HTTP_HOST $http_host; fastcgi_pass unix:` + socket + `; }`
}

// git runs git in a folder, away from what the machine has configured.
func (w *webRig) git(dir string, args ...string) string {
	w.Helper()
	c := exec.CommandContext(w.Context(), "git", args...)
	c.Dir = w.path(dir)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := c.CombinedOutput()
	if err != nil {
		w.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// serveGit hands out the repositories below srv by git http-backend, to nginx.
func (w *webRig) serveGit() {
	w.Helper()
	backend := filepath.Join(w.git(".", "--exec-path"), "git-http-backend")
	listener, err := net.Listen("unix", w.path("git.sock"))
	pair.Check(w, err)
	pair.Check(w, os.Chmod(w.path("git.sock"), 0o666))
	served := make(chan error)
	go func() {
		served <- fcgi.Serve(listener, &cgi.Handler{Path: backend, Env: []string{
			"GIT_PROJECT_ROOT=" + w.path("srv"), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		}})
	}()
	w.Cleanup(func() {
		listener.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			w.Error(err)
		}
	})
}

// burrow writes the site as a burrow, and commits it to where nginx finds it.
func (w *webRig) burrow() {
	w.Helper()
	w.run("publisherd", "export", "files", "--format", "rbt", "--out", "repo", "--git-remote", "https://git.docs.test/docs.git", "--title", "Docs", "--dir", "pub")
	if _, err := os.Stat(w.path("srv")); err != nil {
		w.git(".", "init", "-q", "-b", "main", "repo")
		w.git(".", "init", "-q", "-b", "main", "--bare", "srv/docs.git")
	}
	w.git("repo", "add", "-A")
	w.git("repo", "commit", "-q", "-m", "Publish")
	w.git("repo", "push", "-q", "../srv/docs.git", "main")
}

// digests are the digest of each page of a source that is read here, by its URL.
func (w *webRig) digests(source string) map[string]string {
	w.Helper()
	all := make(map[string]string)
	for line := range strings.Lines(w.run("publisherd", "source", "scan", source, "--json", "--dir", "pub")) {
		var page struct{ URL, Digest, Title string }
		pair.Check(w, json.Unmarshal([]byte(line), &page))
		if page.URL != "" {
			all[page.URL] = page.Digest + " " + page.Title
		}
	}
	return all
}

// moved is how many octets nginx sent for a pack.
func (p *pushed) moved(t *testing.T) (octets int) {
	t.Helper()
	for _, line := range p.asked {
		var uri string
		var status, n int
		_, err := fmt.Sscan(line, &uri, &status, &n)
		pair.Check(t, err)
		if strings.HasSuffix(uri, "/git-upload-pack") {
			octets += n
		}
	}
	return octets
}

// The 4,424 pages of cppreference become a burrow in a repository, which git hands
// out behind nginx: read back, they are the same, and of a commit only what it
// changed is transferred and pushed.
func TestABurrowIsFollowedByGitOnCppreference(t *testing.T) {
	w := newWebRig(t, "rbt")
	pair.CopyDir(t, "/usr/share/cppreference/doc/html/en", w.path("site"))
	w.serveGit()
	w.burrow()
	first := w.push()
	if first.Sent < 4000 || len(first.Refused) > 0 || first.moved(t) < 5_000_000 {
		t.Errorf("the first round: %d sent, refused %v, %d octets of git", first.Sent, first.Refused, first.moved(t))
	}
	// The repository itself, as it lies here, gives the same pages as the site.
	w.run("publisherd", "source", "add", "here", "--kind", "rbt", "--location", "repo", "--ref", "refs/heads/main", "--base-url", "https://docs.test/", "--dir", "pub")
	here, site := w.digests("here"), w.digests("files")
	if len(here) != first.Sent || len(site) != first.Sent {
		t.Errorf("%d pages in the burrow, %d in the site, %d were sent", len(here), len(site), first.Sent)
	}
	for url, digest := range site {
		if here[url] != digest {
			t.Errorf("%s is %q in the burrow, and %q in the site", url, here[url], digest)
		}
	}
	if nothing := w.push(); nothing.Sent != 0 || nothing.moved(t) != 0 {
		t.Errorf("without a commit: %d sent, %d octets of git", nothing.Sent, nothing.moved(t))
	}
	for _, name := range []string{"cpp/container/vector.html", "cpp/utility/functional.html", "c/io/fopen.html"} {
		html, err := os.ReadFile(w.path("site/" + name))
		pair.Check(t, err)
		w.write("site/"+name, string(bytes.Replace(html, []byte("</h1>"), []byte(", with new words</h1>"), 1)))
	}
	pair.Check(t, os.Remove(w.path("site/cpp/container/map.html")))
	w.burrow()
	edited := w.push()
	if edited.Sent != 3 || edited.Deleted != 1 || len(edited.Refused) > 0 {
		t.Errorf("after a commit: %d sent, %d deleted, refused %v", edited.Sent, edited.Deleted, edited.Refused)
	}
	// The manifest, which lists all, is the larger part of it.
	if n := edited.moved(t); n == 0 || n > first.moved(t)/10 {
		t.Errorf("after a commit, git sent %d octets; for all of it, it was %d", n, first.moved(t))
	}
	t.Logf("%d pages; git sent %d octets at first and %d for the commit", first.Sent, first.moved(t), edited.moved(t))
}
