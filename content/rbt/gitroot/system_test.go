//go:build system

package gitroot

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/http/cgi"
	"net/http/fcgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// A realRepository is one that git itself made. Its commits claim to be of the
// same second, as those of a rebase are: no time tells which of them are new.
type realRepository struct {
	t         *testing.T
	root, dir string // the folder of repositories, and that of this one
	commits   []string
}

func newRealRepository(t *testing.T) *realRepository {
	t.Helper()
	root := t.TempDir()
	r := &realRepository{t: t, root: root, dir: filepath.Join(root, "repo.git")}
	r.git("init", "-q", "-b", "main", r.dir)
	for i := range 30 {
		r.commit(map[string]string{"README.md": fmt.Sprint("Revision ", i), fmt.Sprintf("docs/%02d.md", i): noise(i)})
	}
	r.git("tag", "-a", "-m", "One", "v1", r.commits[10])
	r.git("gc", "-q", "--aggressive")
	return r
}

// noise is a text of 6 KB that packs badly.
func noise(seed int) string {
	var b strings.Builder
	for line := range 100 {
		fmt.Fprintf(&b, "%x\n", sha256.Sum256(fmt.Append(nil, seed, line)))
	}
	return b.String()
}

// git runs git in the repository, away from what the machine has configured.
func (r *realRepository) git(args ...string) string {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), "git", args...)
	if _, err := os.Stat(r.dir); err == nil {
		c.Dir = r.dir
	}
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (r *realRepository) commit(files map[string]string) {
	r.t.Helper()
	for name, text := range files {
		name = filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", ".")
	r.git("commit", "-q", "-m", "Change")
	r.commits = append(r.commits, strings.TrimSpace(r.git("rev-parse", "HEAD")))
}

// at is what git says that a commit holds.
func (r *realRepository) at(ref string) map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for _, name := range strings.Split(strings.TrimSpace(r.git("ls-tree", "-r", "--name-only", ref)), "\n") {
		all[name] = r.git("show", ref+":"+name)
	}
	return all
}

// check holds what is fetched against what git says, before and after changes.
func (r *realRepository) check(c *Client, at rbt.Remote) {
	r.t.Helper()
	repo := open(r.t, c, at)
	before := mustFetch(r.t, repo, main)
	if got, want := contents(r.t, before), r.at("main"); !maps.Equal(got, want) {
		r.t.Errorf("%d files differ from the %d of git", len(got), len(want))
	}
	r.commit(map[string]string{"docs/03.md": "edited", "new.md": "new"})
	r.checkTransfer(repo, before, 5, "docs/03.md", "new.md") // and the commit, and two folders
	before = mustFetch(r.t, repo, main)
	r.git("checkout", "-q", "-b", "side", r.commits[10])
	r.commit(map[string]string{"side.md": "what was begun long ago"})
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "-m", "Merge", "side")
	r.checkTransfer(repo, before, 3, "side.md") // the merge and its root; the side's own commit is history
	before = mustFetch(r.t, repo, main)
	r.git("reset", "-q", "--hard", r.commits[30])
	r.commit(map[string]string{"docs/04.md": "written anew"})
	r.checkTransfer(repo, before, 4, "docs/04.md", "side.md") // the commit, two folders and the file
	for ref, commit := range map[rbt.Ref]string{"refs/tags/v1": r.commits[10], rbt.Ref(r.commits[5]): r.commits[5], Head: "main"} {
		if got := contents(r.t, mustFetch(r.t, repo, ref)); !maps.Equal(got, r.at(commit)) {
			r.t.Errorf("at %s, files differ from those of git", ref)
		}
	}
}

// checkTransfer fetches main and sees to it that as many objects came as are new,
// and no other, and that these paths have changed.
func (r *realRepository) checkTransfer(repo *Repository, before *Tree, came int, paths ...string) {
	r.t.Helper()
	held := r.objects(repo)
	after := mustFetch(r.t, repo, main)
	if got := contents(r.t, after); !maps.Equal(got, r.at("main")) {
		r.t.Error("after a change, files differ from those of git")
	}
	var changed []string
	for change, err := range after.Changes(r.t.Context(), before) {
		if err != nil {
			r.t.Fatal(err)
		}
		changed = append(changed, change.Path)
	}
	if !slices.Equal(changed, paths) {
		r.t.Errorf("changed are %q, want %q", changed, paths)
	}
	now := r.objects(repo)
	maps.DeleteFunc(now, func(name, _ string) bool { return held[name] != "" })
	if len(now) != came {
		r.t.Errorf("%d objects came for %q, want %d: %q", len(now), paths, came, now)
	}
	if text, err := os.ReadFile(filepath.Join(repo.dir, "shallow")); err != nil || len(text) == 0 {
		r.t.Errorf("the history was transferred (%v)", err)
	}
}

// objects are what git finds in the packs of a state, all of which it can read:
// the kind and size of each, by its name.
func (r *realRepository) objects(repo *Repository) map[string]string {
	r.t.Helper()
	packs, err := filepath.Glob(filepath.Join(repo.dir, "objects", "pack", "*.idx"))
	if err != nil || len(packs) == 0 {
		r.t.Fatalf("packs are %q, %v", packs, err)
	}
	all := make(map[string]string)
	for _, name := range packs {
		for line := range strings.Lines(r.git("verify-pack", "-v", name)) {
			if fields := strings.Fields(line); len(fields) >= 5 && len(fields[0]) == 40 {
				all[fields[0]] = fields[1] + " " + fields[2]
			}
		}
	}
	return all
}

func TestARepositoryIsServedByNginx(t *testing.T) {
	backend := filepath.Join(strings.TrimSpace(commandOutput(t, "git", "--exec-path")), "git-http-backend")
	for _, reachable := range []string{"false", "true"} {
		t.Run("any commit may be asked for: "+reachable, func(t *testing.T) {
			r := newRealRepository(t)
			r.git("config", "uploadpack.allowReachableSHA1InWant", reachable)
			socket := filepath.Join(t.TempDir(), "git.sock")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(socket, 0o666); err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				fcgi.Serve(listener, &cgi.Handler{Path: backend, Env: []string{
					"GIT_PROJECT_ROOT=" + r.root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
				}})
			}()
			t.Cleanup(func() { listener.Close(); <-served })
			origin := startNginx(t, socket)
			c, err := New(Config{Fetch: fetch.Config{UserAgent: "test", Allowed: []string{origin}, Rate: 1000}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			at, err := rbt.ParseRemote(origin+"/repo.git", rbt.Options{Allowed: []string{origin}})
			if err != nil {
				t.Fatal(err)
			}
			r.check(c, at)
		})
	}
}

func commandOutput(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// startNginx passes all to a FastCGI server, and returns its own origin.
func startNginx(t *testing.T, socket string) string {
	t.Helper()
	dir := t.TempDir()
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	reserved.Close()
	conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr; events {}
http {
	access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	server {
		listen %[2]s;
		location / {
			fastcgi_param REQUEST_METHOD $request_method; fastcgi_param QUERY_STRING $query_string; fastcgi_param CONTENT_TYPE $content_type;
			fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param SERVER_PROTOCOL $server_protocol; fastcgi_param REQUEST_URI $request_uri;
			fastcgi_param SCRIPT_NAME ""; fastcgi_param HTTP_HOST $http_host; fastcgi_pass unix:%[3]s;
		}
	}
}`, dir, address, socket)
	name := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(name, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	nginx := exec.Command("nginx", "-c", name, "-p", dir)
	var said strings.Builder
	nginx.Stderr = &said
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nginx.Process.Kill()
		nginx.Wait()
		if t.Failed() {
			t.Logf("nginx said:\n%s", said.String())
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestARepositoryIsServedByGitOverSSH(t *testing.T) {
	r := newRealRepository(t)
	signer, keyFile := newKey(t, "")
	s := startSSH(t, newOrigin(t), signer.PublicKey())
	s.exec = func(channel ssh.Channel, command string) {
		shell := exec.Command("sh", "-c", command) // as sshd has a user's shell do
		shell.Stdin, shell.Stdout, shell.Stderr = channel, channel, channel.Stderr()
		shell.Run()
	}
	r.check(s.client(t, keyFile, nil), remote(t, "ssh://git@"+s.address+r.dir))
}
