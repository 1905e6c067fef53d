package arc

import (
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

func TestAPageComesBackFromItsEntry(t *testing.T) {
	want := pageAt(t, "a", "words &amp; more", noon)
	line, lost, err := FromContent(&want, true)
	if err != nil || len(lost) > 0 {
		t.Fatalf("%v, lost %q", err, lost)
	}
	e := mustEntry(t, string(line))
	got, err := e.page(noon)
	if err != nil {
		t.Fatal(err)
	}
	if got.URL != want.URL || got.Title != want.Title || got.Language != want.Language || got.HTMLChecksum != want.HTMLChecksum || !got.Modified.Equal(noon) {
		t.Errorf("%+v", got)
	}
	d, _ := e.Document()
	if payload, print := tct.Encode(nil, d); print != want.Fingerprint {
		t.Errorf("%s\n%s", payload, want.Payload)
	}
	if err := Check(got.Payload, got.URL); err != nil {
		t.Error(err)
	}
	again, _, err := FromContent(&got, true)
	if err != nil || string(again) != string(line) {
		t.Errorf("%s, %v", again, err)
	}
}

func TestASnapshotOfAnyShapeIsRead(t *testing.T) {
	e := mustEntry(t, entryOf("signup/", `"ai_summary":"A page.","ai_tags":["a"],"ai_snapshot":{"title":"Create","sections":[{"name":"form","fields":["email",7,true]}]}`))
	d, lost := e.Document()
	if d.Title != "Create" || d.Content != "email\nform\nCreate" || !slices.Contains(lost, "ai_tags") {
		t.Errorf("%+v, lost %q", d, lost)
	}
	bare := mustEntry(t, entryOf("signup/", `"ai_summary":"A page.","ai_snapshot":{}`))
	if d, _ := bare.Document(); d.Title != "signup" || d.Content != "A page." {
		t.Errorf("%+v", d)
	}
}

func TestASummaryIsShortAndHasNoMarkup(t *testing.T) {
	long := strings.Repeat("wörter ", 200)
	for _, tt := range []struct{ name, description, text, want string }{
		{"the description", " a\n b ", "x", "a b"},
		{"short words", "", " a\n\n b ", "a b"},
		{"nothing", "", " ", ""},
	} {
		if got := summaryOf(tt.description, tt.text); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	if got := summaryOf("", long); len(got) > maxSummary+3 || !strings.HasSuffix(got, "wörter…") {
		t.Errorf("%d octets: %q", len(got), got)
	}
}

func TestWhatAnIndexerTakesForAnEntry(t *testing.T) {
	good := mustEntry(t, entryOf("a", `"ai_snapshot":{"content":"words"}`, `"lastmod":"2026-01-02T12:00:00Z"`))
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"an entry", string(good.Line), true},
		{"a space", strings.Replace(string(good.Line), ":", ": ", 1), false},
		{"another page", strings.Replace(string(good.Line), "/a", "/b", 1), false},
		{"not for all", strings.Replace(string(good.Line), `"ai_indexable":true`, `"ai_indexable":false`, 1), false},
		{"no snapshot", `{"ai_indexable":true,"url":"https://example.com/a"}`, false},
		{"null", `{"ai_indexable":true,"ai_snapshot":{},"ai_tags":null,"url":"https://example.com/a"}`, false},
		{"a member twice", strings.Replace(string(good.Line), "{", `{"ai_indexable":true,`, 1), false},
		{"cut off", string(good.Line[:20]), false},
		{"nothing", "", false},
	} {
		if err := Check([]byte(tt.text), base+"a"); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestATimeFromTheFutureDoesNotWinForEverHere(t *testing.T) {
	e := mustEntry(t, entryOf("a", `"ai_snapshot":{"content":"x"}`, `"lastmod":"2999-01-01T00:00:00Z"`))
	p, err := e.page(noon)
	if err != nil || !p.Modified.Equal(noon) || len(p.Warnings) != 1 {
		t.Errorf("%v, %q, %v", p.Modified, p.Warnings, err)
	}
	f := mustEntry(t, entryOf("a", `"ai_snapshot":{"content":"x"}`, `"lastmod":"2025-01-01T00:00:00Z"`))
	q, err := f.page(noon)
	if err != nil || p.Fingerprint != q.Fingerprint || p.Digest == q.Digest {
		t.Errorf("two times give two fingerprints: %v", err)
	}
}

func TestADirectiveOfAnEntryDeniesWhatItNames(t *testing.T) {
	e := mustEntry(t, entryOf("a", `"ai_snapshot":{}`, `"robots_directive":"nosnippet, noai"`))
	p, err := e.page(noon)
	if err != nil {
		t.Fatal(err)
	}
	for purpose, want := range map[string]content.Answer{
		content.PurposeSearchSnippet: content.No, content.PurposeAITrain: content.No, content.PurposeSearchIndex: content.Unknown,
	} {
		if a, _ := p.Preferences.About(purpose); a != want {
			t.Errorf("%s: %v, want %v", purpose, a, want)
		}
	}
}
