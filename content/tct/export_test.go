package tct_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

const base = "https://example.com/"

// pageAt makes a page.
func pageAt(u, text string, day int) content.Page {
	payload, sum := tct.Encode(nil, tct.Document{URL: u, Title: "Title", Content: text, Language: "en"})
	return content.Page{
		URL: u, Location: u, Format: content.FormatTCT, Payload: payload, Fingerprint: sum, Digest: sha256.Sum256(payload),
		Title: "Title", Language: "en", Modified: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC),
	}
}

func site() []content.Page {
	return []content.Page{
		pageAt(base+"b/", "b", 2), pageAt(base, "home", 3), pageAt(base+"a.html", "a", 1), pageAt(base+"a?q=1", "q", 1), pageAt(base+"caf%C3%A9/", "c", 4),
	}
}

// exportTo exports pages into a folder.
func exportTo(t testing.TB, c tct.ExportConfig, pages []content.Page) tct.ExportReport {
	t.Helper()
	if c.Mapping.Base == "" {
		c.Mapping.Base = base
	}
	x, err := tct.OpenExport(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if err := x.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	report, err := x.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// tree reads a folder: content by path.
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

func TestAnExportIsDeterministic(t *testing.T) {
	pages := site()
	policy := &tct.Policy{Version: 1, AllowAITrain: content.No}
	first, second := t.TempDir(), t.TempDir()
	report := exportTo(t, tct.ExportConfig{Dir: first, Policy: policy}, pages)
	if report.Pages != 5 || report.Written != 5 || report.Sitemaps != 1 {
		t.Errorf("report %+v", report)
	}
	slices.Reverse(pages)
	exportTo(t, tct.ExportConfig{Dir: second, Policy: policy}, pages)
	a, b := tree(t, first), tree(t, second)
	if len(a) != 8 || len(b) != 8 {
		t.Errorf("files %q and %q", a, b)
	}
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("%s differs by the order of pages", name)
		}
	}
	var got readAll
	if err := got.read(strings.NewReader(a[tct.SitemapFile]), tct.Limits{}); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, i := range got.items {
		urls = append(urls, i.CURL)
		file, _ := tct.Mapping{Base: base}.File(i.MURL)
		if d, err := tct.Decode([]byte(a[file])); err != nil || d.Hash != i.Hash || d.URL != i.CURL {
			t.Errorf("%s: %+v, %v", file, d, err)
		}
	}
	if want := []string{base, base + "a.html", base + "a?q=1", base + "b/", base + "caf%C3%A9/"}; !slices.Equal(urls, want) {
		t.Errorf("the sitemap lists %q, want %q: the homepage first", urls, want)
	}
	z, err := gzip.NewReader(strings.NewReader(a[tct.SitemapFile+".gz"]))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || string(plain) != a[tct.SitemapFile] {
		t.Errorf("the compressed sitemap is another one: %v", err)
	}
	info, err := os.Stat(filepath.Join(first, "b", "llm.json"))
	if err != nil || !info.ModTime().Equal(pages[4].Modified) {
		t.Errorf("the payload's file is of %v, its page of %v", info.ModTime(), pages[4].Modified)
	}
}

func TestAnExportWritesOnlyWhatChanged(t *testing.T) {
	dir := t.TempDir()
	c := tct.ExportConfig{Dir: dir, Mapping: tct.Mapping{Base: base}}
	exportTo(t, c, site())
	before, err := os.Stat(filepath.Join(dir, tct.SitemapFile))
	if err != nil {
		t.Fatal(err)
	}
	if again := exportTo(t, c, site()); again.Written != 0 || again.Removed != 0 {
		t.Errorf("the same pages again: %+v", again)
	}
	if after, err := os.Stat(filepath.Join(dir, tct.SitemapFile)); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the sitemap was written again: %v", err)
	}
	pages := site()[1:] // b/ is gone
	pages[1] = pageAt(base+"a.html", "new", 1)
	for i := range pages {
		if i != 1 {
			pages[i].Payload = nil // the tree holds it
		}
	}
	report := exportTo(t, c, pages)
	if report.Written != 1 || report.Removed != 1 {
		t.Errorf("one changed, one gone: %+v", report)
	}
	files := tree(t, dir)
	if _, there := files["b/llm.json"]; there || !strings.Contains(files["a.html.llm.json"], "new") {
		t.Errorf("the tree is %q", files)
	}
	if _, err := os.Stat(filepath.Join(dir, "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder is there: %v", err)
	}
	// Its time and size must not both be what they were.
	if after, err := os.Stat(filepath.Join(dir, "a.html.llm.json")); err != nil || after.ModTime().Unix() <= pages[1].Modified.Unix() {
		t.Errorf("a changed payload of the same day is of %v", after.ModTime())
	}
	if after, err := os.Stat(filepath.Join(dir, tct.SitemapFile)); err != nil || after.ModTime().Unix() <= before.ModTime().Unix() {
		t.Errorf("the new sitemap is of %v, the old one of %v", after.ModTime(), before.ModTime())
	}
}

func TestAnExportOfManyPagesHasAnIndex(t *testing.T) {
	dir := t.TempDir()
	c := tct.ExportConfig{Dir: dir, Bounds: tct.Bounds{MaxItems: 2}}
	report := exportTo(t, c, site())
	if report.Sitemaps != 3 || report.Sitemap.Items != 3 {
		t.Fatalf("report %+v", report)
	}
	files := tree(t, dir)
	var index, all readAll
	if err := index.read(strings.NewReader(files[tct.SitemapFile]), tct.Limits{}); err != nil {
		t.Fatal(err)
	}
	for _, child := range index.children {
		name, ok := tct.Mapping{Base: base}.File(child.URL)
		if got := tct.FormatHash(sha256.Sum256([]byte(files[name]))); !ok || got != child.ETag {
			t.Errorf("%s has %s, the index says %s", name, got, child.ETag)
		}
		if err := all.read(strings.NewReader(files[name]), tct.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(all.items) != 5 || all.items[0].CURL != base {
		t.Errorf("the sitemaps list %v", all.items)
	}
	exportTo(t, c, site()[:1])
	for name := range tree(t, dir) {
		if strings.HasPrefix(name, "llm-sitemap-") {
			t.Errorf("%s is left behind", name)
		}
	}
}

func TestAnExportRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pages func() []content.Page
	}{
		{"a page twice", func() []content.Page { return []content.Page{pageAt(base, "a", 1), pageAt(base, "a", 1)} }},
		{"a payload whose hash is not its own", func() []content.Page {
			p := pageAt(base, "a", 1)
			p.Payload = bytes.Replace(p.Payload, []byte(`"content":"a"`), []byte(`"content":"b"`), 1)
			return []content.Page{p}
		}},
		{"a fingerprint of something else", func() []content.Page {
			p := pageAt(base, "a", 1)
			p.Fingerprint[0]++
			return []content.Page{p}
		}},
		{"a payload of another page", func() []content.Page {
			p := pageAt(base, "a", 1)
			p.URL += "b"
			return []content.Page{p}
		}},
		{"another format", func() []content.Page {
			p := pageAt(base, "a", 1)
			p.Format = 0
			return []content.Page{p}
		}},
		{"a file where a folder has to be", func() []content.Page {
			return []content.Page{pageAt(base+"a", "a", 1), pageAt(base+"a.llm.json/", "b", 1)}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, err := tct.OpenExport(tct.ExportConfig{Dir: t.TempDir(), Mapping: tct.Mapping{Base: base}})
			for _, p := range tt.pages() {
				if err == nil {
					err = x.Add(p)
				}
			}
			if err == nil {
				t.Error("it is exported")
			}
		})
	}
	strange := t.TempDir()
	if err := os.WriteFile(filepath.Join(strange, "llm.json"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tct.OpenExport(tct.ExportConfig{Dir: strange, Mapping: tct.Mapping{Base: base}}); !errors.Is(err, tct.ErrNotExport) {
		t.Errorf("a folder of somebody else: %v", err)
	}
}

func TestListingsAreLeftOutUnlessTheyAreWanted(t *testing.T) {
	pages := append(site(), pageAt(base+"tag/a/", "list", 1))
	report := exportTo(t, tct.ExportConfig{Dir: t.TempDir()}, pages)
	if report.Pages != 5 || !slices.Equal(report.Listings, []string{base + "tag/a/"}) {
		t.Errorf("report %+v", report)
	}
	if report = exportTo(t, tct.ExportConfig{Dir: t.TempDir(), KeepListings: true}, pages); report.Pages != 6 || report.Listings != nil {
		t.Errorf("with listings: %+v", report)
	}
}

func TestAnExportThatBreaksOffIsTakenUpAgain(t *testing.T) {
	dir := t.TempDir()
	c := tct.ExportConfig{Dir: dir, Mapping: tct.Mapping{Base: base}}
	x, err := tct.OpenExport(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Add(pageAt(base+"gone/", "never listed", 1)); err != nil {
		t.Fatal(err)
	}
	if report := exportTo(t, c, site()); report.Written != 5 {
		t.Errorf("report %+v", report)
	}
	whole := t.TempDir()
	exportTo(t, tct.ExportConfig{Dir: whole}, site())
	got, want := tree(t, dir), tree(t, whole)
	if len(got) != len(want) {
		t.Errorf("the tree is %q, want %q", got, want)
	}
}

// TestAnExportCanBeReadWhileItIsMade reads a tree all the time while pages
// change: each sitemap is whole, and each payload is what its own hash says.
func TestAnExportCanBeReadWhileItIsMade(t *testing.T) {
	dir := t.TempDir()
	c := tct.ExportConfig{Dir: dir, Bounds: tct.Bounds{MaxItems: 2}}
	exportTo(t, c, site())
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		for !stop.Load() {
			s, err := tct.NewSource(tct.SourceConfig{Location: dir, BaseURL: base})
			if err != nil {
				done <- err
				return
			}
			for p, err := range s.Pages(t.Context(), nil, nil) {
				// An index that was read just before it was replaced may name a
				// sitemap that is gone.
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					done <- err
					return
				}
				if err == nil && p.Digest != sha256.Sum256(p.Payload) {
					done <- fmt.Errorf("%s is torn", p.URL)
					return
				}
			}
		}
		done <- nil
	}()
	for i := range 8 {
		pages := site()[i%3:]
		pages[0] = pageAt(pages[0].URL, fmt.Sprint(i), 1)
		exportTo(t, c, pages)
	}
	stop.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTheConfigurationForNginxHasEveryPage(t *testing.T) {
	dir := t.TempDir()
	odd := pageAt(base+"$uri'/", "x", 1)
	exportTo(t, tct.ExportConfig{Dir: t.TempDir(), Nginx: dir, Policy: &tct.Policy{}}, append(site(), odd))
	files := tree(t, dir)
	for _, want := range []string{
		`"/café/llm.json" "` + tct.FormatHash(site()[4].Fingerprint) + `";`, `"/café/llm.json" "https://example.com/caf%C3%A9/";`,
		`"/$uri'/llm.json" "https://example.com/${tct_dollar}uri'/";`, `"/llm.json" "https://example.com/";`,
	} {
		if !strings.Contains(files[tct.NginxHTTP], want) {
			t.Errorf("%s lacks %s:\n%s", tct.NginxHTTP, want, files[tct.NginxHTTP])
		}
	}
	for _, want := range []string{"etag off;", "rel=\\\"canonical\\\"", "describedby", "stale-if-error=86400", "return 304"} {
		if !strings.Contains(files[tct.NginxServer], want) {
			t.Errorf("%s lacks %s:\n%s", tct.NginxServer, want, files[tct.NginxServer])
		}
	}
}
