package rbt_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

const (
	someRID = "urn:rabit:sha256:b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3"
	// good is a manifest that is right; tables replace a part of it.
	good = `{"rbt":"0.2","manifest":{"title":"T","updated":"2025-01-15T12:00:00Z","rid":"` + someRID + `",` +
		`"roots":[{"git":{"remote":"https://example.org/b.git","ref":"refs/heads/main"}},{"https":{"base":"https://example.org/b/"}}]},` +
		`"entries":[{"id":"a","rid":"` + someRID + `","href":"a.md","type":"text/markdown","rel":["item"]}]}`
)

var testNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// cut is where the text's examples leave a digest short.
var cut = regexp.MustCompile(`[0-9a-f]{12,15}\.\.\.`)

// example is one of the text's, as it is printed.
func example(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/draft", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// whole fills the digests of an example up to their length.
func whole(b []byte) []byte {
	return cut.ReplaceAllFunc(b, func(digits []byte) []byte {
		d := strings.TrimSuffix(string(digits), "...")
		return []byte(strings.Repeat(d, 6)[:64])
	})
}

// replaced is good with a part replaced, which has to be there.
func replaced(t testing.TB, old, new string) []byte {
	t.Helper()
	if old != "" && !strings.Contains(good, old) {
		t.Fatalf("there is no %q to replace", old)
	}
	return []byte(strings.Replace(good, old, new, 1))
}

// conforms checks a document with a library that others wrote, against a schema
// of schema/.
func conforms(t testing.TB, schema string, document []byte) error {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []string{"burrow", "warren"} {
		b, err := os.ReadFile("schema/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource("https://schema.invalid/rbt/"+name+".json", doc); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := c.Compile("https://schema.invalid/rbt/" + schema + ".json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(value)
}

// aManifest is one of ours, with a Git root first, a page and a collection.
func aManifest(t testing.TB) *rbt.Manifest {
	t.Helper()
	remote, err := rbt.ParseRemote("git@example.org:org/b.git", rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("hello\n")
	sum, _ := rbt.FileRID(data).Sum()
	m := &rbt.Manifest{
		Title: "T", Description: "D", Updated: testNow,
		Roots:   []rbt.Root{{Git: &rbt.GitRoot{Remote: remote, Ref: "refs/heads/main", Path: "docs"}}, {HTTPS: &rbt.HTTPSRoot{Base: "https://example.org/b/"}}},
		Mirrors: []rbt.Root{{HTTPS: &rbt.HTTPSRoot{Base: "https://mirror.example/b/"}}},
		Cache:   rbt.Cache{HasMaxAge: true, MaxAge: time.Minute, StaleWhileRevalidate: time.Hour},
		Repo:    rbt.Repo{Readme: "README.md", License: "LICENSE"},
		Auth:    &rbt.Auth{Required: true, Documentation: "https://example.org/access"},
		Entries: []rbt.Entry{
			{
				ID: "a", RID: rbt.FileRID(data), Href: "a%20b.md", Type: "text/markdown", Rel: []string{rbt.RelIndex}, Title: "A",
				Hash: &sum, Size: int64(len(data)), Modified: testNow, Lang: "en",
				Links: []rbt.Link{{ID: "part 1"}, {Href: "c.md", Rel: rbt.RelRelated}},
			},
			{
				ID: "part 1", Href: "docs/", Type: rbt.DirectoryType, Rel: []string{rbt.RelCollection}, Size: -1,
				Children: &rbt.Children{Href: "docs/.burrow.json", Limit: 10, Total: 3},
			},
		},
	}
	m.Agents.Context, m.Agents.Ignore, m.Agents.EntryPoint = "C", []string{"drafts/*"}, "a"
	return m
}
