package arc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestEveryExampleOfTheTextIsReadOrRefusedForItsReason(t *testing.T) {
	j := read(string(seed(t, "sitemap.json")), Limits{})
	if j.err != nil || len(j.entries) != 1 || len(j.skips) != 0 {
		t.Fatalf("JSON: %v, %d entries, skipped %q", j.err, len(j.entries), j.skips)
	}
	e := j.entries[0]
	if e.URL != "https://example.com/signup" || !e.Indexable || e.Checksum != "sha256:af3c..." || len(e.Tags) != 3 || e.Snapshot == nil {
		t.Errorf("JSON: %+v", e)
	}
	if len(j.odd) != 1 || !strings.Contains(j.odd[0], "/ai_checksum") {
		t.Errorf("the checksum that is cut short is told of: %q", j.odd)
	}
	y := read(string(seed(t, "sitemap.yaml")), Limits{})
	if y.err != nil || len(y.entries) != 1 {
		t.Fatalf("YAML: %v", y.err)
	}
	if without, err := withMember(e.Line, "ai_snapshot", nil); err != nil || !bytes.Equal(without, y.entries[0].Line) || y.Head != j.Head {
		t.Errorf("YAML is not the same but for the snapshot:\n%s\n%s\n%+v\n%+v", without, y.entries[0].Line, y.Head, j.Head)
	}
	if _, err := ReadSitemap(bytes.NewReader(seed(t, "descriptor.html")), Limits{}, Visitor{}); !errors.Is(err, ErrDescriptor) || !errors.Is(err, ErrMalformed) {
		t.Errorf("the descriptor as a sitemap: %v", err)
	}
	if at, err := ReadDescriptor(seed(t, "descriptor.html"), base); err != nil || at != "https://example.com/arc-sitemap.json" {
		t.Errorf("the descriptor: %q, %v", at, err)
	}
}

// The text's own generator writes null where there is nothing, which its own
// schema refuses. Here null counts as missing on reading, and is never written.
func TestTheTextsGeneratorIsReadAndItsSchemaRefusesIt(t *testing.T) {
	schema := theirs(t)
	for _, name := range []string{"generated.json", "generated-bare.json"} {
		text := string(seed(t, name))
		if schema(sitemapOf(text)) == nil {
			t.Errorf("%s: the text's schema accepts null", name)
		}
		found, err := Validate(strings.NewReader(sitemapOf(text)))
		if err != nil || len(found) == 0 {
			t.Errorf("%s: ours objects to %v, %v", name, found, err)
		}
		r := read(sitemapOf(text), Limits{})
		if r.err != nil || len(r.entries) != 1 || bytes.Contains(r.entries[0].Line, []byte("null")) {
			t.Fatalf("%s: %v, %d entries", name, r.err, len(r.entries))
		}
		e := r.entries[0]
		if e.Checksum != Checksum([]byte("<html>...</html>")) || formatTime(e.Modified) != "2026-01-02T03:04:05Z" {
			t.Errorf("%s: checksum %s, lastmod %v", name, e.Checksum, e.Modified)
		}
		if err := schema(sitemapOf(string(e.Line))); err != nil {
			t.Errorf("%s: as it is kept: %v", name, err)
		}
	}
}

// theirs is the schema of the text, with formats asserted.
func theirs(t *testing.T) func(string) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(seed(t, "schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("theirs.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("theirs.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return err
		}
		return s.Validate(v)
	}
}

func TestTheSchemaSaysWhatIsWrong(t *testing.T) {
	whole := func(old, new string) string { return strings.Replace(sitemapOf(entryOf("a")), old, new, 1) }
	one := func(members ...string) string { return sitemapOf(entryOf("a", members...)) }
	schema := theirs(t)
	for _, tt := range []struct {
		name, text, at string // at is empty where nothing is wrong
		stricter       bool   // than the text's schema
	}{
		{"a sitemap", one(), "", false},
		{"no pages", sitemapOf(), "", false},
		{"members that nobody knows", strings.Replace(one(`"x":{"y":[1]}`), "{", `{"ai-crawl-contact":"mailto:a@example.com","crawl_rate":"1/s",`, 1), "", false},
		{"no version", whole(`"arc_sitemap_version":"2.1",`, ""), "missing", false},
		{"a version that is a number", whole(`"2.1"`, "2.1"), "/arc_sitemap_version", false},
		{"no site", whole(`"site":"https://example.com",`, ""), "missing", false},
		{"a site that is no URI", whole(`"https://example.com"`, `"example"`), "/site", false},
		{"no time", whole(`"generated_at":"2026-01-02T12:00:00Z",`, ""), "missing", false},
		{"a time in words", whole("2026-01-02T12:00:00Z", "today"), "/generated_at", false},
		{"pages that are no list", whole(`[{"url":"https://example.com/a","ai_indexable":true}]`, `{}`), "/pages", false},
		{"no url", whole(`"url":"https://example.com/a",`, ""), "/pages/0", false},
		{"no ai_indexable", whole(`,"ai_indexable":true`, ""), "/pages/0", false},
		{"ai_indexable in words", whole(`"ai_indexable":true`, `"ai_indexable":"true"`), "/pages/0/ai_indexable", false},
		{"a date alone", one(`"lastmod":"2025-11-08"`), "/pages/0/lastmod", false},
		{"lastmod null", one(`"lastmod":null`), "/pages/0/lastmod", false},
		{"a summary that is a list", one(`"ai_summary":[]`), "/pages/0/ai_summary", false},
		{"tags in one string", one(`"ai_tags":"a,b"`), "/pages/0/ai_tags", false},
		{"a tag that is a number", one(`"ai_tags":[1]`), "/pages/0/ai_tags/0", false},
		{"a snapshot that is a list", one(`"ai_snapshot":[]`), "/pages/0/ai_snapshot", false},
		{"a snapshot that is null", one(`"ai_snapshot":null`), "/pages/0/ai_snapshot", false},
		{"a priority below", one(`"crawl_priority":-0.1`), "/pages/0/crawl_priority", false},
		{"a priority above", one(`"crawl_priority":1.1`), "/pages/0/crawl_priority", false},
		{"a priority in words", one(`"crawl_priority":"1"`), "/pages/0/crawl_priority", false},
		{"the least priority", one(`"crawl_priority":0`), "", false},
		{"the greatest priority", one(`"crawl_priority":1`), "", false},
		{"auth_required in words", one(`"auth_required":"yes"`), "/pages/0/auth_required", false},
		{"a directive that is a list", one(`"robots_directive":["noindex"]`), "/pages/0/robots_directive", false},
		{"a checksum that is cut short", one(`"ai_checksum":"sha256:af3c..."`), "/pages/0/ai_checksum", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := Validate(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if tt.at == "" && len(found) > 0 || tt.at != "" && (len(found) != 1 || !strings.Contains(found[0].String(), tt.at)) {
				t.Errorf("objects to %v, want %q", found, tt.at)
			}
			if accepts := schema(tt.text) == nil; accepts != (tt.at == "" || tt.stricter) {
				t.Errorf("the text's schema accepts it: %v", accepts)
			}
		})
	}
}
