package tct_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

func TestLinksAreReadFromTheHeadAlone(t *testing.T) {
	const link = `<link rel="alternate" type="application/json" href="x.json">`
	for _, tt := range []struct{ name, page, want string }{
		{"a relative link", "<!doctype html><html><head><title>a</title>" + link + "</head><body></body>", "https://h/d/x.json"},
		{"an absolute one, in another order and case", `<head><LINK HREF="https://o/y" TYPE="Application/JSON; charset=utf-8" REL="foo Alternate">`, "https://o/y"},
		{"without a head tag", "<title>a</title>" + link + "<p>", "https://h/d/x.json"},
		{"against a base", `<head><base href="/b/"><base href="/c/">` + link, "https://h/b/x.json"},
		{"the first of two", "<head>" + link + strings.Replace(link, "x.json", "y.json", 1), "https://h/d/x.json"},
		{"in the body", "<head></head><body>" + link, ""},
		{"behind a paragraph, where the body has begun", "<head><p>a</p>" + link, ""},
		{"behind text, where the body has begun", "<head>a" + link, ""},
		{"behind a picture, where the body has begun", "<head><img src=x>" + link, ""},
		{"behind a heading", "<h1>a</h1>" + link, ""},
		{"in a comment", "<head><!-- " + link + " -->", ""},
		{"in a script", "<head><script>'" + link + "'</script>", ""},
		{"in a title", "<head><title>" + link + "</title>", ""},
		{"of another type", `<head><link rel="alternate" type="application/rss+xml" href="x">`, ""},
		{"of another relation", `<head><link rel="stylesheet" type="application/json" href="x">`, ""},
		{"to a script", `<head><link rel="alternate" type="application/json" href="javascript:alert(1)">`, ""},
		{"with a password", `<head><link rel="alternate" type="application/json" href="https://u:p@h/">`, ""},
		{"behind a MiB", "<head>" + strings.Repeat("<meta x>", 140_000) + link, ""},
		{"in an attribute without end", "<head><link rel='" + strings.Repeat("a", 200_000) + link, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			head, err := tct.ReadHead(strings.NewReader(tt.page), "https://h/d/e")
			if err != nil || head.Alternate != tt.want {
				t.Errorf("ReadHead = %+v, %v; want %q", head, err, tt.want)
			}
		})
	}
	head, err := tct.ReadHead(strings.NewReader(`<head><meta name="Robots" content="NoIndex, follow"><link rel="index" type="application/json" href="/s.json">`+
		`<link rel=canonical href=/c><link rel="describedby" type="application/json" href="/p.json">`), "https://h/d/e")
	if err != nil || !tct.NoIndex(head.Robots) || head.Index != "https://h/s.json" || head.Canonical != "https://h/c" || head.Policy != "https://h/p.json" {
		t.Errorf("ReadHead = %+v, %v", head, err)
	}
	broken := errors.New("broken")
	if _, err := tct.ReadHead(io.MultiReader(strings.NewReader("<head>"), iotest.ErrReader(broken)), "https://h/"); !errors.Is(err, broken) {
		t.Errorf("a page that breaks off: %v", err)
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add(`<!doctype html><head><base href="//o/"><link rel=alternate type=application/json href=x><template><script></head>`)
	f.Add("<title>")
	f.Fuzz(func(t *testing.T, page string) {
		head, err := tct.ReadHead(strings.NewReader(page), "https://h/d/e")
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range []string{head.Alternate, head.Index, head.Policy, head.Canonical} {
			if u != "" && !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
				t.Fatalf("link %q", u)
			}
		}
	})
}
