package site

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

func TestFrontMatterIsRead(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       frontMatter
		ok         bool
	}{
		{"nothing at all", "", frontMatter{}, true},
		{"a title in quotes", `title: "A: b"`, frontMatter{title: "A: b"}, true},
		{"a description over two lines", "description: >-\n  one\n  two", frontMatter{description: "one two"}, true},
		{"lang wins over language", "language: de\nlang: en-GB", frontMatter{language: "en-GB"}, true},
		{"a language that is none", "lang: '<b>'", frontMatter{}, true},
		{"a draft", "draft: true", frontMatter{draft: true}, true},
		{"no draft", "draft: false", frontMatter{}, true},
		{"lastmod wins over date", "lastmod: 2024-02-03\ndate: 2023-01-01T10:00:00+02:00", frontMatter{modified: time.Date(2024, 2, 3, 0, 0, 0, 0, time.UTC)}, true},
		{"a date with a zone", "date: 2023-01-01T10:00:00+02:00", frontMatter{modified: time.Date(2023, 1, 1, 8, 0, 0, 0, time.UTC)}, true},
		{"a date that is none", "date: yesterday", frontMatter{}, true},
		{"keys that are not known, and values of other kinds", "tags: [a, b]\nTitle: T\ntitle: U\ndescription: {a: b}", frontMatter{title: "T"}, true},
		{"a text between two rules", "only a text", frontMatter{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m, ok, reason := parseFrontMatter(tt.text); m != tt.want || ok != tt.ok || reason != "" {
				t.Errorf("parseFrontMatter = %+v, %v, %q; want %+v, %v", m, ok, reason, tt.want, tt.ok)
			}
		})
	}
}

func TestFrontMatterIsBounded(t *testing.T) {
	for _, tt := range []struct{ name, text, reason string }{
		{"aliases", "a: &a [x, x]\nb: [*a, *a]", "front matter with anchors or aliases"},
		{"an anchor alone", "title: &a T", "front matter with anchors or aliases"},
		{"too much of it", "title: " + strings.Repeat("x", maxFrontMatter), "front matter of more than 16 KiB"},
		{"no YAML", "title: [", "front matter that is no YAML"},
		{"lists that nest without an end", strings.Repeat("[", maxFrontMatter), "front matter that is no YAML"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, reason := parseFrontMatter(tt.text); reason != tt.reason {
				t.Errorf("reason %q, want %q", reason, tt.reason)
			}
		})
	}
}

func TestFrontMatterStandsInThePageAndDraftsDoNot(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "---\ntitle: T <b>\ndescription: D\nlang: de\ndate: 2020-01-02\n---\nwords\n",
		"b.md": "---\ndraft: true\n---\nsecret\n",
		"c.md": "---\nsome words\n---\nmore\n",
		"d.md": "---\ntitle: later\ndate: 2999-01-01\n---\nwords\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := &Site{Dir: dir, BaseURL: "https://a.test/"}
	pages, skipped := make(map[string]content.Page), make(map[string]content.Skipped)
	for p, err := range s.Pages(t.Context(), nil, func(k content.Skipped) { skipped[k.Location] = k }) {
		if err != nil {
			t.Fatal(err)
		}
		pages[p.Location] = p
	}
	a := pages["a.md"]
	if a.Title != "T <b>" || a.Description != "D" || a.Language != "de" || !a.Modified.Equal(time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("a.md: %q, %q, %q, %v", a.Title, a.Description, a.Language, a.Modified)
	}
	if strings.Contains(string(a.Payload), "2020") {
		t.Errorf("a.md: front matter in its text: %s", a.Payload)
	}
	if k, ok := skipped["b.md"]; !ok || k.Err != nil || k.Reason != "its front matter says draft" {
		t.Errorf("b.md: %+v", k)
	}
	if c := string(pages["c.md"].Payload); !strings.Contains(c, "some words") || !strings.Contains(c, "more") {
		t.Errorf("c.md: %s", c)
	}
	if d := pages["d.md"]; d.Modified.Year() == 2999 || d.Title != "later" {
		t.Errorf("d.md: %q, %v", d.Title, d.Modified)
	}
}

func FuzzFrontMatter(f *testing.F) {
	f.Add("title: a\ndraft: true\nlang: de\ndate: 2020-01-02")
	f.Add("a: &a [*a]")
	f.Add("{[}")
	f.Fuzz(func(t *testing.T, text string) {
		m, ok, reason := parseFrontMatter(text)
		if reason != "" && (ok || m != frontMatter{}) {
			t.Errorf("refused as %q, and yet %+v, %v", reason, m, ok)
		}
	})
}
