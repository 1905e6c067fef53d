//go:build system

package scp

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// What is exported is valid by Appendix A in the eyes of another's validator,
// and what unpacks it is another's program as well.
func TestSitemapsAreValidForXmllint(t *testing.T) {
	dir := t.TempDir()
	exportTo(t, dir, noon, map[string]string{"a": "1", "b?x=1&y='2'": "1"}, noon)
	exportTo(t, dir, noon.Add(time.Hour), map[string]string{"a": "2", "b?x=1&y='2'": "1"}, noon.Add(time.Hour))
	lint := func(path string) error {
		cmd := exec.CommandContext(t.Context(), "xmllint", "--nonet", "--noout", "--schema", "schema/urlset.xsd", path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%s: %s", path, out)
		}
		return err
	}
	if err := lint(filepath.Join(dir, "sitemap.xml")); err != nil {
		t.Error(err)
	}
	if err := lint("testdata/seed/sitemap.xml"); err != nil {
		t.Errorf("the text's own example: %v", err)
	}
	bad := filepath.Join(dir, "bad.xml")
	text := `<urlset xmlns="` + sitemapNamespace + `" xmlns:scp="` + Namespace + `"><scp:section name="a" updateFreq="yearly" pages="1"/></urlset>`
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if lint(bad) == nil {
		t.Error("the schema accepts what Appendix A does not know")
	}
}

// cppreference is where the Debian package cppreference-doc-en-html puts its
// pages.
const cppreference = "/usr/share/cppreference/doc/html/en"

func TestPagesComeBackFromACollectionOnCppreference(t *testing.T) {
	folder := &site.Site{Dir: cppreference, BaseURL: "https://cppreference.example/"}
	want := make(map[string]content.Page)
	var lines [][]byte
	blocks, differ := 0, 0
	for c, err := range folder.Pages(t.Context(), nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		want[c.URL] = c
		line, _, err := FromContent(&c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		n, same := fromHTML(t, &c)
		if blocks += n; !same {
			differ++
		}
	}
	dir := t.TempDir()
	_, err := Export(t.Context(), ExportConfig{
		Dir: dir, BaseURL: "https://cppreference.example/scp/", Section: "all", Generated: time.Now(), Packing: Packing{Compression: Zstd},
	}, func(yield func([]byte, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	s := source(t, SourceConfig{Location: filepath.Join(dir, "sitemap.xml"), Dir: t.TempDir(), Now: time.Now})
	for got, err := range s.Pages(t.Context(), nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		p, err := ParsePage(got.Payload)
		if err != nil {
			t.Fatal(err)
		}
		c := want[got.URL]
		d, err := tct.Decode(c.Payload)
		if err != nil || got.Title != c.Title || got.Language != c.Language || tct.Normalise(p.Text()) != tct.Normalise(d.Content) {
			t.Errorf("%s comes back as another (%v)", got.URL, err)
		}
	}
	t.Logf("%d pages, by their HTML %d blocks; of these pages %d have other words than their text", n, blocks, differ)
	if n != len(want) || n == 0 || differ > n/1000 {
		t.Errorf("%d pages of %d come back, and %d have other words by their HTML", n, len(want), differ)
	}
}

// fromHTML turns a page's HTML into blocks, and reports whether they hold the
// words that the other extraction found.
func fromHTML(t *testing.T, c *content.Page) (blocks int, same bool) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(cppreference, c.Location))
	if err != nil {
		t.Fatal(err)
	}
	p, all, err := FromHTML(bytes.NewReader(src), c.URL, "", noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := AppendPage(nil, &p, all); err != nil {
		t.Fatal(err)
	}
	d, err := tct.Decode(c.Payload)
	if err != nil {
		t.Fatal(err)
	}
	n := len(all)
	all = slices.DeleteFunc(all, func(b Block) bool {
		_, ok := b.(*Image) // what stands for a picture is no word of the other
		return ok
	})
	return n, slices.Equal(strings.Fields(blocksText(all)), strings.Fields(d.Content))
}
