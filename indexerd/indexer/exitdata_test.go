package indexer_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// dataOf is the URLs of the pages that an export's data holds in its own format, however
// they can be found there. What is listed and what lies there have to be the same.
func dataOf(t testing.TB, format, dir string) map[string]bool {
	t.Helper()
	listed, there := make(map[string]bool), make(map[string]bool)
	each := map[string]func(t testing.TB, dir, name string, raw []byte, listed, there map[string]bool){
		"scp": inSCP, "tct": inTCT, "rbt": inRBT, "arc": inARC,
	}[format]
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		each(t, dir, filepath.ToSlash(name), raw, listed, there)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if !maps.Equal(listed, there) {
		t.Errorf("as %s %v is listed, and %v is there", format, listed, there)
	}
	return there
}

func inSCP(t testing.TB, _, name string, raw []byte, listed, there map[string]bool) {
	if !strings.HasSuffix(name, ".scp.zst") {
		return
	}
	for _, u := range linesOf(t, raw) {
		listed[u], there[u] = true, true
	}
}

// inTCT reads a payload, or a sitemap.
func inTCT(t testing.TB, _, name string, raw []byte, listed, there map[string]bool) {
	if d, err := tct.Decode(raw); err == nil {
		there[d.URL] = true
	}
	if strings.HasPrefix(name, strings.TrimSuffix(tct.SitemapFile, ".json")) && strings.HasSuffix(name, ".json") {
		readSitemap(t, raw, tct.Visitor{Item: func(i tct.Item) error { listed[i.CURL] = true; return nil }})
	}
}

// inRBT reads a payload, or a manifest, which lists each by the path of its file.
func inRBT(t testing.TB, dir, name string, raw []byte, listed, there map[string]bool) {
	if d, err := tct.Decode(raw); err == nil {
		there[d.URL] = true
	}
	if name != rbt.ManifestFile {
		return
	}
	m, err := rbt.ParseManifest(raw, rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Entries {
		file, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(e.ID)))
		if err != nil {
			t.Fatal(err)
		}
		d, err := tct.Decode(file)
		if err != nil {
			t.Errorf("%s: %v", e.ID, err)
		}
		listed[d.URL] = true
	}
}

// inARC reads the sitemap. Deltas name what is gone, so that it is dropped.
func inARC(t testing.TB, _, name string, raw []byte, listed, there map[string]bool) {
	if name != arc.SitemapFile {
		return
	}
	if _, err := arc.ReadSitemap(bytes.NewReader(raw), arc.Limits{}, arc.Visitor{Entry: func(e arc.Entry) error {
		listed[e.URL], there[e.URL] = true, true
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
}
