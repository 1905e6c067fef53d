package walk

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/server"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
)

// A remote is a repository on a server, by https on this machine.
type remote struct {
	t      *testing.T
	repo   *git.Repository
	store  *memory.Storage
	server *httptest.Server

	spoil func(pack []byte) []byte // what is sent in place of a pack; nil: the pack
	gone  atomic.Bool              // the server answers 404
	asked atomic.Int32
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{t: t, store: memory.NewStorage()}
	var err error
	if r.repo, err = git.Init(r.store, memfs.New()); err != nil {
		t.Fatal(err)
	}
	r.server = httptest.NewTLSServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *remote) root() rbt.Root {
	r.t.Helper()
	at, err := rbt.ParseRemote(r.server.URL+"/repo.git", rbt.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	return rbt.Root{Git: &rbt.GitRoot{Remote: at, Ref: "refs/heads/master", Path: "."}}
}

// commit makes files the newest commit.
func (r *remote) commit(files map[string]string) {
	r.t.Helper()
	tree, err := r.repo.Worktree()
	if err != nil {
		r.t.Fatal(err)
	}
	for name, text := range files {
		f, err := tree.Filesystem.Create(name)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			r.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			r.t.Fatal(err)
		}
		if _, err := tree.Add(name); err != nil {
			r.t.Fatal(err)
		}
	}
	who := &object.Signature{Name: "A", Email: "a@example.org", When: time.Unix(1700000000, 0)}
	if _, err := tree.Commit("Change", &git.CommitOptions{Author: who, AllowEmptyCommits: true}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *remote) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.asked.Add(1)
	if r.gone.Load() {
		http.NotFound(w, q)
		return
	}
	at, err := transport.NewEndpoint("/repo.git")
	if err != nil {
		r.t.Error(err)
		return
	}
	session, err := server.NewServer(server.MapLoader{at.String(): r.store}).NewUploadPackSession(at, nil)
	if err != nil {
		r.t.Error(err)
		return
	}
	defer session.Close()
	kind := map[bool]string{true: "advertisement", false: "result"}[q.Method == http.MethodGet]
	w.Header().Set("Content-Type", "application/x-git-upload-pack-"+kind)
	if q.Method == http.MethodGet {
		adv, err := session.AdvertisedReferencesContext(q.Context())
		if err != nil {
			r.t.Error(err)
			return
		}
		adv.Prefix = [][]byte{[]byte("# service=git-upload-pack"), {}}
		if err := adv.Encode(w); err != nil {
			r.t.Error(err)
		}
		return
	}
	r.pack(w, q, session)
}

func (r *remote) pack(w http.ResponseWriter, q *http.Request, session transport.UploadPackSession) {
	request := packp.NewUploadPackRequest()
	if err := request.UploadRequest.Decode(q.Body); err != nil {
		r.t.Error(err)
		return
	}
	answer, err := session.UploadPack(q.Context(), request)
	if err != nil {
		r.t.Error(err)
		return
	}
	var b bytes.Buffer
	if err := answer.Encode(&b); err != nil {
		r.t.Error(err)
		return
	}
	data := b.Bytes()
	if r.spoil != nil {
		data = r.spoil(data)
	}
	w.Write(data)
}

// fromGit is a walk that begins at roots, with a client for those of the remotes.
func fromGit(t *testing.T, roots []rbt.Root, remotes []*remote, sites ...*site) Config {
	t.Helper()
	c := at(t, sites...)
	f := fetch.Config{UserAgent: "test", Rate: 10_000, Retries: -1, Sleep: noSleep}
	for _, r := range remotes {
		f.Allowed = append(f.Allowed, r.server.URL)
		f.RootCAs = r.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	}
	made, err := gitroot.New(gitroot.Config{Fetch: f})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	c.Git, c.State, c.Start.Roots = made, t.TempDir(), roots
	return c
}

// asFiles are a burrow's documents and resources, for a commit.
func asFiles(s *site) map[string]string {
	files := make(map[string]string)
	for name, data := range s.files {
		files[name] = string(data)
	}
	return files
}

func TestAGitRootThatLiesIsPassedOver(t *testing.T) {
	content := asFiles(small(t))
	altered := func(name, text string) map[string]string {
		files := maps.Clone(content)
		files[name] = text
		return files
	}
	for _, tt := range []struct {
		name   string
		files  map[string]string
		behave func(r *remote)
		both   bool // the liar's manifest is the true one
	}{
		{"an altered manifest", altered(".burrow.json", strings.Replace(content[".burrow.json"], `"Test"`, `"Lies"`, 1)), nil, false},
		{"no manifest", map[string]string{"a.md": "A"}, nil, false},
		{"a manifest that is none", altered(".burrow.json", "{}"), nil, false},
		{"other octets in a file", altered("a.md", "a lie"), nil, true},
		{"other entries in a collection", altered("docs/.burrow.json", strings.Replace(content["docs/.burrow.json"], `"Test"`, `"Lies"`, 1)), nil, true},
		{"a pack that is broken", content, func(r *remote) { r.spoil = func(p []byte) []byte { p[len(p)-30] ^= 1; return p } }, false},
		{"a pack that is cut short", content, func(r *remote) { r.spoil = func(p []byte) []byte { return p[:len(p)/2] } }, false},
		{"no repository", content, func(r *remote) { r.gone.Store(true) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			liar, honest := newRemote(t), newRemote(t)
			liar.commit(tt.files)
			honest.commit(content)
			if tt.behave != nil {
				tt.behave(liar)
			}
			w := mustOpen(t, fromGit(t, []rbt.Root{liar.root(), honest.root()}, []*remote{liar, honest}))
			want := honest
			if tt.both {
				want = liar
			}
			if w.Root.String() != want.root().String() {
				t.Errorf("the manifest is from %s", w.Root)
			}
			_, texts := all(t, w)
			checkTexts(t, texts, map[string]string{".burrow.json a": "A", ".burrow.json b": "B", "docs/.burrow.json c": "C"})
			if w.Incomplete {
				t.Error("the walk is not whole")
			}
			if !tt.both && len(w.Report.Problems) == 0 {
				t.Error("the root that lies is not told of")
			}
			if liar.asked.Load() == 0 {
				t.Error("the root that lies was not asked")
			}
		})
	}
}

// What the last manifest named stands in for the one root that was asked for; what
// is older than that manifest does not.
func TestRootsOfTheLastManifestStandIn(t *testing.T) {
	first, web := newRemote(t), newSite(t)
	roots := []rbt.Root{first.root(), web.root()}
	publish := func(text string, updated time.Time) map[string]string {
		m := document(roots, file("a", "a.md", text))
		m.Updated = updated
		return map[string]string{".burrow.json": marshal(t, m), "a.md": text}
	}
	serve := func(files map[string]string) {
		for name, text := range files {
			web.put(name, text)
		}
	}
	day := time.Date(2025, 1, 15, 12, 0, 0, 0, time.UTC)
	old, current, next := publish("old", day), publish("current", day.Add(time.Hour)), publish("next", day.Add(2*time.Hour))
	first.commit(current)
	serve(current)
	now := time.Now()
	c := fromGit(t, roots[:1], []*remote{first}, web)
	c.Start.Roots, c.Now = roots[:1], func() time.Time { return now }
	checkWalk := func(name, want string) {
		t.Helper()
		now = now.Add(2 * time.Hour) // beyond what is kept
		_, texts := all(t, mustOpen(t, c))
		if texts[".burrow.json a"] != want {
			t.Errorf("%s: the entry is %q, want %q", name, texts[".burrow.json a"], want)
		}
	}
	checkWalk("the root is there", "current")
	first.gone.Store(true)
	checkWalk("it is gone", "current")
	serve(next)
	checkWalk("it is gone, and the other goes on", "next")
	serve(old)
	now = now.Add(2 * time.Hour)
	w, err := Open(t.Context(), c)
	w.Close()
	if !errors.Is(err, errOlder) || rbt.CategoryOf(err) != rbt.VerificationFailed {
		t.Errorf("the other goes back: %v", err)
	}
	first.gone.Store(false)
	checkWalk("the root is there again", "current")
}
