package pages_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/pages"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/walk"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const base = "https://docs.test/"

var testNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// A burrow is a repository that holds one.
type burrow struct {
	t     *testing.T
	dir   string
	repo  *git.Repository
	uses  content.Preferences
	time  time.Time
	state string
}

func newBurrow(t *testing.T) *burrow {
	b := &burrow{t: t, dir: t.TempDir(), time: testNow, state: t.TempDir()}
	var err error
	if b.repo, err = git.PlainInit(b.dir, false); err != nil {
		t.Fatal(err)
	}
	return b
}

// typeOf is the media type that a file is published with.
func typeOf(name string) string {
	types := map[string]string{".html": "text/html", ".md": "text/markdown", ".txt": "text/plain", ".json": "application/json", ".png": "image/png"}
	return types[filepath.Ext(name)]
}

// publish writes files as a burrow, and commits it.
func (b *burrow) publish(files map[string]string) {
	b.t.Helper()
	b.time = b.time.Add(time.Minute)
	m := rbt.Manifest{Title: "T", Updated: b.time, Roots: []rbt.Root{{HTTPS: &rbt.HTTPSRoot{Base: base}}}}
	m.Agents.Uses.Preferences = b.uses
	x, err := rbt.OpenExport(rbt.ExportConfig{Dir: b.dir, Manifest: m})
	if err != nil {
		b.t.Fatal(err)
	}
	for name, text := range files {
		if err := x.Add(rbt.Resource{Path: name, Type: typeOf(name), Rel: []string{rbt.RelItem}, Data: []byte(text), Title: "Title of " + name}); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := x.Commit(); err != nil {
		b.t.Fatal(err)
	}
	b.commit()
}

func (b *burrow) commit() {
	b.t.Helper()
	w, err := b.repo.Worktree()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := w.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		b.t.Fatal(err)
	}
	who := &object.Signature{Name: "A", Email: "a@docs.test", When: b.time}
	if _, err := w.Commit("Change it", &git.CommitOptions{Author: who}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *burrow) source() *pages.Source {
	b.t.Helper()
	s, err := pages.New(pages.Config{
		Dir:  b.state,
		Walk: walk.Config{Start: walk.Start{Local: &walk.Local{Dir: b.dir}}, Now: func() time.Time { return b.time.Add(time.Hour) }},
		Site: site.Site{},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// A reading is what a source gives.
type reading struct {
	pages     map[string]content.Page // by location
	unchanged []string
	skipped   map[string]content.Skipped
	err       error
}

func read(t *testing.T, s *pages.Source, known map[string]content.Page) reading {
	t.Helper()
	r := reading{pages: make(map[string]content.Page), skipped: make(map[string]content.Skipped)}
	last := ""
	for p, err := range s.Pages(t.Context(), func(location string) ([32]byte, bool) {
		p, ok := known[location]
		return p.SourceHash, ok
	}, func(k content.Skipped) { r.skipped[k.Location] = k }) {
		if r.err = err; err != nil {
			break
		}
		if p.Location <= last {
			t.Errorf("%q comes behind %q", p.Location, last)
		}
		if last = p.Location; p.Unchanged {
			r.unchanged = append(r.unchanged, p.Location)
		} else {
			r.pages[p.Location] = p
		}
	}
	return r
}

func payload(url, text string) string {
	b, _ := tct.Encode(nil, tct.Document{URL: url, Title: "P", Content: text})
	return string(b)
}

func someFiles() map[string]string {
	return map[string]string{
		"index.html": "<title>Home</title><p>words", "docs/a.md": "# A\n\nwords", "docs/b.txt": "plain & <b>", "p.llm.json": payload(base+"p", "x"),
		"pic.png": "\x89PNG\r\n\x1a\n", "draft.md": "---\ndraft: true\n---\nx", "data.json": "{}",
		"other.json": payload("https://elsewhere.test/p", "x"),
	}
}

func TestResourcesBecomePages(t *testing.T) {
	b := newBurrow(t)
	b.publish(someFiles())
	s := b.source()
	r := read(t, s, nil)
	if r.err != nil {
		t.Fatal(r.err)
	}
	got := make(map[string]string)
	for location, p := range r.pages {
		got[location] = p.URL + " " + p.Title
		if p.SourceHash != sumOf(b.t, filepath.Join(b.dir, location)) || p.Format != content.FormatTCT || tct.Check(p.Payload, p.URL) != nil {
			t.Errorf("%s is not made of its file: %+v", location, p)
		}
		again, err := s.Fetch(t.Context(), location)
		if err != nil || again.Digest != p.Digest || again.URL != p.URL {
			t.Errorf("%s read again: %v", location, err)
		}
	}
	want := map[string]string{
		"index.html": base + " Home", "docs/a.md": base + "docs/a.md A", "docs/b.txt": base + "docs/b.txt Title of docs/b.txt", "p.llm.json": base + "p P",
	}
	if !maps.Equal(got, want) {
		t.Errorf("pages %q, want %q", got, want)
	}
	for location, wantErr := range map[string]bool{"pic.png": false, "draft.md": false, "data.json": true, "other.json": true} {
		if k, ok := r.skipped[location]; !ok || (k.Err != nil) != wantErr {
			t.Errorf("%s: %+v", location, k)
		}
	}
	if _, err := s.Fetch(t.Context(), "gone.md"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
	if string(r.pages["p.llm.json"].Payload) != someFiles()["p.llm.json"] {
		t.Error("a payload in our form was changed")
	}
}

func sumOf(t *testing.T, file string) [32]byte {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum, _ := rbt.FileRID(data).Sum()
	return sum
}

// TestOnlyWhatACommitChangedIsRead changes one file of many.
func TestOnlyWhatACommitChangedIsRead(t *testing.T) {
	b := newBurrow(t)
	files := make(map[string]string)
	for i := range 20 {
		files[fmt.Sprintf("d/%02d.md", i)] = fmt.Sprintf("# %d", i)
	}
	b.publish(files)
	s := b.source()
	first := read(t, s, nil)
	if first.err != nil || len(first.pages) != 20 {
		t.Fatalf("%d pages, %v", len(first.pages), first.err)
	}
	if r := read(t, s, first.pages); len(r.pages) != 0 || len(r.unchanged) != 20 {
		t.Errorf("without a commit %d pages were read", len(r.pages))
	}
	// What is not committed does not count.
	if err := os.WriteFile(filepath.Join(b.dir, "d/03.md"), []byte("# not yet"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := read(t, s, first.pages); len(r.pages) != 0 || len(r.skipped) != 0 {
		t.Errorf("what is not committed was read: %v", r.pages)
	}
	files["d/03.md"] = "# changed"
	delete(files, "d/04.md")
	b.publish(files)
	r := read(t, b.source(), first.pages)
	if got := slices.Collect(maps.Keys(r.pages)); !slices.Equal(got, []string{"d/03.md"}) || len(r.unchanged) != 18 {
		t.Errorf("read %q and left %d, %v", got, len(r.unchanged), r.err)
	}
	held, err := filepath.Glob(filepath.Join(b.state, "held", "??", "*"))
	if err != nil || len(held) != 19 {
		t.Errorf("%d resources are held, want those of 19 pages", len(held))
	}
}

// TestAHeldFileThatWasChangedIsFetchedAgain spoils what a source holds.
func TestAHeldFileThatWasChangedIsFetchedAgain(t *testing.T) {
	b := newBurrow(t)
	b.publish(map[string]string{"a.md": "# A"})
	s := b.source()
	first := read(t, s, nil)
	held, err := filepath.Glob(filepath.Join(b.state, "held", "??", "*"))
	if err != nil || len(held) != 1 {
		t.Fatalf("%q, %v", held, err)
	}
	for _, spoil := range []func() error{
		func() error { return os.WriteFile(held[0], []byte("lies"), 0o600) },
		func() error { return os.RemoveAll(b.state) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		p, err := b.source().Fetch(t.Context(), "a.md")
		if err != nil || p.Digest != first.pages["a.md"].Digest {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// TestADoubtfulBurrowYieldsNoPage breaks what lists the pages.
func TestADoubtfulBurrowYieldsNoPage(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"no manifest":       func(dir string) error { return os.Remove(filepath.Join(dir, rbt.ManifestFile)) },
		"a broken manifest": func(dir string) error { return os.WriteFile(filepath.Join(dir, rbt.ManifestFile), []byte("{"), 0o644) },
		"a manifest that was changed": func(dir string) error {
			data, err := os.ReadFile(filepath.Join(dir, rbt.ManifestFile))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, rbt.ManifestFile), []byte(strings.Replace(string(data), `"T"`, `"U"`, 1)), 0o644))
		},
	} {
		b := newBurrow(t)
		b.publish(map[string]string{"a.md": "# A"})
		if err := spoil(b.dir); err != nil {
			t.Fatal(err)
		}
		b.commit()
		if r := read(t, b.source(), nil); r.err == nil || len(r.pages) > 0 {
			t.Errorf("%s: %d pages, %v", name, len(r.pages), r.err)
		}
	}
}

// TestAResourceThatLiesKeepsItsLastRevision changes a file behind its manifest.
func TestAResourceThatLiesKeepsItsLastRevision(t *testing.T) {
	b := newBurrow(t)
	b.publish(map[string]string{"a.md": "# A", "b.md": "# B"})
	if err := os.WriteFile(filepath.Join(b.dir, "a.md"), []byte("# lies"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.commit()
	s := b.source()
	r := read(t, s, nil)
	k := r.skipped["a.md"]
	if r.err != nil || len(r.pages) != 1 || rbt.CategoryOf(k.Err) != rbt.VerificationFailed {
		t.Errorf("%d pages, %+v, %v", len(r.pages), k, r.err)
	}
	if report := s.Report(); len(report.Problems) != 1 || report.Problems[0].Category != rbt.VerificationFailed || report.Problems[0].EntryID != "a.md" {
		t.Errorf("%+v", report)
	}
}

func TestWhatABurrowDeniesIsTold(t *testing.T) {
	b := newBurrow(t)
	b.uses.State(content.PurposeAITrain, content.No, "x")
	b.publish(map[string]string{"a.md": "# A"})
	s := b.source()
	if r := read(t, s, nil); r.err != nil {
		t.Fatal(r.err)
	}
	if denied := s.Told().Preferences.Denied(); len(denied) == 0 || denied[0].Purpose != content.PurposeAIFinetune && denied[0].Purpose != content.PurposeAITrain {
		t.Errorf("%v", denied)
	}
}

func TestABurrowInAFolderIsReadWithoutGit(t *testing.T) {
	b := newBurrow(t)
	b.publish(map[string]string{"a.md": "# A"})
	if err := os.RemoveAll(filepath.Join(b.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret.md")
	if err := errors.Join(os.WriteFile(secret, []byte("# A"), 0o644), os.Remove(filepath.Join(b.dir, "a.md")), os.Symlink(secret, filepath.Join(b.dir, "a.md"))); err != nil {
		t.Fatal(err)
	}
	if r := read(t, b.source(), nil); r.err != nil || len(r.pages) != 0 || r.skipped["a.md"].Err == nil {
		t.Errorf("a link out of the folder was followed: %+v", r)
	}
	if err := errors.Join(os.Remove(filepath.Join(b.dir, "a.md")), os.WriteFile(filepath.Join(b.dir, "a.md"), []byte("# A"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if r := read(t, b.source(), nil); r.err != nil || len(r.pages) != 1 {
		t.Errorf("%+v", r)
	}
	if _, _, err := b.source().Original(context.Background(), "../a.md"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want %v", err, fs.ErrNotExist)
	}
}

func TestASourceNeedsToKnowWhereItsPagesAre(t *testing.T) {
	if _, err := pages.New(pages.Config{}); err == nil {
		t.Error("a source without a folder")
	}
	s, err := pages.New(pages.Config{Dir: t.TempDir(), Walk: walk.Config{Start: walk.Start{Local: &walk.Local{Dir: filepath.Join(t.TempDir(), "gone")}}}})
	if err != nil || s.Check() == nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}
