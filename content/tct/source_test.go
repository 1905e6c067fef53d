package tct_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// scan reads a source once, as a publisher does.
func scan(t testing.TB, c tct.SourceConfig, known map[string][32]byte) (pages []content.Page, skipped []content.Skipped, err error) {
	t.Helper()
	c.Now = func() time.Time { return noon }
	s, err := tct.NewSource(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		return nil, nil, err
	}
	lookup := func(location string) ([32]byte, bool) { h, ok := known[location]; return h, ok }
	for p, err := range s.Pages(t.Context(), lookup, func(k content.Skipped) { skipped = append(skipped, k) }) {
		if err != nil {
			return pages, skipped, err
		}
		pages = append(pages, p)
	}
	return pages, skipped, nil
}

func TestAnExportIsReadBackOctetForOctet(t *testing.T) {
	want := make(map[string]content.Page)
	for _, p := range site() {
		want[p.URL] = p
	}
	for _, c := range []tct.ExportConfig{{}, {Bounds: tct.Bounds{MaxItems: 2}}, {Mapping: tct.Mapping{Base: "http://127.0.0.1:8080/docs/", Slug: "machine"}}} {
		c.Dir = t.TempDir()
		exportTo(t, c, site())
		for _, location := range []string{c.Dir, filepath.Join(c.Dir, tct.SitemapFile)} {
			pages, skipped, err := scan(t, tct.SourceConfig{Location: location}, nil)
			if err != nil || len(skipped) > 0 || len(pages) != len(want) {
				t.Fatalf("%d pages, skipped %v, %v", len(pages), skipped, err)
			}
			var order []string
			known := make(map[string][32]byte)
			for _, p := range pages {
				w := want[p.URL]
				if p.Digest != w.Digest || p.Fingerprint != w.Fingerprint || p.Title != w.Title || p.Language != w.Language || !p.Modified.Equal(w.Modified) || len(p.Warnings) > 0 {
					t.Errorf("page %+v, want %+v", p, w)
				}
				if p.Format != content.FormatTCT || tct.Check(p.Payload, p.URL) != nil || string(p.Payload) != string(w.Payload) {
					t.Errorf("%s: payload %s", p.URL, p.Payload)
				}
				order, known[p.Location] = append(order, p.Location), p.SourceHash
			}
			if !slices.IsSorted(order) {
				t.Errorf("pages come as %q", order)
			}
			again, _, err := scan(t, tct.SourceConfig{Location: location}, known)
			if err != nil || len(again) != len(pages) || slices.ContainsFunc(again, func(p content.Page) bool {
				return !p.Unchanged || p.Payload != nil || known[p.Location] != p.SourceHash
			}) {
				t.Errorf("the second scan: %+v, %v", again, err)
			}
			s, err := tct.NewSource(tct.SourceConfig{Location: location})
			if err != nil {
				t.Fatal(err)
			}
			if p, err := s.Fetch(t.Context(), pages[0].Location); err != nil || p.Digest != pages[0].Digest {
				t.Errorf("Fetch = %+v, %v", p, err)
			}
			for _, bad := range []string{"nothing.json", "../x", "/etc/passwd", ".llm-export", ""} {
				if _, err := s.Fetch(t.Context(), bad); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Fetch(%q) = %v", bad, err)
				}
			}
		}
	}
}

func TestAFolderIsHeldToItsSitemap(t *testing.T) {
	other := string(pageAt(base+"b/", "other", 1).Payload)
	for _, tt := range []struct {
		name   string
		change func(files map[string]string)
		want   error // of the one page that is skipped; nil: any
	}{
		{"another revision of the page", func(f map[string]string) { f["b/llm.json"] = other }, tct.ErrParity},
		{"another page", func(f map[string]string) { f["b/llm.json"] = f["llm.json"] }, tct.ErrCanonical},
		{"no payload", func(f map[string]string) { f["b/llm.json"] = "" }, tct.ErrMalformed},
		{"a file that is missing", func(f map[string]string) { delete(f, "b/llm.json") }, fs.ErrNotExist},
		{"an M-URL outside of the folder", func(f map[string]string) {
			f[tct.SitemapFile] = strings.Replace(f[tct.SitemapFile], base+"b/llm.json", "https://example.org/b", 1)
		}, nil},
		{"an M-URL that climbs", func(f map[string]string) {
			f[tct.SitemapFile] = strings.Replace(f[tct.SitemapFile], base+"b/llm.json", base+"../../etc/passwd", 1)
		}, nil},
		{"an item without a hash", func(f map[string]string) {
			f[tct.SitemapFile] = strings.Replace(f[tct.SitemapFile], "contentHash", "x", 1)
			f[tct.SitemapFile] = strings.Replace(f[tct.SitemapFile], "etag", "y", 1)
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			exportTo(t, tct.ExportConfig{Dir: dir}, site())
			before := tree(t, dir)
			after := maps.Clone(before)
			tt.change(after)
			for name := range before {
				os.Remove(filepath.Join(dir, name))
				if text, ok := after[name]; ok {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			pages, skipped, err := scan(t, tct.SourceConfig{Location: dir, BaseURL: base}, nil)
			if err != nil || len(pages) != 4 || len(skipped) != 1 || skipped[0].Err == nil {
				t.Fatalf("%d pages, skipped %v, %v", len(pages), skipped, err)
			}
			if tt.want != nil && !errors.Is(skipped[0].Err, tt.want) {
				t.Errorf("skipped by %v, want %v", skipped[0].Err, tt.want)
			}
		})
	}
}

func TestADoubtfulSitemapYieldsNoPage(t *testing.T) {
	dir := t.TempDir()
	exportTo(t, tct.ExportConfig{Dir: dir, Bounds: tct.Bounds{MaxItems: 2}}, site())
	files := tree(t, dir)
	child := ""
	for name := range files {
		if strings.HasPrefix(name, "llm-sitemap-") && strings.HasSuffix(name, ".json") {
			child = name
		}
	}
	for _, tt := range []struct {
		name   string
		change func(string) error
	}{
		{"a sitemap that is cut short", func(p string) error { return os.Truncate(filepath.Join(p, child), 100) }},
		{"a sitemap that is missing", func(p string) error { return os.Remove(filepath.Join(p, child)) }},
		{"an index that is cut short", func(p string) error { return os.Truncate(filepath.Join(p, tct.SitemapFile), 100) }},
		{"an index that is missing", func(p string) error { return os.Remove(filepath.Join(p, tct.SitemapFile)) }},
		{"an index in an index", func(p string) error {
			return os.WriteFile(filepath.Join(p, child), []byte(files[tct.SitemapFile]), 0o600)
		}},
		{"no folder", os.RemoveAll},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := t.TempDir()
			if err := os.CopyFS(p, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(p); err != nil {
				t.Fatal(err)
			}
			if pages, _, err := scan(t, tct.SourceConfig{Location: p}, nil); err == nil || len(pages) > 0 {
				t.Errorf("%d pages, %v", len(pages), err)
			}
		})
	}
}

func TestPayloadsOfOthersAreWrittenAnew(t *testing.T) {
	o := newOrigin(t, map[string]string{"/a/": "a"}, nil)
	sitemap := filepath.Join(o.dir, tct.SitemapFile)
	for _, tt := range []struct {
		name, payload string
		title, lang   string
		warnings      int
	}{
		{"Method B, with members in any order", `{"title":"T", "hash":"HASH","content":"c","canonical_url":"URL","language":"en-us","published":"x"}`, "T", "en-US", 0},
		{"no title", `{"canonical_url":"URL","content":"c","hash":"HASH","title":" "}`, "a", "", 2},
		{"a language that is none", `{"canonical_url":"URL","content":"c","hash":"HASH","language":"??","title":"T"}`, "T", "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.NewReplacer("URL", o.URL+"/a/", "HASH", fooHash).Replace(tt.payload)
			if err := os.WriteFile(filepath.Join(o.dir, "a", "llm.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			list := `{"version":1,"items":[{"cUrl":"` + o.URL + `/a/","mUrl":"` + o.URL + `/a/llm.json","modified":"2099-01-01T00:00:00Z","etag":"` + fooHash + `"}]}`
			if err := os.WriteFile(sitemap, []byte(list), 0o600); err != nil {
				t.Fatal(err)
			}
			pages, _, err := scan(t, tct.SourceConfig{Location: o.dir, BaseURL: o.URL}, nil)
			if err != nil || len(pages) != 1 {
				t.Fatalf("%d pages, %v", len(pages), err)
			}
			p := pages[0]
			d, err := tct.Decode(p.Payload)
			if err != nil || tct.Check(p.Payload, p.URL) != nil || d.Hash != tct.FormatHash(p.Fingerprint) || d.Hash == fooHash {
				t.Errorf("payload %s, %v", p.Payload, err)
			}
			if p.Title != tt.title || p.Language != tt.lang || d.Title != tt.title || d.Content != "c" || tct.FormatHash(p.SourceHash) != fooHash {
				t.Errorf("page %+v", p)
			}
			// A time that lies ahead is cut down to now, and noted.
			if len(p.Warnings) != tt.warnings+1 || !p.Modified.Equal(noon) {
				t.Errorf("warnings %q, modified %v", p.Warnings, p.Modified)
			}
		})
	}
}

func TestARemoteSourceKeepsOnlyTheSitemapInItsMemory(t *testing.T) {
	o := newOrigin(t, threePages, nil)
	client, err := fetch.New(fetch.Config{UserAgent: "test/1", Allowed: []string{o.URL}, Rate: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	m := memory{}
	c := tct.SourceConfig{Location: o.URL + "/llm-sitemap.json", Agent: tct.AgentConfig{Client: client, IgnoreRobots: true}, Memory: m}
	pages, skipped, err := scan(t, c, nil)
	if err != nil || len(pages) != 3 || len(skipped) > 0 || len(m) != 1 {
		t.Fatalf("%d pages, skipped %v, memory %v, %v", len(pages), skipped, m, err)
	}
	known := make(map[string][32]byte)
	for _, p := range pages {
		known[p.Location] = p.SourceHash
	}
	o.asked()
	if _, _, err := scan(t, c, known); !errors.Is(err, content.ErrUnchanged) || len(o.asked()) != 1 {
		t.Errorf("the second scan: %v", err)
	}
	texts := maps.Clone(threePages)
	texts["/a/"] = "new"
	delete(texts, "/b.html")
	o.publish(texts)
	again, _, err := scan(t, c, known)
	if err != nil || len(again) != 2 || again[0].Unchanged || !again[1].Unchanged {
		t.Errorf("the third scan: %+v, %v", again, err)
	}
	if log := o.asked(); len(log) != 2 || log[1] != "/a/llm.json "+o.etag("/a/", "a") {
		t.Errorf("asked for %q", log)
	}
	s, err := tct.NewSource(c)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Fetch(t.Context(), o.URL+"/a/llm.json"); err != nil || p.Digest != again[0].Digest {
		t.Errorf("Fetch = %+v, %v", p, err)
	}
	if s.Run() != nil || s.Extraction() == "" {
		t.Error("a source has a run before it ran")
	}
}

func TestASourceThatMakesNoSenseIsRefused(t *testing.T) {
	for _, c := range []tct.SourceConfig{
		{}, {Location: "http://"}, {Location: "https://user:secret@example.com/s.json"}, {Location: "https://example.com/s.json"},
		{Location: "x", BaseURL: "ftp://x/"}, {Location: "x", BaseURL: "https://example.com/?a"},
	} {
		if _, err := tct.NewSource(c); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("NewSource(%+v) = %v", c, err)
		}
	}
}

func TestThePolicyOfAFolderIsHeard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	exportTo(t, tct.ExportConfig{Dir: dir, Policy: &tct.Policy{Profile: tct.PolicyProfile, Version: 1, AllowAITrain: content.No}}, site())
	s, err := tct.NewSource(tct.SourceConfig{Location: dir, BaseURL: base})
	if err != nil {
		t.Fatal(err)
	}
	read := func() (pages int, err error) {
		for _, err = range s.Pages(t.Context(), nil, nil) {
			if err == nil {
				pages++
			}
		}
		return pages, err
	}
	if pages, err := read(); err != nil || pages != len(site()) {
		t.Fatalf("%d pages, %v", pages, err)
	}
	if denied := s.Run().Preferences.Denied(); len(denied) != 1 || denied[0].Purpose != content.PurposeAITrain || s.Run().PolicyURL != base+tct.PolicyFile {
		t.Errorf("denied %v, by %q", denied, s.Run().PolicyURL)
	}
	if err := os.WriteFile(filepath.Join(dir, tct.PolicyFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if pages, err := read(); !errors.Is(err, tct.ErrPolicy) || pages != 0 {
		t.Errorf("with a policy that cannot be read: %d pages, %v", pages, err)
	}
}
