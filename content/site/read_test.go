package site_test

import (
	"crypto/sha256"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

func TestAFileThatBreaksTouchesNoOther(t *testing.T) {
	dir := write(t, map[string]string{
		"a.html": "<title>a</title>x", "b.html": "\xff\xfe\x00", "c.html": "caf\xe9", "d.html": "<meta charset=klingon>x", "e.html": strings.Repeat("x", 101),
		"f\n.html": "x", "g..%2Fx.html": "x", "..%2Fh.html": "x", "i/..;.html": "x", "j.md": strings.Repeat("> ", 40) + "x", "k.md": strings.Repeat("[a](", 20), "z.html": "<title>z</title>x",
	})
	pages, skipped := mustScan(t, &site.Site{Dir: dir, BaseURL: base, MaxPage: 100})
	var got []string
	for _, p := range pages {
		got = append(got, p.Location)
	}
	if want := []string{"a.html", "g..%2Fx.html", "j.md", "k.md", "z.html"}; !slices.Equal(got, want) {
		t.Errorf("pages %q, want %q", got, want)
	}
	got = nil
	for _, s := range skipped {
		if s.Err == nil {
			t.Errorf("%q is to be withdrawn, though it only broke", s.Location)
		}
		got = append(got, s.Location+": "+s.Reason)
	}
	slices.Sort(got)
	want := []string{
		"b.html: no utf-16, though it says so",
		"c.html: no UTF-8, and it declares no other encoding",
		`d.html: its encoding "klingon" is unknown`,
		"e.html: larger than 100 octets",
		"f\n.html: its name gives no URL",
	}
	if !slices.Equal(got, want) {
		t.Errorf("skipped:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEncodingsAreDecoded(t *testing.T) {
	const page = "<title>Caf\u00e9 \u20ac5</title>"
	latin, err := charmap.Windows1252.NewEncoder().String(page)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(page)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"plain.html":   page,
		"mark.html":    "\ufeff" + page,
		"says.html":    "<meta charset='UTF-8'>" + page,
		"utf16.html":   wide,
		"latin.html":   "<meta charset=iso-8859-1>" + latin,
		"old.html":     `<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=windows-1252">` + latin,
		"xml.html":     "<?xml version='1.0' encoding='windows-1252'?>" + latin,
		"comment.html": "<!-- <meta charset=klingon> --><script>'<meta charset=klingon>'</script>" + page,
		"lie.html":     "<meta charset=utf-16>" + page,
		"other.html":   "<meta name=x content='charset=klingon'>" + page,
	}
	pages, skipped := mustScan(t, &site.Site{Dir: write(t, files), BaseURL: base})
	if len(pages) != len(files) {
		t.Errorf("%d pages, skipped %+v", len(pages), skipped)
	}
	for _, p := range pages {
		if p.Title != "Caf\u00e9 \u20ac5" {
			t.Errorf("%s: title %q", p.Location, p.Title)
		}
		want := sha256.Sum256([]byte(files[p.Location]))
		if p.SourceHash != want {
			t.Errorf("%s: source hash %x", p.Location, p.SourceHash)
		}
		if utf8Source := !slices.Contains([]string{"utf16.html", "latin.html", "old.html", "xml.html"}, p.Location); utf8Source != (p.HTMLChecksum == want) {
			t.Errorf("%s: HTML checksum %x", p.Location, p.HTMLChecksum)
		}
	}
}

func TestOddPagesAreWarnedAbout(t *testing.T) {
	for _, tt := range []struct{ name, html, title, language, warning string }{
		{"the heading is the second choice", "<html lang=EN-us><h1>b</h1>x", "b", "en-US", ""},
		{"the URL is the last", "x", "caf\u00e9.html", "", "no title and no h1"},
		{"a language that is none", "<html lang='no such'><title>a</title>x", "a", "", "is no language"},
		{"a page without words", "<title>a</title><nav>x</nav>", "a", "", "no words"},
		{"a preference", "<title>a</title><meta name=robots content='index, NOSNIPPET'>x", "a", "", `robots preference "nosnippet"`},
		{"a title without end", "<title>" + strings.Repeat("\u00e9", 3000), strings.Repeat("\u00e9", 2048), "", "cut off"},
		{"a page of towers", "<title>a</title>" + strings.Repeat("<div>", 600) + "x", "a", "", "512 elements"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pages, _ := mustScan(t, &site.Site{Dir: write(t, map[string]string{"caf\u00e9.html": tt.html}), BaseURL: base})
			if len(pages) != 1 || pages[0].Title != tt.title || pages[0].Language != tt.language {
				t.Fatalf("%+v", pages)
			}
			if got := strings.Join(pages[0].Warnings, "; "); (tt.warning == "") != (got == "") || !strings.Contains(got, tt.warning) {
				t.Errorf("warnings %q, want %q", got, tt.warning)
			}
		})
	}
	pages, _ := mustScan(t, &site.Site{Dir: write(t, map[string]string{"index.html": "x"}), BaseURL: base})
	if len(pages) != 1 || pages[0].Title != "tidewheel.example" {
		t.Errorf("the first page is %+v", pages)
	}
}

func TestPagesThatAskForItAreWithdrawn(t *testing.T) {
	dir := write(t, map[string]string{
		"a.html": "<meta name=robots content=none>x", "b.html": "<meta name=ROBOTS content='nofollow,NOINDEX'>x", "c.html": "<meta name=googlebot content=noindex>x", "d.md": "<meta name=robots content=noindex>\n",
	})
	pages, skipped := mustScan(t, &site.Site{Dir: dir, BaseURL: base})
	if len(pages) != 1 || pages[0].Location != "c.html" || len(skipped) != 3 {
		t.Errorf("pages %+v, skipped %+v", pages, skipped)
	}
	for _, s := range skipped {
		if s.Err != nil || !strings.Contains(s.Reason, "noindex") {
			t.Errorf("%+v", s)
		}
	}
}

func TestRulesReplaceTheDefault(t *testing.T) {
	dir := write(t, map[string]string{"a.html": "<title>t</title><p class=toc>a</p><p class=ads>b</p><nav>c</nav>"})
	page, err := (&site.Site{Dir: dir, BaseURL: base, Rules: &site.Rules{Classes: []string{"ads"}}}).Fetch(t.Context(), "a.html")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := tct.Decode(page.Payload); err != nil || d.Content != "a" {
		t.Errorf("content %q, %v", d.Content, err)
	}
}

func TestAPageSaysHowItMayBeUsed(t *testing.T) {
	for _, tt := range []struct{ name, file, text, denied, warning string }{
		{"a robots element", "a.html", "<title>a</title><meta name=robots content=noai>x", "ai.embed ai.finetune ai.summarise ai.train rag.retrieve", "not offered under a grant of ai.embed: the page: robots directive noai"},
		{"AIPREF as a name", "a.html", "<title>a</title><meta name=Content-Usage content='train-ai=n, search=y'>x", "ai.finetune ai.train", "Content-Usage train-ai=n"},
		{"AIPREF in place of a header", "a.html", "<title>a</title><meta http-equiv=content-usage content='search=n'>x", "search.index search.snippet", "search=n"},
		{"Content-Signal", "a.html", "<title>a</title><meta name=content-signal content='ai-input=no'>x", "ai.summarise rag.retrieve", "ai-input=no"},
		{"what is no dictionary denies nothing, and is told", "a.html", "<title>a</title><meta name=content-usage content='train-ai=n,'>x", "", "no dictionary"},
		{"a permission widens nothing", "a.html", "<title>a</title><meta name=content-usage content='train-ai=y'>x", "", ""},
		{"front matter", "a.md", "---\ntitle: a\ncontent-usage: train-ai=n\nrobots: noarchive\n---\nx\n", "ai.finetune ai.train archive", "noarchive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pages, _ := mustScan(t, &site.Site{Dir: write(t, map[string]string{tt.file: tt.text}), BaseURL: base})
			if len(pages) != 1 {
				t.Fatalf("%d pages", len(pages))
			}
			var denied []string
			for _, d := range pages[0].Preferences.Denied() {
				denied = append(denied, d.Purpose)
			}
			if got := strings.Join(denied, " "); got != tt.denied {
				t.Errorf("denied %q, want %q", got, tt.denied)
			}
			if got := strings.Join(pages[0].Warnings, "; "); (tt.warning == "") != (got == "") || !strings.Contains(got, tt.warning) {
				t.Errorf("warnings %q, want %q", got, tt.warning)
			}
		})
	}
}
