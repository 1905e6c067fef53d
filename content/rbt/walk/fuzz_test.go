package walk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// A shelf is a root of a few files.
type shelf map[string][]byte

func (m shelf) read(_ context.Context, target rbt.Target, limit int64) ([]byte, error) {
	data, ok := m[target.Path]
	if !ok || int64(len(data)) > limit {
		return nil, fs.ErrNotExist
	}
	return data, nil
}

func (m shelf) document(ctx context.Context, target rbt.Target) ([]byte, error) {
	return m.read(ctx, target, rbt.MaxManifest)
}

func (shelf) url(rbt.Target) string { return "" }
func (shelf) kind() string          { return "memory" }
func (shelf) root() rbt.Root        { return rbt.Root{} }

// walked is a walk over files whose manifest is read already.
func walked(t *testing.T, m *rbt.Manifest, files shelf, depthFirst bool) *Walk {
	c := Config{
		Start: Start{Local: &Local{}}, DepthFirst: depthFirst,
		Limits: Limits{Depth: 5, Entries: 300, Documents: 20, Resource: 1 << 16},
	}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	w := &Walk{Manifest: m, config: c, top: rbt.Target{Path: rbt.ManifestFile}, roots: []*source{{place: files}}}
	w.web = web{config: &w.config}
	w.cache = cache{now: c.Now}
	return w
}

// FuzzWalk: whatever documents say of one another, a walk comes to its end within
// its limits, visits no entry twice, yields no octets but those that an entry
// names, and does the same again.
func FuzzWalk(f *testing.F) {
	entry := fmt.Sprintf(`{"id":"a","rid":%q,"href":"a.md","type":"text/markdown","rel":[]}`, rbt.FileRID([]byte("A")))
	f.Add([]byte(plain(entry, leads("d", "docs/.burrow.json"))), []byte(plain(leads("up", "../.burrow.json"), leads("l", "../list"))), []byte(plain(leads("x", "docs/.burrow.json"))), []byte("A"), false)
	f.Add([]byte(plain(entry, leads("l", "list?x"))), []byte(`{"entries":[],"children":{"href":"../list","offset":1,"limit":1}}`), []byte(plain(entry, leads("l", "list?y"))), []byte("B"), true)
	f.Add([]byte(plain(leads("l", "https://h.test/x"), leads("m", "/list"), leads("n", "%2e%2e/list"))), []byte(plain()), []byte("{"), []byte(nil), false)
	f.Fuzz(func(t *testing.T, top, docs, list, text []byte, depthFirst bool) {
		m, err := rbt.ParsePage(top, rbt.Options{})
		if err != nil {
			return
		}
		files := shelf{rbt.ManifestFile: top, "docs/" + rbt.ManifestFile: docs, "list": list, "a.md": text}
		run := func() (order []string) {
			w := walked(t, m, files, depthFirst)
			seen := make(map[string]bool)
			for item, err := range w.Items(t.Context()) {
				if err != nil {
					return append(order, err.Error())
				}
				name := fmt.Sprintf("%q %q", item.Document, item.Entry.ID)
				if seen[name] {
					t.Errorf("%s is visited twice", name)
				}
				seen[name] = true
				order = append(order, name)
				checkItem(t, item, files)
			}
			if len(order) > 300 || len(w.Report.Warnings) > maxWarnings {
				t.Errorf("%d entries, %d warnings", len(order), len(w.Report.Warnings))
			}
			return order
		}
		if first, second := run(), run(); !slices.Equal(first, second) {
			t.Errorf("%q, and then %q", first, second)
		}
	})
}

// checkItem holds an item against its entry, by code that is not the walk's.
func checkItem(t *testing.T, item Item, files shelf) {
	t.Helper()
	if item.Data == nil {
		if item.Err == nil && !item.Ignored {
			t.Errorf("entry %q has neither octets nor a reason", item.Entry.ID)
		}
		return
	}
	sum := sha256.Sum256(item.Data)
	named, ok := item.Entry.RID.Sum()
	switch {
	case item.Err != nil || item.Sum != sum || !bytes.Equal(item.Data, files[item.Path]):
		t.Errorf("entry %q: %v, of %q", item.Entry.ID, item.Err, item.Path)
	case ok && named != sum, item.Entry.Hash != nil && *item.Entry.Hash != sum, item.Entry.Size >= 0 && item.Entry.Size != int64(len(item.Data)):
		t.Errorf("entry %q is taken, and is not what it names", item.Entry.ID)
	}
}
