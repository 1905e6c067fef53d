package rbt_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestWhatMakesAManifestInvalidAndWhatDoesNot(t *testing.T) {
	const entry = `{"id":"a","rid":"` + someRID + `","href":"a.md","type":"text/markdown","rel":["item"]}`
	for _, tt := range []struct {
		name     string
		old, new string
		want     error  // nil: it is read
		says     string // a warning, or in the error
	}{
		{"what is right", "", "", nil, ""},
		{"no rbt", `"rbt":"0.2",`, ``, rbt.ErrInvalid, "want MAJOR.MINOR"},
		{"rbt as a number", `"0.2"`, `0.2`, rbt.ErrInvalid, "no string"},
		{"a version of three parts", `"0.2"`, `"0.2.0"`, rbt.ErrInvalid, "MAJOR.MINOR"},
		{"a version that is older", `"0.2"`, `"0.1"`, nil, "older"},
		{"a version that is newer", `"0.2"`, `"0.3"`, nil, ""},
		{"a major version that is newer", `"0.2"`, `"1.0"`, rbt.ErrVersion, "1.0"},
		{"no manifest", `"manifest":`, `"x-manifest":`, rbt.ErrInvalid, "no manifest"},
		{"a manifest that is a list", `"manifest":{`, `"manifest":[],"x":{`, rbt.ErrInvalid, "no object"},
		{"no entries", `"entries":`, `"x-entries":`, rbt.ErrInvalid, "no entries"},
		{"entries that are an object", `"entries":[` + entry + `]`, `"entries":{}`, rbt.ErrInvalid, "no array"},
		{"no entry at all", entry, ``, nil, ""},
		{"no title", `"title":"T",`, ``, rbt.ErrInvalid, "no title"},
		{"no updated", `"updated":`, `"x-updated":`, rbt.ErrInvalid, "no updated"},
		{"a date for a time", `2025-01-15T12:00:00Z`, `2025-01-15`, rbt.ErrInvalid, "RFC 3339"},
		{"no rid", `"rid":"` + someRID + `","roots"`, `"roots"`, rbt.ErrInvalid, "no rid"},
		{"no roots", `"roots":`, `"x-roots":`, rbt.ErrInvalid, "no roots"},
		{"an empty list of roots", `"roots":[{"git":{"remote":"https://example.org/b.git","ref":"refs/heads/main"}},{"https":{"base":"https://example.org/b/"}}]`, `"roots":[]`, rbt.ErrInvalid, "there is none"},
		{"a root of another kind", `"roots":[`, `"roots":[{"ipfs":{}},`, nil, "neither git nor https"},
		{"a root of both kinds", `"ref":"refs/heads/main"}}`, `"ref":"refs/heads/main"},"https":{"base":"https://example.org/"}}`, rbt.ErrInvalid, "both"},
		{"a remote that is not authenticated", `https://example.org/b.git`, `git://example.org/b.git`, nil, "git://"},
		{"no remote", `"remote":"https://example.org/b.git",`, ``, rbt.ErrInvalid, "required"},
		{"no ref", `,"ref":"refs/heads/main"`, ``, rbt.ErrInvalid, "required"},
		{"a short ref", `refs/heads/main`, `main`, rbt.ErrInvalid, "refs/"},
		{"a password in a remote", `https://example.org/b.git`, `https://u:secret@example.org/b.git`, rbt.ErrCredential, "names a user"},
		{"a password in an ssh remote", `https://example.org/b.git`, `ssh://u:secret@example.org/b.git`, rbt.ErrCredential, "password"},
		{"a token in provenance", `"title":"T"`, `"title":"T","git":{"remote":"https://secret@example.org/b"}`, rbt.ErrCredential, ""},
		{"a password in a reference", `"a.md"`, `"https://u:secret@example.org/a"`, rbt.ErrCredential, ""},
		{"a path out of the repository", `"ref":"refs/heads/main"`, `"ref":"refs/heads/main","path":"../../etc"`, rbt.ErrInvalid, "inside"},
		{"a base by http", `"https://example.org/b/"`, `"http://example.org/b/"`, rbt.ErrInvalid, "not https"},
		{"a base without a slash", `"https://example.org/b/"`, `"https://example.org/b"`, rbt.ErrInvalid, "slash"},
		{"no base", `"base":`, `"x":`, rbt.ErrInvalid, "required"},
		{"a mirror by http", `"title":"T"`, `"title":"T","mirrors":[{"https":{"base":"http://m.example/"}}]`, rbt.ErrInvalid, "not https"},
		{"a cache in words", `"title":"T"`, `"title":"T","cache":{"maxAge":"3600"}`, rbt.ErrInvalid, "no integer"},
		{"a description that is none", `"title":"T"`, `"title":"T","description":5`, nil, "description"},
		{"a repository file outside", `"title":"T"`, `"title":"T","repo":{"license":"/LICENSE"}`, nil, "license"},
		{"agents that are a word", `"title":"T"`, `"title":"T","agents":"keep out"`, rbt.ErrInvalid, "no object"},
		{"permissions that are a word", `"title":"T"`, `"title":"T","agents":{"permissions":"none"}`, rbt.ErrInvalid, "permissions"},
		{"a permission that is unknown", `"title":"T"`, `"title":"T","agents":{"permissions":{"remix":false}}`, nil, "remix"},
		{"a long context", `"title":"T"`, `"title":"T","agents":{"context":"` + strings.Repeat("x", 501) + `"}`, nil, "500"},
		{"a member that is unknown", `"title":"T"`, `"title":"T","x-acme-priority":{"a":[1]}`, nil, ""},
		{"an entry without id", `"id":"a",`, ``, rbt.ErrInvalid, "no id"},
		{"an entry without rid", `"a","rid":"` + someRID + `"`, `"a"`, rbt.ErrInvalid, "no rid"},
		{"an entry without href", `"href":"a.md",`, ``, rbt.ErrInvalid, "no href"},
		{"an entry without type", `"type":"text/markdown",`, ``, rbt.ErrInvalid, "no type"},
		{"an entry without rel", `,"rel":["item"]`, ``, rbt.ErrInvalid, "no rel"},
		{"a rel that is a word", `["item"]`, `"item"`, rbt.ErrInvalid, "no array"},
		{"an empty rel", `["item"]`, `[]`, nil, "no relation"},
		{"a rel that is unknown", `["item"]`, `["zzz","describedby"]`, nil, ""},
		{"a type that is none", `"text/markdown"`, `"markdown"`, rbt.ErrInvalid, "media type"},
		{"an id twice", entry, entry + `,` + entry, rbt.ErrInvalid, "another's"},
		{"two entries with the same octets", entry, entry + `,` + strings.Replace(entry, `"id":"a"`, `"id":"b"`, 1), nil, ""},
		{"an RID in capitals", someRID + `","href"`, strings.ToUpper(someRID) + `","href"`, rbt.ErrInvalid, "no RID"},
		{"a hash of another algorithm", `"rel":`, `"hash":"blake3:00","rel":`, nil, "algorithm"},
		{"a hash that is cut short", `"rel":`, `"hash":"sha256:00","rel":`, rbt.ErrInvalid, "SHA-256"},
		{"a hash that is not the RID's", `"rel":`, `"hash":"sha256:` + strings.Repeat("0", 64) + `","rel":`, nil, "different octets"},
		{"a size below zero", `"rel":`, `"size":-1,"rel":`, rbt.ErrInvalid, "integer"},
		{"a language that is none", `"rel":`, `"lang":"!!","rel":`, nil, "lang"},
		{"a time of an entry in words", `"rel":`, `"modified":"yesterday","rel":`, nil, "modified"},
		{"links in both forms", `"rel":`, `"links":["b",{"href":"c","rel":"related"}],"rel":`, nil, ""},
		{"links that are a word", `"rel":`, `"links":"b","rel":`, nil, "links"},
		{"children without href", `"rel":`, `"children":{"offset":0,"limit":1},"rel":`, rbt.ErrInvalid, "required"},
		{"children with an offset in words", `"rel":`, `"children":{"href":"b","offset":"0","limit":1},"rel":`, rbt.ErrInvalid, "offset"},
		{"children with no limit", `"rel":`, `"children":{"href":"b","offset":0,"limit":0},"rel":`, rbt.ErrInvalid, "limit"},
		{"children without a total", `"rel":`, `"children":{"href":"b","offset":0,"limit":1},"rel":`, nil, ""},
		{"a member twice", `"title":"T"`, `"title":"T","title":"U"`, rbt.ErrInvalid, "duplicate"},
		{"what is not UTF-8", `"title":"T"`, "\"title\":\"\xff\"", rbt.ErrInvalid, "UTF-8"},
		{"a byte order mark", `{"rbt"`, "\uFEFF" + `{"rbt"`, rbt.ErrInvalid, "byte order mark"},
		{"something behind the end", entry + `]}`, entry + `]} {}`, rbt.ErrInvalid, "follows"},
		{"a text that is too long", `"title":"T"`, `"title":"` + strings.Repeat("x", 1<<16) + `"`, rbt.ErrLimit, "octets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := rbt.ParseManifest(replaced(t, tt.old, tt.new), rbt.Options{})
			if tt.want != nil {
				if !errors.Is(err, tt.want) || !errors.Is(err, rbt.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v, want %v that says %q", err, tt.want, tt.says)
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("the credential is repeated: %v", err)
				}
				if rbt.CategoryOf(err) != rbt.ManifestInvalid {
					t.Errorf("category %s", rbt.CategoryOf(err))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if told := strings.Join(m.Warnings, "\n"); (told == "") != (tt.says == "") || !strings.Contains(told, tt.says) {
				t.Errorf("warnings %q, want one with %q", m.Warnings, tt.says)
			}
		})
	}
}

func TestEachRelationIsKnown(t *testing.T) {
	for _, rel := range []string{
		rbt.RelItem, rbt.RelCollection, rbt.RelIndex, rbt.RelAbout, rbt.RelAlternate, rbt.RelParent, rbt.RelRelated, rbt.RelLicense, rbt.RelAuthor,
	} {
		m, err := rbt.ParseManifest(replaced(t, `["item"]`, `["zzz","`+rel+`"]`), rbt.Options{})
		if err != nil || !m.Entries[0].Is(rel) || m.Entries[0].IsCollection() != (rel == rbt.RelCollection) {
			t.Errorf("%s: %v", rel, err)
		}
	}
}

func TestACacheHasADefaultAndAnEnd(t *testing.T) {
	for said, want := range map[string]time.Duration{
		``: time.Hour, `"cache":{},`: time.Hour, `"cache":{"maxAge":60},`: time.Minute, `"cache":{"maxAge":9007199254740991},`: 30 * 24 * time.Hour,
	} {
		m, err := rbt.ParseManifest(replaced(t, `"title"`, said+`"title"`), rbt.Options{})
		if err != nil || m.Cache.MaxAge != want {
			t.Errorf("%s: %v, %v", said, m.Cache.MaxAge, err)
		}
	}
}

// TestHostileDocumentsAreBounded measures what refusing them takes.
func TestHostileDocumentsAreBounded(t *testing.T) {
	entries := func(n int, entry func(i int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(entry(i))
		}
		return b.String()
	}
	one := func(i int) string {
		return fmt.Sprintf(`{"id":"%d","rid":"%s","href":"a.md","type":"text/markdown","rel":["item"]}`, i, someRID)
	}
	const begin = `{"rbt":"0.2","manifest":{"title":"T","updated":"2025-01-15T12:00:00Z","rid":"` + someRID + `","roots":[{"https":{"base":"https://example.org/b/"}}]},"entries":[`
	for _, tt := range []struct {
		name string
		doc  string
		want error
	}{
		{"10,000 entries", begin + entries(10_000, one) + "]}", nil},
		{"10,001 entries", begin + entries(10_001, one) + "]}", rbt.ErrLimit},
		{"three million empty entries", begin + entries(3_000_000, func(int) string { return "{}" }) + "]}", rbt.ErrInvalid},
		{"five million brackets", strings.Repeat("[", 5_000_000), rbt.ErrLimit},
		{"a document of 11 MB", begin + `"` + strings.Repeat("x", 11<<20) + `"]}`, rbt.ErrLimit},
		{"65 roots", strings.Replace(begin, `"roots":[`, `"roots":[`+strings.Repeat(`{"x":1},`, 64), 1) + "]}", rbt.ErrLimit},
		{"200,000 members", begin[:1] + entries(200_000, func(i int) string { return fmt.Sprintf(`"m%d":1`, i) }) + "}", rbt.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := rbt.ParseManifest([]byte(tt.doc), rbt.Options{})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 256<<20 || took > 20*time.Second {
				t.Errorf("it took %d MiB and %v", got>>20, took)
			}
		})
	}
}

// TestALaterFormatIsReadAsFarAsItSaysTheSame reads a menu with uri, kind and
// sha256.
func TestALaterFormatIsReadAsFarAsItSaysTheSame(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	later := `{"specVersion":"fwdslsh.dev/rabit/schemas/0.4.0/burrow","kind":"burrow","title":"M","updated":"2026-01-13T00:00:00Z",
		"agents":{"context":"C"},"entries":[
		{"id":"a","kind":"file","uri":"a.md","mediaType":"text/markdown","sha256":"` + strings.ToUpper(sum) + `","sizeBytes":5},
		{"id":"b","kind":"burrow","uri":"docs/"},{"id":"c","kind":"map","uri":"c.burrow.json"},
		{"id":"d","kind":"dir","uri":"d/"},{"id":"e","kind":"link","uri":"https://example.org/"},{"id":"f","kind":"file","uri":"f.html"}]}`
	m, err := rbt.ParseManifest([]byte(later), rbt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, e := range m.Entries {
		href := ""
		if e.Children != nil {
			href = e.Children.Href
		}
		got += fmt.Sprintf("%s %s %s %s %d\n", e.ID, e.RID, e.Type, href, e.Size)
	}
	want := "a urn:rabit:sha256:" + sum + " text/markdown  5\nb  application/x-directory docs/.burrow.json -1\n" +
		"c  application/x-directory c.burrow.json -1\nf  text/html; charset=utf-8  -1\n"
	if got != want || !m.Imported || m.Agents.Context != "C" {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if _, err := m.Marshal(); err == nil {
		t.Error("a later format is written")
	}
	for old, want := range map[string]error{
		`"id":"f"`: rbt.ErrInvalid, `0.4.0/burrow`: rbt.ErrVersion, `"uri":"a.md",`: rbt.ErrInvalid, `schemas/0.4.0`: rbt.ErrVersion,
	} {
		broken := map[string]string{`"id":"f"`: `"id":"a"`, `0.4.0/burrow`: `0.4.0/warren`, `"uri":"a.md",`: ``, `schemas/0.4.0`: `schemas/1.0.0`}[old]
		if _, err := rbt.ParseManifest([]byte(strings.Replace(later, old, broken, 1)), rbt.Options{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", old, err, want)
		}
	}
}

func TestIgnoreGlobsCoverWhatIsBelow(t *testing.T) {
	a := rbt.Agents{Ignore: []string{"drafts/*", "*.bak", "a/b/**", "old/"}}
	for name, want := range map[string]bool{
		"drafts/x.md": true, "drafts/y/z.md": true, "x/drafts/y.md": false, "x.bak": true, "x/y.bak": true, "x.baks": false,
		"a/b/c": true, "a/bc": false, "old/x": true, "x/old/y": true, "older": false, "drafts": false,
	} {
		if got := a.Ignores(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestATypeThatIsPlainlyWrongIsRefused(t *testing.T) {
	png := []byte("\x89PNG\x0D\x0A\x1A\x0A0000")
	for _, tt := range []struct {
		claimed string
		data    []byte
		want    bool
	}{
		{"text/html", []byte("<html>"), true}, {"text/markdown; charset=utf-8", []byte("# a"), true}, {"text/html", png, false},
		{"image/png", png, true}, {"image/png", []byte("<!DOCTYPE html><script>"), false}, {"image/svg+xml", []byte("<svg>"), true},
		{"application/json", []byte("{}"), true}, {"application/json", png, false}, {"application/octet-stream", png, true},
		{"text/plain", nil, true}, {";", nil, false},
	} {
		if err := rbt.CheckType(tt.claimed, tt.data); (err == nil) != tt.want {
			t.Errorf("%s of %.10q: %v", tt.claimed, tt.data, err)
		}
	}
}

func TestPurposesWithoutAWordAreNamed(t *testing.T) {
	var p content.Preferences
	p.State(content.PurposeAITrain, content.No, "x")
	p.State(content.PurposeRAGRetrieve, content.No, "x")
	if got := rbt.Unsaid(p); len(got) != 1 || got[0] != content.PurposeRAGRetrieve {
		t.Error(got)
	}
}
