package rbt_test

import (
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

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// config is that of an export with both kinds of roots.
func config(t testing.TB, dir string) rbt.ExportConfig {
	m := aManifest(t)
	return rbt.ExportConfig{Dir: dir, PerManifest: 3, Pointer: "https://example.org/.burrow.json", Manifest: rbt.Manifest{
		Title: "T", Updated: testNow, Roots: m.Roots,
	}}
}

func resource(name, text string) rbt.Resource {
	return rbt.Resource{Path: name, Type: "text/markdown", Rel: []string{rbt.RelItem}, Data: []byte(text), Title: name, Modified: testNow}
}

func export(t testing.TB, c rbt.ExportConfig, all ...rbt.Resource) rbt.ExportReport {
	t.Helper()
	x, err := rbt.OpenExport(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if err := x.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	report, err := x.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// tree reads a folder, without times.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// verify walks a burrow without the package that walks, and returns the paths
// that it lists.
func verify(t testing.TB, dir string) (paths []string) {
	t.Helper()
	files := tree(t, dir)
	var walk func(name string)
	walk = func(name string) {
		data := []byte(files[name])
		m, err := rbt.ParseManifest(data, rbt.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := errors.Join(m.CheckFull(), rbt.CheckManifest(data, m.RID), conforms(t, "burrow", data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, e := range m.Entries {
			octets, there := files[e.Href]
			if want := fmt.Sprintf("sha256:%x", *e.Hash); !there || "sha256:"+rbt.FileRID([]byte(octets)).String()[17:] != want {
				t.Errorf("%s of %s is not what its hash says", e.Href, name)
			}
			if e.Children != nil {
				walk(e.Children.Href)
			} else {
				paths = append(paths, e.Href)
			}
		}
	}
	walk(rbt.ManifestFile)
	return paths
}

// TestAnExportedBurrowIsDeterministic shows that order does not count, that nothing is
// written where nothing changed, and that a change writes only itself.
func TestAnExportedBurrowIsDeterministic(t *testing.T) {
	var all []rbt.Resource
	for i := range 8 {
		all = append(all, resource(fmt.Sprintf("d/%d.md", i), fmt.Sprint(i)))
	}
	all[5].Rel = []string{rbt.RelIndex}
	one, two := t.TempDir(), t.TempDir()
	first := export(t, config(t, one), all...)
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	export(t, config(t, two), backwards...)
	if !maps.Equal(tree(t, one), tree(t, two)) {
		t.Error("another order gives another burrow")
	}
	if got := verify(t, one); len(got) != 8 || got[0] != "d/5.md" || first.Manifests != 4 || first.Written != 8 {
		t.Errorf("it lists %q: %+v", got, first)
	}
	if _, ok := tree(t, one)[".well-known/rabit-burrow"]; !ok {
		t.Error("there is no well-known document")
	}

	before := stamps(t, one)
	later := config(t, one)
	later.Manifest.Updated = testNow.Add(time.Hour)
	moved := slices.Clone(all)
	moved[0].Modified = testNow.Add(time.Hour)
	if got := export(t, later, moved...); got.Written != 0 || got.RID != first.RID || !maps.Equal(before, stamps(t, one)) {
		t.Errorf("an export without a change wrote: %+v", got)
	}
	changed := slices.Clone(all[:7])
	changed[6].Data = []byte("new")
	got := export(t, later, changed...)
	if got.Written != 1 || got.Removed != 1 || got.RID == first.RID {
		t.Errorf("%+v, want one written and one removed", got)
	}
	if got := verify(t, one); len(got) != 7 {
		t.Errorf("it lists %q", got)
	}
	files := slices.Sorted(maps.Keys(tree(t, one)))
	if n := len(files); n != 7+1+3+1 {
		t.Errorf("files %q: what is listed no more is still there", files)
	}
}

func stamps(t testing.TB, dir string) map[string]time.Time {
	t.Helper()
	all := make(map[string]time.Time)
	for name := range tree(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = info.ModTime()
	}
	return all
}

// TestAnExportIsWholeWhereverItStops stops exports before they are committed,
// and shows that the manifest is the old one, and that the next one clears up.
func TestAnExportIsWholeWhereverItStops(t *testing.T) {
	dir := t.TempDir()
	export(t, config(t, dir), resource("a.md", "a"), resource("b.md", "b"))
	manifest := tree(t, dir)[rbt.ManifestFile]
	x, err := rbt.OpenExport(config(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []rbt.Resource{resource("new/c.md", "c"), resource("d.md", "d")} {
		if err := x.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if tree(t, dir)[rbt.ManifestFile] != manifest {
		t.Error("the manifest was changed")
	}
	verify(t, dir)
	export(t, config(t, dir), resource("a.md", "a"), resource("d.md", "d"))
	want := []string{rbt.ManifestFile, ".well-known/rabit-burrow", "a.md", "d.md"}
	if got := slices.Sorted(maps.Keys(tree(t, dir))); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("the folder of what was given up is still there")
	}

	// A resource that somebody changed is written again.
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := export(t, config(t, dir), resource("a.md", "a"), resource("d.md", "d")); got.Written != 1 {
		t.Errorf("%+v, want one written", got)
	}
	verify(t, dir)
}

func TestAnExportTouchesNothingOfOthers(t *testing.T) {
	write := func(dir, name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, fill := range map[string]func(dir string){
		"a file":               func(dir string) { write(dir, "a.md", "a") },
		"a manifest of others": func(dir string) { write(dir, rbt.ManifestFile, good) },
		"a broken manifest":    func(dir string) { write(dir, rbt.ManifestFile, "{") },
		"a repository's file":  func(dir string) { write(dir, ".git/HEAD", ""); write(dir, "README.md", "") },
	} {
		dir := t.TempDir()
		fill(dir)
		before := tree(t, dir)
		if _, err := rbt.OpenExport(config(t, dir)); !errors.Is(err, rbt.ErrNotExport) || !maps.Equal(before, tree(t, dir)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	write(dir, ".git/HEAD", "ref")
	export(t, config(t, dir), resource("a.md", "a"))
	write(dir, "mine.txt", "mine")
	export(t, config(t, dir), resource("b.md", "b"))
	if files := tree(t, dir); files["mine.txt"] != "mine" || files[".git/HEAD"] != "ref" || files["a.md"] != "" || files["b.md"] != "b" {
		t.Errorf("%q", files)
	}
}

func TestAnExportRefusesNamesThatItCannotHave(t *testing.T) {
	x, err := rbt.OpenExport(config(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, name := range []string{"", ".", "../x", "/x", "a//b", ".git/config", ".well-known/x", ".burrow.json", ".warren.json", ".burrow-x.json", "a\nb", `a\b`} {
		if err := x.Add(resource(name, "x")); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if err := errors.Join(x.Add(resource("a", "x")), x.Add(resource("a", "x"))); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%v, want one about a path that comes twice", err)
	}
}
