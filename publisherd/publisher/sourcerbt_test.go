package publisher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// sameDigests compares what two sources hold.
func (c *roundTrip) sameDigests(name string, a, b Source) {
	c.t.Helper()
	want, got := c.pages(a), c.pages(b)
	if len(want) == 0 || len(got) != len(want) {
		c.t.Errorf("%s: %d pages, want %d", name, len(got), len(want))
	}
	for u, p := range want {
		if q := got[u]; q.Digest != p.Digest || q.Fingerprint != p.Fingerprint || q.Title != p.Title {
			c.t.Errorf("%s: %s came back as another page: %q", name, u, q.Title)
		}
	}
}

// TestPagesComeBackFromABurrowWithTheSameDigests goes by the files of a site,
// and by the payloads of a source that has no files.
func TestPagesComeBackFromABurrowWithTheSameDigests(t *testing.T) {
	c := newRoundTrip(t, "../../testdata/site")
	export := func(s Source, format string) string {
		out := filepath.Join(t.TempDir(), "out")
		o := ExportOptions{Format: format, Dir: out, Generated: time.Now(), KeepListings: true}
		if _, err := s.Export(t.Context(), t.TempDir(), o); err != nil {
			t.Fatal(err)
		}
		return out
	}
	files := Source{Name: "b", Kind: "rbt", Location: export(c.site, "rbt")}
	c.sameDigests("a site", c.site, files)
	payloads := Source{Name: "t", Kind: "tct", Location: export(c.site, "tct"), BaseURL: exportBase}
	c.sameDigests("payloads", payloads, Source{Name: "b", Kind: "rbt", Location: export(payloads, "rbt")})
	again := Source{Name: "b", Kind: "rbt", Location: files.Location, BaseURL: exportBase}
	c.sameDigests("a burrow of a burrow", files, Source{Name: "c", Kind: "rbt", Location: export(again, "rbt")})

	// What an SCP page is in the other format is what comes back.
	lines := Source{Name: "s", Kind: "scp", Location: export(c.site, "scp")}
	o := ExportOptions{Format: "rbt", Dir: filepath.Join(t.TempDir(), "out"), Generated: testNow, BaseURL: exportBase}
	r, err := lines.Export(t.Context(), t.TempDir(), o)
	if err != nil || r.Short == "" || len(r.Lost) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	back := c.pages(Source{Name: "b", Kind: "rbt", Location: o.Dir})
	for u, p := range c.pages(lines) {
		if back[u].Title != p.Title {
			t.Errorf("%s is called %q, want %q", u, back[u].Title, p.Title)
		}
	}
}

// TestWhatASourceDeniesStandsInItsBurrow exports a source whose burrow denies.
func TestWhatASourceDeniesStandsInItsBurrow(t *testing.T) {
	c := newScanCase(t)
	c.write("a.html", "words")
	var uses content.Preferences
	uses.State(content.PurposeAITrain, content.No, "x")
	m := rbt.Manifest{Title: "T", Updated: testNow, Roots: []rbt.Root{{HTTPS: &rbt.HTTPSRoot{Base: exportBase}}}}
	m.Agents.Uses.Preferences = uses
	first := t.TempDir()
	x, err := rbt.OpenExport(rbt.ExportConfig{Dir: first, Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Add(rbt.Resource{Path: "a.md", Type: "text/markdown", Rel: []string{rbt.RelItem}, Data: []byte("# A")}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Commit(); err != nil {
		t.Fatal(err)
	}
	s := Source{Name: "b", Kind: "rbt", Location: first, BaseURL: exportBase}
	sum, err := s.Scan(t.Context(), c.dir, func(ScanLine) error { return nil })
	if err != nil || !strings.Contains(strings.Join(sum.Preferences, "\n"), "ai.train: no") {
		t.Errorf("%+v, %v", sum, err)
	}
	second := filepath.Join(t.TempDir(), "out")
	if _, err := s.Export(t.Context(), c.dir, ExportOptions{Format: "rbt", Dir: second, Generated: testNow}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(second, rbt.ManifestFile))
	if err != nil || !strings.Contains(string(data), `"train": false`) {
		t.Errorf("the denial is lost: %s, %v", data, err)
	}
}

func TestARepositoryIsToldFromAFolderAndAServer(t *testing.T) {
	for _, tt := range []struct {
		source      Source
		remote, git bool
	}{
		{Source{Kind: "rbt", Location: "/srv/x"}, false, false},
		{Source{Kind: "rbt", Location: "git@example.org:x.git"}, true, true},
		{Source{Kind: "rbt", Location: "ssh://git@example.org/x"}, true, true},
		{Source{Kind: "rbt", Location: "https://example.org/x.git"}, true, true},
		{Source{Kind: "rbt", Location: "https://example.org/x/"}, true, false},
		{Source{Kind: "rbt", Location: "https://example.org/x", Git: Git{Ref: "refs/heads/main"}}, true, true},
		{Source{Kind: "tct", Location: "https://example.org/x.git"}, true, false},
	} {
		if tt.source.isRemote() != tt.remote || tt.source.isGit() != tt.git {
			t.Errorf("%+v: remote %v, git %v", tt.source, tt.source.isRemote(), tt.source.isGit())
		}
	}
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, ".git", "refs"), 0o755), os.WriteFile(filepath.Join(dir, ".git", "HEAD"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	deep, alone := (Source{Kind: "rbt", Location: dir}).watched("")
	if !slices.Equal(deep, []string{filepath.Join(dir, ".git", "refs")}) || !slices.Equal(alone, []string{filepath.Join(dir, ".git")}) {
		t.Errorf("watched are %q and %q", deep, alone)
	}
	if deep, alone = (Source{Kind: "site", Location: dir}).watched(""); !slices.Equal(deep, []string{dir}) || alone != nil {
		t.Errorf("of a site %q and %q", deep, alone)
	}
}
