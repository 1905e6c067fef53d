package site_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

func TestNamesBecomeURLs(t *testing.T) {
	for _, tt := range []struct {
		name, location, want string
		strip                bool
	}{
		{"an ending stays", "a/b.html", "a/b.html", false},
		{"an ending goes if asked for", "a/b.html", "a/b", true},
		{"an index is its folder", "a/index.html", "a/", false},
		{"so it is in the first folder", "index.htm", "", false},
		{"and in Markdown", "a/index.md", "a/", true},
		{"an index in capitals is a page of its own", "INDEX.html", "INDEX.html", false},
		{"what a path may hold stays plain", "operator+=.html", "operator+=.html", false},
		{"a tilde stays plain", "~x.html", "~x.html", false},
		{"a percent sign is encoded", "a%2Bb.html", "a%252Bb.html", false},
		{"a question mark is no query", "a?b.html", "a%3Fb.html", false},
		{"a hash is no fragment", "a#b.html", "a%23b.html", false},
		{"a backslash is no slash", `a\b.html`, "a%5Cb.html", false},
		{"a space is encoded", "a b.html", "a%20b.html", false},
		{"letters outside ASCII are encoded", "caf\u00e9.html", "caf%C3%A9.html", false},
		{"so are octets that are no letters", "\xff.html", "%FF.html", false},
		{"an ending in capitals is one", "A.HTM", "A.HTM", false},
		{"only the last ending goes", "a.b.html", "a.b", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &site.Site{Dir: write(t, map[string]string{tt.location: "x"}), BaseURL: base, StripExt: tt.strip}
			pages, skipped := mustScan(t, s)
			if len(pages) != 1 || pages[0].URL != base+tt.want || pages[0].Location != tt.location {
				t.Errorf("%+v, skipped %+v; want %s", pages, skipped, base+tt.want)
			}
		})
	}
}

func TestLocationsComeInByteOrder(t *testing.T) {
	files := map[string]string{}
	want := []string{"a-b/x.html", "a.html", "a/x.html", "a/y/z.html", "a0.html", "b.html"}
	for _, f := range want {
		files[f] = f
	}
	pages, _ := mustScan(t, &site.Site{Dir: write(t, files), BaseURL: base})
	var got []string
	for _, p := range pages {
		got = append(got, p.Location)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestADoubtfulListingYieldsNoPage(t *testing.T) {
	dir := write(t, map[string]string{"a.html": "x", "b.html": "x"})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		site site.Site
		want string
	}{
		{"a folder that is missing", t.Context(), site.Site{Dir: filepath.Join(dir, "none")}, "none"},
		{"a file in its place", t.Context(), site.Site{Dir: filepath.Join(dir, "a.html")}, "a.html"},
		{"two indexes", t.Context(), site.Site{Dir: write(t, map[string]string{"d/index.html": "x", "d/index.htm": "x", "a.html": "x"})}, `"d/index.htm" and "d/index.html" are both ` + base + "d/"},
		{"two endings, left out", t.Context(), site.Site{Dir: write(t, map[string]string{"a.html": "x", "a.md": "x"}), StripExt: true}, `"a.html" and "a.md" are both ` + base + "a"},
		{"a context that has ended", cancelled, site.Site{Dir: dir}, "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.site.BaseURL = base
			n := 0
			for page, err := range tt.site.Pages(tt.ctx, nil, func(s content.Skipped) { t.Errorf("skipped %+v", s) }) {
				if n++; err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("yields %+v, %v; want an error with %q", page, err, tt.want)
				}
			}
			if n != 1 {
				t.Errorf("yields %d times", n)
			}
		})
	}
}

func TestNothingOutsideTheFolderIsRead(t *testing.T) {
	outside := write(t, map[string]string{"secret.html": "x", "deep/secret.html": "x"})
	dir := write(t, map[string]string{"a/a.html": "a", ".hidden.html": "x", ".git/a.html": "x", "a/.b/a.html": "x", "a/style.css": "x", "a/html": "x"})
	for link, to := range map[string]string{
		"link.html": filepath.Join(outside, "secret.html"), "link": outside, "up.html": "../" + filepath.Base(outside) + "/secret.html",
		"inside.html": "a/a.html", "in": "a", "a/gone.html": "nowhere",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	s := &site.Site{Dir: dir, BaseURL: base}
	pages, skipped := mustScan(t, s)
	if len(pages) != 1 || pages[0].Location != "a/a.html" || len(skipped) != 0 {
		t.Errorf("pages %+v, skipped %+v", pages, skipped)
	}
	for _, location := range []string{
		"link.html", "link/secret.html", "link/deep/secret.html", "up.html", "inside.html", "in/a.html", "../secret.html", "a/../a/a.html", "/etc/passwd", filepath.Join(outside, "secret.html"),
		".hidden.html", ".git/a.html", "a/.b/a.html", "a/style.css", "a/gone.html", "a", "", ".", "a//a.html", "a/a.html/", "a/a.html/x.html",
	} {
		if page, err := s.Fetch(t.Context(), location); err == nil {
			t.Errorf("Fetch(%q) = %+v", location, page)
		}
	}
}
