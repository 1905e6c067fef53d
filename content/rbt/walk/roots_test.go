package walk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
)

func TestARootThatLiesIsPassedOver(t *testing.T) {
	liar, honest := newSite(t), small(t)
	manifest := string(honest.files[".burrow.json"])
	roots := []rbt.Root{liar.root(), honest.root()}
	for _, tt := range []struct {
		name, manifest string
		from           rbt.Root
	}{
		{"an altered manifest", strings.Replace(manifest, `"Test"`, `"Lies"`, 1), honest.root()},
		{"no manifest", "", honest.root()},
		{"no JSON", "<html>", honest.root()},
		{"a manifest without entries", `{"rbt":"0.2","manifest":{}}`, honest.root()},
		{"the manifest, and other files", manifest, liar.root()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			delete(liar.files, ".burrow.json")
			if tt.manifest != "" {
				liar.put(".burrow.json", tt.manifest)
			}
			liar.put("a.md", "a lie")
			liar.put("docs/.burrow.json", strings.Replace(string(honest.files["docs/.burrow.json"]), `"Test"`, `"Lies"`, 1))
			c := at(t, liar, honest)
			c.Start.Roots = roots
			w := mustOpen(t, c)
			if w.Root.String() != tt.from.String() {
				t.Errorf("the manifest is from %s", w.Root)
			}
			_, texts := all(t, w)
			checkTexts(t, texts, map[string]string{".burrow.json a": "A", ".burrow.json b": "B", "docs/.burrow.json c": "C"})
			if tt.from == honest.root() && len(w.Report.Problems) == 0 {
				t.Error("the root that lies is not told of")
			}
		})
	}
}

func TestAMirrorGivesNothingUnverified(t *testing.T) {
	root, mirror := newSite(t), newSite(t)
	m := document([]rbt.Root{root.root()}, file("lost", "lost.md", "lost"), file("lie", "lie.md", "truth"), collection("docs", "docs/list"))
	bare := file("bare", "bare.md", "")
	bare.RID, bare.Hash, bare.Size = rbt.CollectionRID(rbt.FileRID(nil), "bare"), nil, -1
	m.Mirrors = []rbt.Root{mirror.root()}
	root.put(".burrow.json", marshal(t, m))
	mirror.put(".burrow.json", marshal(t, m))
	mirror.put("lost.md", "lost")
	mirror.put("lie.md", "a lie")
	mirror.put("docs/list", plain(fmt.Sprintf(`{"id":"forged","rid":%q,"href":"forged.md","type":"text/markdown","rel":[]}`, rbt.FileRID([]byte("forged")))))
	mirror.put("docs/forged.md", "forged")
	var log bytes.Buffer
	c := at(t, root, mirror)
	c.Start.Roots = c.Start.Roots[:1]
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	w := mustOpen(t, c)
	_, texts := all(t, w)
	checkTexts(t, texts, map[string]string{".burrow.json lost": "lost", ".burrow.json lie": "verification_failed"})
	if !w.Incomplete || slices.Contains(mirror.requests(), "docs/list") {
		t.Error("a document of entries was asked of a mirror")
	}
	if !strings.Contains(log.String(), "lie") || !strings.Contains(log.String(), mirror.base) {
		t.Errorf("the log does not name the entry and the mirror:\n%s", log.String())
	}
	var item Item
	item.Entry = bare
	if err := (&traversal{Walk: w}).accept(&item, []byte("anything"), true); !errors.Is(err, errUnverified) {
		t.Errorf("an entry without a digest is taken from a mirror: %v", err)
	}
}

func TestADocumentIsTheOneThatItsCollectionNames(t *testing.T) {
	root, mirror := newSite(t), newSite(t)
	list := marshal(t, document([]rbt.Root{root.root()}, file("c", "c.md", "C")))
	sum := rbtSum(list)
	docs := collection("docs", "docs/.burrow.json")
	docs.Hash = &sum
	m := document([]rbt.Root{root.root()}, docs)
	m.Mirrors = []rbt.Root{mirror.root()}
	root.put(".burrow.json", marshal(t, m))
	mirror.put("docs/c.md", "C")
	c := at(t, root, mirror)
	c.Start.Roots = c.Start.Roots[:1]
	forged := marshal(t, document([]rbt.Root{root.root()}, file("forged", "c.md", "C")))
	for name, tt := range map[string]struct {
		atRoot, atMirror string
		want             string
	}{
		"the mirror alone has it":         {"", list, "C"},
		"the root has another":            {forged, list, "C"},
		"the mirror has another":          {"", forged, ""},
		"the root has it":                 {list, forged, "C"},
		"both have another, which is one": {forged, forged, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for s, text := range map[*site]string{root: tt.atRoot, mirror: tt.atMirror} {
				delete(s.files, "docs/.burrow.json")
				if text != "" {
					s.put("docs/.burrow.json", text)
				}
			}
			w := mustOpen(t, c)
			_, texts := all(t, w)
			if texts["docs/.burrow.json c"] != tt.want || w.Incomplete != (tt.want == "") || len(texts) > 1 {
				t.Errorf("entries are %q, incomplete %t", texts, w.Incomplete)
			}
		})
	}
}

func TestMirrorsStandInForRootsThatAreDown(t *testing.T) {
	root, mirror := newSite(t), newSite(t)
	m := document([]rbt.Root{root.root()}, file("a", "a.md", "A"))
	m.Mirrors = []rbt.Root{mirror.root()}
	root.put(".burrow.json", marshal(t, m))
	root.put("a.md", "A")
	mirror.put("a.md", "A")
	mirror.put(".burrow.json", marshal(t, m))
	c := at(t, root, mirror)
	c.Start.Roots, c.State = c.Start.Roots[:1], t.TempDir()
	now := time.Now()
	c.Now = func() time.Time { return now }
	first := mustOpen(t, c)
	root.server.Close()
	now = now.Add(2 * time.Hour)
	w := mustOpen(t, c)
	if !w.Stale {
		t.Error("the manifest does not count as old")
	}
	_, texts := all(t, w)
	checkTexts(t, texts, map[string]string{".burrow.json a": "A"})
	now = now.Add(maxStale)
	if w, err := Open(t.Context(), c); err == nil {
		t.Error("the manifest stands in for ever")
	} else if err := w.Close(); err != nil {
		t.Error(err)
	}
	// One whose RID is known beforehand may come from a mirror itself.
	c.State = ""
	c.Start.Mirrors, c.Start.RID = []rbt.Root{mirror.root()}, first.Manifest.RID
	_, texts = all(t, mustOpen(t, c))
	checkTexts(t, texts, map[string]string{".burrow.json a": "A"})
	c.Start.RID = rbt.RID{}
	w, err := Open(t.Context(), c)
	w.Close()
	if rbt.CategoryOf(err) != rbt.VerificationFailed {
		t.Errorf("without its RID: %v", err)
	}
}

func TestARootThatKeepsFailingIsNotAskedAnyMore(t *testing.T) {
	down, other := newSite(t), newSite(t)
	var entries []rbt.Entry
	for i := range 2 * maxMisses {
		name := fmt.Sprintf("%d.md", i)
		entries = append(entries, file(name, name, name))
		other.put(name, name)
	}
	down.put(".burrow.json", marshal(t, document([]rbt.Root{down.root(), other.root()}, entries...)))
	down.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".md") {
			panic(http.ErrAbortHandler) // below HTTP, for the client
		}
		return false
	}
	c := at(t, down, other)
	c.Start.Roots = c.Start.Roots[:1]
	w := mustOpen(t, c)
	_, texts := all(t, w)
	asked := slices.DeleteFunc(down.requests(), func(name string) bool { return !strings.HasSuffix(name, ".md") })
	// The transport sends again by itself what fails on a connection that has served before.
	if n := len(asked) - maxMisses*tries; len(texts) != 2*maxMisses || texts[".burrow.json 9.md"] != "9.md" || n < 0 || n > maxMisses {
		t.Errorf("%d entries, for which it was asked %d times", len(texts), len(asked))
	}
}

// A refusal is a root that fails in one way.
type refusal struct {
	place
	err   error
	asked int
}

func (r *refusal) read(context.Context, rbt.Target, int64) ([]byte, error) {
	r.asked++
	return nil, r.err
}

func TestARootThatMayNotBeAskedIsLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{fmt.Errorf("x: %w", fetch.ErrForbiddenAddress), maxMisses}, {errHost, maxMisses}, {io.ErrUnexpectedEOF, maxMisses},
		{&fetch.StatusError{Code: 404}, 100}, {&gitroot.LFSError{}, 100}, {gitroot.ErrOutside, 100}, {gitroot.ErrLoop, 100},
		{gitroot.ErrSubmodule, 100}, {gitroot.ErrNotRegular, 100}, {fs.ErrNotExist, 100}, {fs.ErrPermission, 100},
	} {
		r := &refusal{err: tt.err}
		s := source{place: r}
		for range 100 {
			if _, err := s.read(t.Context(), rbt.Target{}, 1); !errors.Is(err, tt.err) {
				t.Errorf("%v became %v", tt.err, err)
			}
		}
		if r.asked != tt.want {
			t.Errorf("%v: it is asked %d times, want %d", tt.err, r.asked, tt.want)
		}
	}
}

// What is wrong with some files of a folder keeps nobody from the rest.
func TestAFolderIsReadToItsEnd(t *testing.T) {
	dir := t.TempDir()
	var entries []rbt.Entry
	for i := range 2 * maxMisses {
		for _, kind := range []string{"missing", "out", "loop", "pipe"} {
			name := fmt.Sprint(kind, i)
			entries = append(entries, file(name, name, name))
			at := filepath.Join(dir, name)
			var err error
			switch kind {
			case "out":
				err = os.Symlink("/etc/passwd", at)
			case "loop":
				err = os.Symlink(name, at)
			case "pipe":
				err = syscall.Mkfifo(at, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	writeFile(t, filepath.Join(dir, "last"), "last")
	entries = append(entries, file("last", "last", "last"))
	writeFile(t, filepath.Join(dir, ".burrow.json"), marshal(t, document([]rbt.Root{{HTTPS: &rbt.HTTPSRoot{Base: "https://burrow.test/"}}}, entries...)))
	w := mustOpen(t, Config{Start: Start{Local: &Local{Dir: dir}}, Sleep: noSleep})
	_, texts := all(t, w)
	if texts[".burrow.json last"] != "last" {
		t.Errorf("the last is %q", texts[".burrow.json last"])
	}
	for _, name := range []string{"missing0", "out0", "loop0", "pipe0"} {
		_, err := newFolder(&Local{Dir: dir}).read(t.Context(), rbt.Target{Path: name}, 10)
		if got := categoryOf(err, rbt.EntryNotFound); err == nil || got != rbt.EntryNotFound {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
}

func TestRootsAreAskedInOrder(t *testing.T) {
	s := small(t)
	gone := newSite(t)
	gone.server.Close()
	remote, err := rbt.ParseRemote("https://git.invalid/x.git", rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	viaGit := rbt.Root{Git: &rbt.GitRoot{Remote: remote, Ref: "refs/heads/main", Path: "."}}
	for _, tt := range []struct {
		prefer Preference
		want   []string
	}{{GitFirst, []string{"git", "https"}}, {HTTPSFirst, []string{"https"}}, {AsListed, []string{"https", "git"}}} {
		c := at(t, gone, s)
		c.Start.Roots = []rbt.Root{gone.root(), viaGit, s.root()}
		c.Prefer = tt.prefer
		w := mustOpen(t, c)
		var got []string
		for _, a := range w.Report.Problems[0].Attempts {
			got = append(got, a.Root)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("preference %d: %q failed before one gave a manifest, want %q", tt.prefer, got, tt.want)
		}
	}
	c := at(t, gone)
	c.Start.Roots = []rbt.Root{viaGit}
	w, err := Open(t.Context(), c)
	w.Close()
	if !errors.Is(err, errNoGit) {
		t.Errorf("only a Git root, and no client for it: %v", err)
	}
}

func TestABurrowIsFoundFromItsURL(t *testing.T) {
	s := newSite(t)
	root := rbt.Root{HTTPS: &rbt.HTTPSRoot{Base: s.base + "x/"}}
	s.put("x/a.md", "A")
	s.put("x/.burrow.json", marshal(t, document([]rbt.Root{root}, file("a", "a.md", "A"))))
	s.put("x/other.json", marshal(t, document([]rbt.Root{root}, file("a", "a.md", "A"))))
	s.put(".well-known/rabit-burrow", fmt.Sprintf(`{"rbt":"0.2","manifest":"%sx/.burrow.json","roots":[{"https":{"base":"%sx/"}}]}`, s.base, s.base))
	for _, where := range []string{s.base, strings.TrimSuffix(s.base, "/"), s.base + "x/", s.base + "x/.burrow.json", s.base + "x/other.json"} {
		c := at(t, s)
		c.Start = Start{URL: where}
		_, texts := all(t, mustOpen(t, c))
		if len(texts) != 1 {
			t.Errorf("%s gives %q", where, texts)
		}
	}
	for _, where := range []string{s.base + "y/", "ftp://x/", "https://user:word@x/"} {
		c := at(t, s)
		c.Start = Start{URL: where}
		w, err := Open(t.Context(), c)
		w.Close()
		if err == nil || strings.Contains(err.Error(), "word") {
			t.Errorf("%s: %v", where, err)
		}
	}
}

func TestAWalkSeesOneCommit(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	repo, err := git.PlainInit(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	commit := func(text string) {
		t.Helper()
		m := document([]rbt.Root{s.root()}, file("a", "a.md", text))
		for name, data := range map[string]string{"docs/.burrow.json": marshal(t, m), "docs/a.md": text} {
			f, err := tree.Filesystem.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte(data)); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := tree.Add(name); err != nil {
				t.Fatal(err)
			}
		}
		who := &object.Signature{Name: "A", Email: "a@example.org", When: time.Unix(1700000000, 0)}
		if _, err := tree.Commit("Change", &git.CommitOptions{Author: who}); err != nil {
			t.Fatal(err)
		}
	}
	commit("first")
	c := Config{Start: Start{Local: &Local{Dir: dir, Path: "docs"}}}
	w := mustOpen(t, c)
	commit("second")
	_, texts := all(t, w)
	checkTexts(t, texts, map[string]string{".burrow.json a": "first"})
	next := mustOpen(t, c)
	_, texts = all(t, next)
	checkTexts(t, texts, map[string]string{".burrow.json a": "second"})
	if w.Commit == nil || next.Commit == nil || w.Commit.ID == next.Commit.ID {
		t.Errorf("commits are %v and %v", w.Commit, next.Commit)
	}
}
