package rbt_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// seeds adds the examples of the text, and documents of ours.
func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/draft/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no examples: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(whole(b))
	}
	f.Add([]byte(good))
	data, err := aManifest(f).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"specVersion":"fwdslsh.dev/rabit/schemas/0.4.0/burrow","entries":[{"id":"a","kind":"burrow","uri":"docs/"}]}`))
}

// FuzzManifest: what is read and can be written is read again as the same, with
// an RID that is its own.
func FuzzManifest(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := rbt.ParseManifest(data, rbt.Options{})
		if err != nil {
			return
		}
		if _, err := rbt.ParsePage(data, rbt.Options{}); err != nil {
			t.Errorf("a manifest that is no page: %v", err)
		}
		written, err := m.Marshal()
		if err != nil {
			return
		}
		read, err := rbt.ParseManifest(written, rbt.Options{})
		if err != nil {
			t.Fatalf("%v, of %s", err, written)
		}
		if err := rbt.CheckManifest(written, read.RID); err != nil {
			t.Error(err)
		}
		if again, err := read.Marshal(); err != nil || !bytes.Equal(again, written) {
			t.Errorf("%v: written again it is %s, it was %s", err, again, written)
		}
	})
}

// FuzzManifestRID: the RID does not depend on form.
func FuzzManifestRID(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		own, err := rbt.ManifestRID(data)
		if err != nil {
			return
		}
		spaced := append([]byte(" \n"), data...)
		if again, err := rbt.ManifestRID(append(spaced, ' ')); err != nil || again != own {
			t.Errorf("%s, %v; it was %s", again, err, own)
		}
	})
}

func FuzzRegistry(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := rbt.ParseRegistry(data, rbt.Options{})
		if err != nil {
			return
		}
		written, err := g.Marshal()
		if err != nil {
			return
		}
		read, err := rbt.ParseRegistry(written, rbt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := read.Marshal(); err != nil || !bytes.Equal(again, written) {
			t.Errorf("%v: written again it is %s, it was %s", err, again, written)
		}
		if bytes.Count(g.Markdown(), []byte("\n## ")) != len(g.Burrows) {
			t.Errorf("%s has other headings", g.Markdown())
		}
	})
}

func FuzzPointers(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := rbt.ParseBurrowPointer(data, rbt.Options{}); err == nil {
			if _, err := p.Marshal(); err != nil {
				t.Error(err)
			}
		}
		if p, err := rbt.ParseWarrenPointer(data, rbt.Options{}); err == nil {
			if _, err := p.Marshal(); err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzNames: each of the small forms is printed as it was read.
func FuzzNames(f *testing.F) {
	for _, s := range []string{someRID, "urn:rabit:collection:0123456789abcdef:a%20b", "git@github.com:org/repo.git", "ssh://git@h:22/x", "https://h/x", "refs/heads/main", "0.2", "/a/b/", "../x", "a%2e/b?c#d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := rbt.ParseRID(s); err == nil && r.String() != s {
			t.Errorf("RID %q is printed %q", s, r)
		}
		if r, err := rbt.ParseRemote(s, rbt.Options{}); err == nil && r.String() != s {
			t.Errorf("remote %q is printed %q", s, r)
		}
		if r, err := rbt.ParseRef(s); err == nil && string(r) != s {
			t.Errorf("ref %q is printed %q", s, r)
		}
		if v, err := rbt.ParseVersion(s); err == nil && v.String() != s {
			t.Errorf("version %q is printed %q", s, v)
		}
		if p, err := rbt.ParsePath(s); err == nil {
			if again, err := rbt.ParsePath("/" + p); p != "." && (err != nil || again != p) {
				t.Errorf("path %q is %q, then %q, %v", s, p, again, err)
			}
		}
		target, err := rbt.ResolveHref("docs/.burrow.json", s, rbt.Options{})
		if err != nil || target.URL != "" {
			return
		}
		again, err := rbt.ResolveHref(rbt.ManifestFile, rbt.HrefOf(target.Path), rbt.Options{})
		if err != nil || again.Path != target.Path {
			t.Errorf("%q leads to %q, which is written %q and leads to %q, %v", s, target.Path, rbt.HrefOf(target.Path), again.Path, err)
		}
	})
}

// FuzzContradictions shows that a text for agents is read to its end, and that
// what is told of it is bounded, each a line that it has.
func FuzzContradictions(f *testing.F) {
	f.Add("train: true\n- **index:** `no`\n[x](drafts/a.md)", "drafts/*")
	f.Add("Content-Usage: train-ai=y;x=\"\nContent-Signal: search=no", "*.md")
	f.Fuzz(func(t *testing.T, text, glob string) {
		a := rbt.Agents{Ignore: []string{glob}}
		a.Uses.State(content.PurposeAITrain, content.No, "manifest")
		all := a.Contradictions("llms.txt", text)
		if len(all) > 100 {
			t.Errorf("%d are told", len(all))
		}
		for _, told := range all {
			var line int
			if _, err := fmt.Sscanf(told, "llms.txt line %d: ", &line); err != nil || line < 1 || line > strings.Count(text, "\n")+1 {
				t.Errorf("%q is told of %q", told, text)
			}
		}
	})
}
