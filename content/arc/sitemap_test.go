package arc

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAnEntryIsReadLenientlyAndItsOddnessTold(t *testing.T) {
	for _, tt := range []struct {
		name, members string
		modified      string // empty: none
		odd           string // empty: nothing
	}{
		{"as the schema asks", `"lastmod":"2025-11-08T12:00:00Z"`, "2025-11-08T12:00:00Z", ""},
		{"a fraction", `"lastmod":"2025-11-08T12:00:00.25+01:00"`, "2025-11-08T11:00:00Z", ""},
		{"a date alone", `"lastmod":"2025-11-08"`, "2025-11-08T00:00:00Z", "lastmod"},
		{"no seconds", `"lastmod":"2025-11-08T05:31-01:00"`, "2025-11-08T06:31:00Z", "lastmod"},
		{"no zone", `"lastmod":"2025-11-08T12:00:00"`, "2025-11-08T12:00:00Z", "lastmod"},
		{"a zone without a colon", `"lastmod":"2025-11-08T12:00:00+0000"`, "2025-11-08T12:00:00Z", "lastmod"},
		{"words", `"lastmod":"yesterday"`, "", "counts as missing"},
		{"null", `"lastmod":null`, "", "counts as missing"},
		{"nothing", `"x":1`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := read(sitemapOf(entryOf("a", tt.members)), Limits{})
			if r.err != nil || len(r.entries) != 1 {
				t.Fatalf("%v, skipped %q", r.err, r.skips)
			}
			got := ""
			if m := r.entries[0].Modified; !m.IsZero() {
				got = formatTime(m)
			}
			if got != tt.modified {
				t.Errorf("lastmod %q, want %q", got, tt.modified)
			}
			if told := strings.Join(r.odd, "\n"); tt.odd == "" && told != "" || !strings.Contains(told, tt.odd) {
				t.Errorf("told %q, want %q", told, tt.odd)
			}
		})
	}
}

func TestWhatRefusesASitemapAndWhatAnEntry(t *testing.T) {
	with := func(old, new string) string {
		return strings.Replace(sitemapOf(entryOf("a"), entryOf("b")), old, new, 1)
	}
	for _, tt := range []struct {
		name, text string
		want       error // nil: it is read
		entries    int
		skipped    string
	}{
		{"two pages", sitemapOf(entryOf("a"), entryOf("b")), nil, 2, ""},
		{"pages before the head", `{"pages":[` + entryOf("a") + `],"arc_sitemap_version":"2.1","site":"https://example.com","generated_at":"2026-01-02T12:00:00Z"}`, nil, 1, ""},
		{"a byte order mark", "\uFEFF" + sitemapOf(entryOf("a")), nil, 1, ""},
		{"a later 2.x", with(`"2.1"`, `"2.9"`), nil, 2, ""},
		{"an entry without ai_indexable", sitemapOf(entryOf("a"), `{"url":"https://example.com/b"}`), nil, 1, "https://example.com/b: "},
		{"an entry with ai_indexable null", sitemapOf(entryOf("a"), `{"url":"https://example.com/b","ai_indexable":null}`), nil, 1, "ai_indexable"},
		{"an entry without url", sitemapOf(entryOf("a"), `{"ai_indexable":true}`), nil, 1, ": by the schema"},
		{"an entry that is a number", sitemapOf(entryOf("a"), `7`), nil, 1, "no JSON object"},
		{"a URL that runs", sitemapOf(`{"url":"javascript:alert(1)","ai_indexable":true}`), nil, 0, "does not start with http"},
		{"a URL with a password", sitemapOf(`{"url":"https://a:b@example.com/","ai_indexable":true}`), nil, 0, "user information"},
		{"version 3", with(`"2.1"`, `"3.0"`), ErrVersion, 2, ""},
		{"version 1", with(`"2.1"`, `"1"`), ErrVersion, 2, ""},
		{"a version that is a number", with(`"2.1"`, `2.1`), ErrMalformed, 2, ""},
		{"no pages", strings.Replace(sitemapOf(), `,"pages":[]`, "", 1), ErrMalformed, 0, ""},
		{"pages that are an object", strings.Replace(sitemapOf(), `[]`, "{}", 1), ErrMalformed, 0, ""},
		{"pages that are null", strings.Replace(sitemapOf(), `[]`, "null", 1), ErrMalformed, 0, ""},
		{"pages twice", with("{", `{"pages":[],`), ErrMalformed, 0, ""},
		{"a member of an entry twice", sitemapOf(entryOf("a", `"ai_indexable":false`)), ErrMalformed, 0, ""},
		{"a site that is no URL", with(`"https://example.com"`, `"example"`), ErrMalformed, 2, ""},
		{"a time in words", with("2026-01-02T12:00:00Z", "today"), ErrMalformed, 2, ""},
		{"cut off", sitemapOf(entryOf("a"))[:120], ErrMalformed, 0, ""},
		{"something behind it", sitemapOf(entryOf("a")) + "{}", ErrMalformed, 1, ""},
		{"nothing", "", ErrMalformed, 0, ""},
		{"a page of HTML", "<!DOCTYPE html>", ErrDescriptor, 0, ""},
		{"a descriptor", `{"@context":"https://schema.org","@type":"Dataset"}`, ErrDescriptor, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := read(tt.text, Limits{})
			if !errors.Is(r.err, tt.want) || tt.want != nil && !errors.Is(r.err, ErrMalformed) {
				t.Errorf("error %v, want %v", r.err, tt.want)
			}
			if len(r.entries) != tt.entries {
				t.Errorf("%d entries, want %d", len(r.entries), tt.entries)
			}
			if told := strings.Join(r.skips, "\n"); tt.skipped == "" && told != "" || !strings.Contains(told, tt.skipped) {
				t.Errorf("skipped %q, want %q", told, tt.skipped)
			}
		})
	}
}

func TestWhatWithdrawsAPage(t *testing.T) {
	for _, tt := range []struct {
		name, members string
		withdrawn     bool
	}{
		{"nothing", `"x":1`, false},
		{"auth_required", `"auth_required":true`, true},
		{"auth_required false", `"auth_required":false`, false},
		{"noindex, against ai_indexable true", `"robots_directive":"nofollow, NoIndex"`, true},
		{"none", `"robots_directive":"none"`, true},
		{"noindex for one crawler", `"robots_directive":"otherbot: noindex"`, true},
		{"nosnippet", `"robots_directive":"nosnippet"`, false},
		{"a tag", `"ai_tags":["a","Sensitive"]`, true},
		{"a tag of the snapshot", `"ai_snapshot":{"ai_tags":["personal"]}`, true},
		{"a context of the snapshot", `"ai_snapshot":{"ai_context":{"sensitivity":"confidential"}}`, true},
		{"a harmless context", `"ai_snapshot":{"ai_context":"public"}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := mustEntry(t, entryOf("a", tt.members))
			if why := e.Withdrawn(); (why != "") != tt.withdrawn {
				t.Errorf("withdrawn by %q", why)
			}
		})
	}
	if e := mustEntry(t, `{"url":"https://example.com/","ai_indexable":false}`); e.Withdrawn() == "" {
		t.Error("ai_indexable false withdraws nothing")
	}
}

func TestYAMLSaysTheSameAsJSON(t *testing.T) {
	head := Head{Version: Version, Site: base, Generated: noon, Rate: 0.5, Contact: "mailto:a@example.com", Since: noon.Add(-time.Hour)}
	all := [][]byte{
		mustEntry(t, entryOf("a", `"ai_summary":"no: yes, \"1\" #x \u2028 \u0085\ufeff\u007f😀\n- y"`, `"ai_tags":["true","1.0","~"]`, `"crawl_priority":0.25`)).Line,
		mustEntry(t, entryOf("b", `"ai_snapshot":{"a":{"b":[1,true,null,"x: y"]},"content":"l1\nl2\ttab"}`, `"on":"off"`)).Line,
	}
	for _, entries := range [][][]byte{all, nil} {
		var j, y bytes.Buffer
		if err := errors.Join(WriteSitemap(&j, head, lines(entries...)), WriteYAML(&y, head, lines(entries...))); err != nil {
			t.Fatal(err)
		}
		fromJSON, fromYAML := read(j.String(), Limits{}), read(y.String(), Limits{})
		if fromJSON.err != nil || fromYAML.err != nil || fromJSON.Head != head || fromYAML.Head != head || len(fromYAML.entries) != len(entries) {
			t.Fatalf("%v, %v\n%+v\n%+v\n%s", fromJSON.err, fromYAML.err, fromJSON.Head, fromYAML.Head, &y)
		}
		for i := range entries {
			if !bytes.Equal(fromYAML.entries[i].Line, entries[i]) || !bytes.Equal(fromJSON.entries[i].Line, entries[i]) {
				t.Errorf("entry %d:\n%s\n%s", i, fromYAML.entries[i].Line, entries[i])
			}
		}
	}
}

func TestWhatYAMLMayNotSay(t *testing.T) {
	const head = "arc_sitemap_version: \"2.1\"\nsite: https://example.com\n"
	const good = head + "generated_at: 2026-01-02T12:00:00Z\npages:\n  - {url: https://example.com/a, ai_indexable: true"
	if r := read(good+"}\n", Limits{}); r.err != nil || len(r.entries) != 1 {
		t.Fatalf("without quotes: %v, skipped %q", r.err, r.skips)
	}
	for name, text := range map[string]string{
		"an alias":               "x: &a [1]\ny: *a\n" + good + "}",
		"an anchor alone":        strings.Replace(good, "pages:", "pages: &p", 1) + "}",
		"a merge key":            good + ", <<: {a: 1}}",
		"a tag of another type":  good + ", x: !!binary aGk=}",
		"a tag of one's own":     good + ", x: !ruby/object {}}",
		"a key that is a number": good + ", 1: 2}",
		"a key that is a list":   "? [a]\n: 1\n" + good + "}",
		"a key twice":            good + ", ai_indexable: false}",
		"not a number":           good + ", x: .nan}",
		"a second document":      good + "}\n---\n{}",
		"a version unquoted":     strings.Replace(good, `"2.1"`, "2.1", 1) + "}",
		"a list alone":           "- 1\n",
		"a scalar alone":         "hello",
		"broken":                 good,
	} {
		t.Run(name, func(t *testing.T) {
			if r := read(text, Limits{}); !errors.Is(r.err, ErrMalformed) {
				t.Errorf("%v with %d entries", r.err, len(r.entries))
			}
		})
	}
}

func TestRatesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]float64{
		"1/s": 1, "0.5/s": 0.5, "30/m": 0.5, "1/10s": 0.1, "7200/h": 2, "8640/d": 0.1,
		"": 0, "1": 0, "1/": 0, "/s": 0, "1/w": 0, "0/s": 0, "-1/s": 0, "1/0s": 0, "1e3/s": 0, "1/99999999999s": 0, "1.2.3/s": 0,
	} {
		got, err := ParseRate(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
		if want > 0 {
			if again, err := ParseRate(FormatRate(want)); again != want || err != nil {
				t.Errorf("%v is written as %q, and read as %v", want, FormatRate(want), again)
			}
		}
	}
}
