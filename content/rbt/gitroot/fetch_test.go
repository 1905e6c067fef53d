package gitroot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestAFetchBringsTheFilesOfABranch(t *testing.T) {
	o := newOrigin(t)
	want := map[string]string{"README.md": "# Hello\n", "docs/a.md": "A", "docs/deep/b.md": "B", "docs.txt": "T"}
	id := o.commit(want)
	r, c := serve(t, o, Limits{})
	all := mustFetch(t, open(t, c, r), main)
	if got := contents(t, all); !maps.Equal(got, want) {
		t.Errorf("files are %q, want %q", got, want)
	}
	if all.Commit.ID != id || all.Commit.Subject != "Change the files" || all.Commit.Author != "A. Writer <writer@example.org>" || all.Commit.Time.Unix() != 1700000000 {
		t.Errorf("the commit is %+v", all.Commit)
	}
	below, err := all.repo.Tree(id, "docs")
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, below); !maps.Equal(got, map[string]string{"a.md": "A", "deep/b.md": "B"}) {
		t.Errorf("files below docs are %q", got)
	}
	for _, path := range []string{"nowhere", "README.md"} {
		if _, err := all.repo.Tree(id, path); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrNotRegular) {
			t.Errorf("a tree below %s: %v", path, err)
		}
	}
}

func TestOnlyWhatIsNewIsTransferred(t *testing.T) {
	o := newOrigin(t)
	first := map[string]string{"a.md": "A", "docs/b.md": "B"}
	for i := range 200 {
		first[fmt.Sprintf("pages/%03d.md", i)] = fmt.Sprint("page ", i)
	}
	old := o.commit(first)
	r, c := serve(t, o, Limits{})
	repo := open(t, c, r)
	before := mustFetch(t, repo, main)
	second := maps.Clone(first)
	second["a.md"] = "A, edited"
	delete(second, "docs/b.md")
	second["docs/c.md"] = "C"
	o.commit(second)
	after := mustFetch(t, repo, main)
	if o.sent > 5 { // commit, root, docs, a.md, c.md
		t.Errorf("%d objects came for one edit", o.sent)
	}
	if got := contents(t, after); !maps.Equal(got, second) {
		t.Errorf("files are %q", got)
	}
	got := make(map[string]string)
	for change, err := range after.Changes(t.Context(), before) {
		if err != nil {
			t.Fatal(err)
		}
		got[change.Path] = fmt.Sprint(change.Old.Size, " to ", change.New.Size)
	}
	if want := map[string]string{"a.md": "1 to 9", "docs/b.md": "1 to 0", "docs/c.md": "0 to 1"}; !maps.Equal(got, want) {
		t.Errorf("changes are %v, want %v", got, want)
	}
	n := len(o.requests())
	mustFetch(t, repo, main)
	mustFetch(t, repo, rbt.Ref(old.String()))
	if len(o.requests()) != n {
		t.Error("what is held was asked for")
	}
	for _, q := range o.requests() {
		if q.Depth.IsZero() {
			t.Error("the history was asked for")
		}
	}
}

func TestAStateIsTakenUpAgain(t *testing.T) {
	o := newOrigin(t)
	ids := manyCommits(o, 1)
	r, c := serve(t, o, Limits{})
	dir := t.TempDir()
	repo, err := c.Open(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	mustFetch(t, repo, main)
	repo.Close()
	left := filepath.Join(dir, "objects", "pack", temporary+"pack_1")
	if err := os.WriteFile(left, []byte("PACK"), 0o600); err != nil {
		t.Fatal(err)
	}
	repo, err = c.Open(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Error("what an earlier process left behind is still there")
	}
	if _, err := repo.Tree(ids[0], "."); err != nil {
		t.Errorf("the commit of the earlier process: %v", err)
	}
	if _, err := repo.Tree(ID{1}, "."); !errors.Is(err, ErrNoCommit) {
		t.Errorf("a commit that was never fetched: %v", err)
	}
}

func TestEveryFormOfRefIsFound(t *testing.T) {
	o := newOrigin(t)
	ids := manyCommits(o, 5)
	tagText := fmt.Sprintf("object %s\ntype commit\ntag v1\ntagger T <t@example.org> 1700000000 +0000\n\nOne\n", ids[3])
	o.refs["refs/tags/v1"] = put(t, o.store, plumbing.TagObject, []byte(tagText))
	o.refs["refs/tags/light"] = plumbing.Hash(ids[2])
	for _, tt := range []struct {
		name      string
		ref       rbt.Ref
		abilities []capability.Capability
		want      ID
	}{
		{"a branch", main, nil, ids[4]},
		{"HEAD", Head, nil, ids[4]},
		{"a tag with a text", "refs/tags/v1", nil, ids[3]},
		{"a tag without one", "refs/tags/light", nil, ids[2]},
		{"the commit of a branch", rbt.Ref(ids[4].String()), nil, ids[4]},
		{"a commit in the history, of a server that hands out any", rbt.Ref(ids[0].String()), []capability.Capability{capability.AllowReachableSHA1InWant}, ids[0]},
		{"a commit in the history, of a server that hands out tips alone", rbt.Ref(ids[1].String()), nil, ids[1]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			served := &origin{t: t, store: o.store, refs: o.refs, abilities: append(tt.abilities, o.abilities...)}
			r, c := serve(t, served, Limits{})
			all := mustFetch(t, open(t, c, r), tt.ref)
			if all.Commit.ID != tt.want {
				t.Errorf("commit %s, want %s", all.Commit.ID, tt.want)
			}
			if len(contents(t, all)) != 2 {
				t.Error("its files are not all there")
			}
		})
	}
	r, c := serve(t, o, Limits{})
	repo := open(t, c, r)
	for _, ref := range []rbt.Ref{"refs/heads/nowhere", rbt.Ref(strings.Repeat("0a", 20))} {
		if _, err := repo.Fetch(t.Context(), ref); !errors.Is(err, ErrNoRef) {
			t.Errorf("ref %s: %v", ref, err)
		}
	}
}

func TestAServerOfFewAbilitiesIsEnough(t *testing.T) {
	o := newOrigin(t)
	o.abilities = nil
	manyCommits(o, 3)
	r, c := serve(t, o, Limits{})
	repo := open(t, c, r)
	mustFetch(t, repo, main)
	o.commit(map[string]string{"a.md": "new"})
	if got := contents(t, mustFetch(t, repo, main)); got["a.md"] != "new" {
		t.Errorf("files are %q", got)
	}
}

func TestACommitIsHeldOnlyWhenWhole(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"a.md": "A", "docs/b.md": "B"})
	r, c := serve(t, o, Limits{})
	repo := open(t, c, r)
	mustFetch(t, repo, main)
	missing := put(t, o.store, plumbing.BlobObject, []byte("C"))
	id := o.commit(map[string]string{"a.md": "A", "docs/c.md": "C"})
	o.leaveOut = map[plumbing.Hash]bool{missing: true}
	if _, err := repo.Fetch(t.Context(), main); !errors.Is(err, ErrProtocol) {
		t.Errorf("a pack without an object of its commit: %v", err)
	}
	if _, err := repo.Commit(id); !errors.Is(err, ErrNoCommit) {
		t.Errorf("the commit counts as held: %v", err)
	}
	o.leaveOut = nil
	if got := contents(t, mustFetch(t, repo, main)); got["docs/c.md"] != "C" {
		t.Errorf("after the server has recovered, files are %q", got)
	}
}

func TestALostObjectIsFetchedAnew(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"a.md": "A", "docs/b.md": "B"})
	r, c := serve(t, o, Limits{})
	repo := open(t, c, r)
	mustFetch(t, repo, main)
	packs, err := filepath.Glob(filepath.Join(repo.dir, "objects", "pack", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, name := range packs { // the state says that the commit is held, and it is not
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := repo.reopen(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a.md": "A2", "docs/b.md": "B"}
	o.commit(want)
	if got := contents(t, mustFetch(t, repo, main)); !maps.Equal(got, want) {
		t.Errorf("files are %q", got)
	}
}

func TestAStateThatHasGrownIsBegunAnew(t *testing.T) {
	o := newOrigin(t)
	r, c := serve(t, o, Limits{State: 2000})
	repo := open(t, c, r)
	var last *Tree
	for i := range 6 {
		o.commit(map[string]string{"a.md": fmt.Sprint(i), "b.md": strings.Repeat("B", i)})
		last = mustFetch(t, repo, main)
	}
	if got := contents(t, last); got["a.md"] != "5" {
		t.Errorf("files are %q", got)
	}
	anew := 0
	for _, q := range o.requests() {
		if len(q.Haves) == 0 {
			anew++
		}
	}
	if anew < 2 {
		t.Errorf("the state was begun %d times", anew)
	}
	if grown, err := repo.grown(); err != nil || grown && len(o.requests()) == 0 {
		t.Error(grown, err)
	}
}

func TestALocalRepositoryIsReadWhereItLies(t *testing.T) {
	dir := t.TempDir()
	made, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	h := commitTree(t, made.Storer, files(t, made.Storer, map[string]string{"a.md": "A"}), "One")
	if err := made.Storer.SetReference(plumbing.NewHashReference("refs/heads/main", h)); err != nil {
		t.Fatal(err)
	}
	repo, err := OpenLocal(dir, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	first := mustFetch(t, repo, main)
	if got := contents(t, first); got["a.md"] != "A" {
		t.Errorf("files are %q", got)
	}
	next := commitTree(t, made.Storer, files(t, made.Storer, map[string]string{"a.md": "A2"}), "Two", h)
	if err := made.Storer.SetReference(plumbing.NewHashReference("refs/heads/main", next)); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, mustFetch(t, repo, main)); got["a.md"] != "A2" {
		t.Errorf("after a commit, files are %q", got)
	}
	if got := contents(t, mustFetch(t, repo, rbt.Ref(h.String()))); got["a.md"] != "A" {
		t.Errorf("by its ID, the first commit's files are %q", got)
	}
	if _, err := repo.Fetch(t.Context(), "refs/heads/none"); !errors.Is(err, ErrNoRef) {
		t.Errorf("a branch that is not there: %v", err)
	}
	if _, err := OpenLocal(t.TempDir(), Limits{}); err == nil {
		t.Error("a folder that is no repository was opened")
	}
}

func TestAnErrorOfTheServerKeepsItsName(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    error
		status  int
	}{
		{"no repository", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, ErrNoRef, 404},
		{"credentials are asked for", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }, ErrAuth, 401},
		{"too many requests", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusTooManyRequests) }, nil, 429},
		{"a web page", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }, ErrProtocol, 0},
		{"refs that are none", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprint(w, "001e# service=git-upload-pack\n0000zzzz")
		}, ErrProtocol, 0},
		{"a repository of SHA-256", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			fmt.Fprintf(w, "001e# service=git-upload-pack\n0000005b%s HEAD\x00object-format=sha256 agent=git/2.4\n0000", strings.Repeat("ab", 20))
		}, ErrProtocol, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, c := serve(t, tt.handler, Limits{})
			_, err := open(t, c, r).Fetch(t.Context(), main)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || Status(err) != tt.status {
				t.Errorf("Fetch = %v, status %d", err, Status(err))
			}
		})
	}
}

// A server that packs a large repository says nothing meanwhile.
func TestASlowServerIsWaitedFor(t *testing.T) {
	o := newOrigin(t)
	o.commit(map[string]string{"a.md": "A"})
	o.spoil = func(pack []byte) []byte { time.Sleep(300 * time.Millisecond); return pack }
	server := httptest.NewTLSServer(o)
	t.Cleanup(server.Close)
	pool := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, tt := range []struct {
		given, held time.Duration
		ok          bool
	}{{50 * time.Millisecond, 50 * time.Millisecond, false}, {0, patience, true}} {
		c, err := New(Config{Fetch: fetch.Config{
			UserAgent: "test", Allowed: []string{server.URL}, RootCAs: pool, Rate: 1000, Retries: -1, HopTimeout: tt.given, StallTimeout: tt.given,
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		_, err = open(t, c, remote(t, server.URL+"/repo.git")).Fetch(t.Context(), main)
		if ok := err == nil; ok != tt.ok || !ok && !errors.Is(err, context.DeadlineExceeded) || c.stall != tt.held {
			t.Errorf("given %v: %v, and a patience of %v", tt.given, err, c.stall)
		}
	}
}
