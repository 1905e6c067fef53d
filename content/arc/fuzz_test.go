package arc

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// What is read as an entry is written as one, and read again as the same.
func FuzzParseEntry(f *testing.F) {
	f.Add([]byte(entryOf("a", `"ai_tags":["a"]`, `"crawl_priority":0.5`, `"ai_snapshot":{"x":[1,null]}`, `"lastmod":"2026-01-02"`)))
	f.Add(seed(f, "generated.json"))
	f.Add(seed(f, "generated-bare.json"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := ParseEntry(raw)
		if err != nil {
			return
		}
		if err := content.IsCanonical(e.URL); err != nil {
			t.Fatal(err)
		}
		again, err := ParseEntry(e.Line)
		if err != nil || !bytes.Equal(again.Line, e.Line) || again.URL != e.URL || again.Withdrawn() != e.Withdrawn() {
			t.Fatalf("%v\n%s\n%s", err, again.Line, e.Line)
		}
		if _, err := e.page(noon); err != nil {
			t.Fatal(err)
		}
		if e.Withdrawn() == "" && e.Snapshot != nil {
			if err := Check(e.Line, e.URL); err != nil {
				t.Fatal(err)
			}
		}
		e.Document()
		looksPersonal(&e)
	})
}

// A sitemap, of JSON or YAML, that is read is one when it is written in either.
func FuzzReadARCSitemap(f *testing.F) {
	for _, name := range []string{"sitemap.json", "sitemap.yaml", "descriptor.html"} {
		f.Add(seed(f, name))
	}
	f.Add([]byte("a: &a [1]\nb: *a"))
	f.Add([]byte("- - - x: {y: [1, 2]}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := ReadSitemap(bytes.NewReader(raw), Limits{}, Visitor{}); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("no typed error: %v", err)
			}
			return
		}
		r := read(string(raw), Limits{})
		if r.err != nil {
			t.Fatal(r.err)
		}
		var all [][]byte
		for _, e := range r.entries {
			all = append(all, e.Line)
		}
		var j, y bytes.Buffer
		if err := errors.Join(WriteSitemap(&j, r.Head, lines(all...)), WriteYAML(&y, r.Head, lines(all...))); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{j.String(), y.String()} {
			again := read(text, Limits{})
			if again.err != nil || len(again.entries) != len(all) || again.Head.Site != r.Head.Site || !again.Head.Generated.Equal(r.Head.Generated) {
				t.Fatalf("%v, %d of %d entries\n%s", again.err, len(again.entries), len(all), text)
			}
			for i, e := range again.entries {
				if !bytes.Equal(e.Line, all[i]) {
					t.Fatalf("entry %d:\n%s\n%s", i, e.Line, all[i])
				}
			}
		}
	})
}

func FuzzReadARCPolicy(f *testing.F) {
	text, err := somePolicy().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, _, err := ReadPolicy(bytes.NewReader(raw), "here")
		if err != nil {
			if !errors.Is(err, ErrPolicy) {
				t.Fatalf("no typed error: %v", err)
			}
			return
		}
		p.Says()
		text, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := ReadPolicy(bytes.NewReader(text), "here")
		if err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for _, d := range p.Uses.Preferences.Denied() {
			if a, _ := again.Uses.Preferences.About(d.Purpose); a != content.No {
				t.Fatalf("%s is denied no more in %s", d.Purpose, text)
			}
		}
	})
}

func FuzzReadDescriptor(f *testing.F) {
	f.Add(seed(f, "descriptor.html"))
	f.Add([]byte(`[{"@type":"Dataset","name":"ARC Sitemap","url":"/x"}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		at, err := ReadDescriptor(raw, base)
		if (err == nil) != (at != "") || err == nil && !strings.HasPrefix(at, "http://") && !strings.HasPrefix(at, "https://") {
			t.Fatalf("%q, %v", at, err)
		}
		readMarkup(raw)
	})
}

func FuzzParseRate(f *testing.F) {
	f.Add("1/s")
	f.Add("0.5/10m")
	f.Fuzz(func(t *testing.T, s string) {
		rate, err := ParseRate(s)
		if err != nil {
			return
		}
		again, err := ParseRate(FormatRate(rate))
		if err != nil || again < rate*0.999 || again > rate*1.001 {
			t.Fatalf("%q is %v, written as %q and read as %v: %v", s, rate, FormatRate(rate), again, err)
		}
	})
}

func FuzzParseChecksum(f *testing.F) {
	f.Add(Checksum(nil))
	f.Fuzz(func(t *testing.T, s string) {
		if sum, ok := ParseChecksum(s); ok && FormatChecksum(sum) != s {
			t.Fatalf("%q is read and not printed", s)
		}
	})
}
