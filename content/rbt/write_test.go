package rbt_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func aRegistry(t testing.TB) *rbt.Registry {
	m := aManifest(t)
	return &rbt.Registry{Title: "Reg *x*", Description: "D", Updated: testNow, Burrows: []rbt.Burrow{
		{Name: "one", Title: "One <script>", Summary: "S.\n# no heading", Roots: m.Roots, RID: rbt.FileRID(nil), Tags: []string{"a", "b"}, Updated: testNow},
		{Name: "two", Title: "Two", Summary: "S.", Roots: m.Roots[1:]},
	}}
}

// TestWhatIsWrittenIsReadAndConforms writes each document, holds it against the
// schema, and reads it again.
func TestWhatIsWrittenIsReadAndConforms(t *testing.T) {
	m := aManifest(t)
	m.Agents.Uses.Preferences.State(content.PurposeAITrain, content.No, "x")
	m.Agents.Uses.Preferences.State(content.PurposeSearchSnippet, content.Yes, "x")
	m.Agents.Uses.Attribution = true
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := conforms(t, "burrow", data); err != nil {
		t.Errorf("%v for %s", err, data)
	}
	read, err := rbt.ParseManifest(data, rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := read.CheckFull(); err != nil {
		t.Errorf("short of full conformance: %v", err)
	}
	again, err := read.Marshal()
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("written again it is %s, %v; it was %s", again, err, data)
	}
	for _, holds := range []string{`"train": false`, `"quote": "with-attribution"`, `"path": "/docs"`, `"maxAge": 60`, `"readme": "README.md"`} {
		if !strings.Contains(string(data), holds) {
			t.Errorf("%s does not hold %s", data, holds)
		}
	}

	registry, err := aRegistry(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := conforms(t, "warren", registry); err != nil {
		t.Errorf("%v for %s", err, registry)
	}
	g, err := rbt.ParseRegistry(registry, rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := rbt.RegistryRID(registry)
	if err != nil || g.RID != own {
		t.Errorf("the registry names %s and is %s, %v", g.RID, own, err)
	}
	if again, err := g.Marshal(); err != nil || !bytes.Equal(again, registry) {
		t.Errorf("written again it is %s, %v", again, err)
	}
}

func TestTheTextsExamplesAreJudgedByTheSchemas(t *testing.T) {
	for _, tt := range []struct {
		name, schema string
		doc          []byte
		want         bool
	}{
		{"the registry", "warren", example(t, "registry"), true},
		{"the manifest with whole digests", "burrow", whole(example(t, "manifest")), true},
		{"the manifest with digests cut short", "burrow", example(t, "manifest"), false},
		{"no roots", "burrow", replaced(t, `"roots"`, `"x"`), false},
		{"a short ref", "burrow", replaced(t, `refs/heads/main`, `main`), false},
		{"a base by http", "burrow", replaced(t, `"https://example.org/b/"`, `"http://example.org/b/"`), false},
		{"a repository file outside", "burrow", replaced(t, `"title":"T"`, `"title":"T","repo":{"license":"../x"}`), false},
	} {
		if err := conforms(t, tt.schema, tt.doc); (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestNoManifestIsWrittenThatWouldBeRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m *rbt.Manifest)
	}{
		{"a manifest that lists itself", func(m *rbt.Manifest) { m.Entries[0].Href = "./.burrow.json" }},
		{"an entry outside", func(m *rbt.Manifest) { m.Entries[0].Href = "../x" }},
		{"an id twice", func(m *rbt.Manifest) { m.Entries[1].ID = "a" }},
		{"an entry without RID", func(m *rbt.Manifest) { m.Entries[0].RID = rbt.RID{} }},
		{"no root", func(m *rbt.Manifest) { m.Roots = nil }},
		{"no title", func(m *rbt.Manifest) { m.Title = "" }},
		{"a base by http", func(m *rbt.Manifest) { m.Roots[1].HTTPS.Base = "http://example.org/" }},
		{"a token in provenance", func(m *rbt.Manifest) { m.Git = &rbt.Provenance{Remote: "https://token@example.org/x"} }},
		{"a licence outside", func(m *rbt.Manifest) { m.Repo.License = "/LICENSE" }},
		{"a long context", func(m *rbt.Manifest) { m.Agents.Context = strings.Repeat("x", 501) }},
		{"a page of another", func(m *rbt.Manifest) { m.Next = &rbt.Children{} }},
	} {
		m := aManifest(t)
		tt.change(m)
		if data, err := m.Marshal(); err == nil {
			t.Errorf("%s: it was written: %s", tt.name, data)
		}
	}
	for name, change := range map[string]func(m *rbt.Manifest){
		"an HTTPS root first":                 func(m *rbt.Manifest) { m.Roots = m.Roots[1:] },
		"an entry without hash":               func(m *rbt.Manifest) { m.Entries[0].Hash = nil },
		"a collection with the RID of a file": func(m *rbt.Manifest) { m.Entries[1].RID = rbt.FileRID(nil) },
	} {
		m := aManifest(t)
		m.Entries[1].RID = rbt.CollectionRID(rbt.FileRID(nil), "x")
		if err := m.CheckFull(); err != nil {
			t.Fatal(err)
		}
		if change(m); m.CheckFull() == nil {
			t.Errorf("%s: it is called full", name)
		}
	}
}

func TestWhatMakesARegistryInvalidAndWhatDoesNot(t *testing.T) {
	whole := string(example(t, "registry"))
	for _, tt := range []struct {
		name, old, new string
		want           error
		says           string
	}{
		{"what is right", "", "", nil, ""},
		{"no rbt", `"rbt": "0.2",`, "", rbt.ErrInvalid, "MAJOR.MINOR"},
		{"no registry", `"registry"`, `"x"`, rbt.ErrInvalid, "no registry"},
		{"no entries", `"entries"`, `"x"`, rbt.ErrInvalid, "no entries"},
		{"no title", `"title": "Example Registry",`, "", rbt.ErrInvalid, "title and updated"},
		{"no time", `"updated": "2025-01-15T12:00:00Z",`, "", rbt.ErrInvalid, "title and updated"},
		{"an entry without name", `"name": "rbt-spec",`, "", rbt.ErrInvalid, "required"},
		{"an entry without title", `"title": "RBT Specification",`, "", rbt.ErrInvalid, "required"},
		{"an entry without summary", `"summary"`, `"x"`, rbt.ErrInvalid, "required"},
		{"an entry without roots", `"roots"`, `"x"`, rbt.ErrInvalid, "required"},
		{"a name that is no slug", `"rbt-spec"`, `"RBT spec"`, nil, "slug"},
		{"tags that are a word", `["specification", "documentation"]`, `"x"`, nil, "tags"},
		{"a password", `https://github.com`, `https://u:secret@github.com`, rbt.ErrCredential, ""},
		{"a major version that is newer", `"0.2"`, `"1.0"`, rbt.ErrVersion, ""},
	} {
		g, err := rbt.ParseRegistry([]byte(strings.Replace(whole, tt.old, tt.new, 1)), rbt.Options{})
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && ((len(g.Warnings) > 0) != (tt.says != "") || !strings.Contains(strings.Join(g.Warnings, " "), tt.says)) {
			t.Errorf("%s: warnings %q", tt.name, g.Warnings)
		}
	}
	later := `{"specVersion":"fwdslsh.dev/rabit/schemas/0.4.0/warren","kind":"warren","burrows":[{"id":"a","uri":"https://example.org/a/"},{"id":"b","uri":"file:///b/"}]}`
	g, err := rbt.ParseRegistry([]byte(later), rbt.Options{})
	if err != nil || !g.Imported || len(g.Burrows) != 1 || g.Burrows[0].Roots[0].HTTPS.Base != "https://example.org/a/" {
		t.Errorf("a later registry: %+v, %v", g, err)
	}
}

// TestTheCompanionIsTextAlone shows that no text of a registry becomes markup.
func TestTheCompanionIsTextAlone(t *testing.T) {
	md := string(aRegistry(t).Markdown())
	for _, holds := range []string{"# Reg \\*x\\*\n", "## One \\<script\\>\n", "S. \\# no heading\n", "- name: two\n", "https https://example.org/b/", "tags: a, b"} {
		if !strings.Contains(md, holds) {
			t.Errorf("%s does not hold %q", md, holds)
		}
	}
	if strings.Count(md, "\n#") != 2 {
		t.Errorf("%s has other headings", md)
	}
}

func TestThePointersLeadToHTTPSAlone(t *testing.T) {
	m := aManifest(t)
	b := rbt.BurrowPointer{Manifest: "https://example.org/b/.burrow.json", Roots: m.Roots}
	data, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rbt.ParseBurrowPointer(data, rbt.Options{}); err != nil || got.Manifest != b.Manifest || len(got.Roots) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	w := rbt.WarrenPointer{JSON: "https://example.org/.warren.json", MD: "https://example.org/.warren.md"}
	if data, err = w.Marshal(); err != nil {
		t.Fatal(err)
	}
	if got, err := rbt.ParseWarrenPointer(data, rbt.Options{}); err != nil || got.JSON != w.JSON || got.MD != w.MD {
		t.Errorf("%+v, %v", got, err)
	}
	for _, doc := range []string{
		`{}`, `[]`, `{"rbt":"0.2"}`, `{"rbt":"0.2","manifest":"http://example.org/","registry":{"json":"http://example.org/"}}`,
		`{"manifest":"https://example.org/","registry":{"json":"https://example.org/"}}`,
		`{"rbt":"0.2","x":"` + strings.Repeat("x", rbt.MaxPointer) + `"}`,
	} {
		if _, err := rbt.ParseBurrowPointer([]byte(doc), rbt.Options{}); !errors.Is(err, rbt.ErrInvalid) {
			t.Errorf("burrow %.80s: %v", doc, err)
		}
		if _, err := rbt.ParseWarrenPointer([]byte(doc), rbt.Options{}); !errors.Is(err, rbt.ErrInvalid) {
			t.Errorf("warren %.80s: %v", doc, err)
		}
	}
}
