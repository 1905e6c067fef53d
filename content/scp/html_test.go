package scp

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

const webPage = `<!DOCTYPE html><html lang="EN-gb"><head><title> A
 page </title><meta name="description" content="About &amp; more"><meta name="author" content="Ann">
<meta property="article:published_time" content="2025-01-02T03:04:05Z"><link rel="canonical" href="/canon">
<script type="application/ld+json">{ "@type": "Article",
 "name": "A" }</script><script>var x = "no words"</script><style>p{}</style></head>
<body><nav>Menu</nav><div class="breadcrumb">Where</div>
<h1>The <em>first</em></h1>Loose text
<p>One<br>two <a href="b">th</a>ree</p><p><a href="b?x#y" rel="nofollow"> A link </a></p><p><a href="javascript:x()">no link</a></p>
<ul><li>a<ul><li>b</li></ul>c</li><li><p>d</p></li></ul><ol><li>x</li></ol>
<pre class="language-go">func()

	x</pre><pre><code class="lang-py">y</code></pre>
<table><caption>Cap</caption><thead><tr><th>h</th><th>i</th></tr></thead><tr><td>1</td><td><ul><li>p</li><li>q</li></ul></td></tr></table>
<blockquote cite="https://example.com/src"><p>Said</p><p>twice</p></blockquote>
<figure><img src="/i.png" alt="Pic"><figcaption>Fig</figcaption></figure><img src="data:image/png;base64,AA" alt="no">
<video src="v.mp4" poster="p.jpg" width="640" title="Vid">no video</video>
<audio><source src="a.ogg" type="audio/ogg"><source src="a.mp3" type="audio/mpeg"></audio>
<h7>odd</h7><button>Press</button><template>no</template><noscript>no</noscript></body></html>`

func TestAWebPageBecomesBlocks(t *testing.T) {
	width := int64(640)
	p, blocks, err := FromHTML(strings.NewReader(webPage), "https://example.com/dir/a", "text/html; charset=utf-8", noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Title != "A page" || p.Description != "About & more" || p.Author != "Ann" || p.Language != "en-GB" ||
		p.Canonical != "https://example.com/canon" || formatTime(p.Published) != "2025-01-02T03:04:05Z" {
		t.Errorf("page %+v", p)
	}
	dir := "https://example.com/dir/"
	want := []Block{
		&Heading{1, "The first"}, &Text{"Loose text"}, &Text{"One\ntwo three"}, &Link{dir + "b?x", "A link", []string{"nofollow"}}, &Text{"no link"},
		&List{false, []string{"a\nc", "b", "d"}}, &List{true, []string{"x"}}, &Code{"go", "func()\n\n\tx"}, &Code{"py", "y"},
		&Table{[][]string{{"Cap"}, {"h", "i"}, {"1", "p\nq"}}}, &Quote{"Said\ntwice", "https://example.com/src"},
		&Image{"https://example.com/i.png", "Pic"}, &Text{"Fig"},
		&Video{Media: Media{Name: "Vid", URL: URLs{One: dir + "v.mp4"}, Icon: &Icon{"Image", dir + "p.jpg"}}, Width: &width},
		&Audio{Media: Media{URL: URLs{Many: []MediaURL{{dir + "a.ogg", "audio/ogg", ""}, {dir + "a.mp3", "audio/mpeg", ""}}}}},
		&Text{"odd"},
	}
	for i := range max(len(want), len(blocks)) {
		if i >= len(want) || i >= len(blocks) || !reflect.DeepEqual(blocks[i], want[i]) {
			t.Fatalf("block %d of %d differs: %+v", i, len(blocks), blocks[min(i, len(blocks)-1)])
		}
	}
	line, err := AppendPage(nil, &p, blocks)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, compile(t, "schema/page.json"), line); err != nil || !strings.Contains(string(line), `"schema":{"@type":"Article","name":"A"}`) {
		t.Errorf("%s: %v", line, err)
	}
}

func TestWebPagesOfMoreBlocksThanAPageMayHaveLoseNoWord(t *testing.T) {
	for _, each := range []string{"<p>w%d", "<h2>w%d</h2>", "<p>w%d<h2>v%[1]d</h2>"} {
		var b, want strings.Builder
		for i := range 2500 {
			fmt.Fprintf(&b, each, i)
			fmt.Fprintf(&want, strings.NewReplacer("<p>", " ", "<h2>", " ", "</h2>", "").Replace(each), i)
		}
		p, blocks, err := FromHTML(strings.NewReader(b.String()), "https://example.com/", "", noon, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(blocksText(blocks)); len(blocks) > MaxBlocks || !reflect.DeepEqual(got, strings.Fields(want.String())) {
			t.Errorf("%q: %d blocks, %d words", each, len(blocks), len(got))
		}
		if _, err := AppendPage(nil, &p, blocks); err != nil {
			t.Error(err)
		}
	}
}

func TestWebPagesThatGiveNoPage(t *testing.T) {
	_, _, err := FromHTML(strings.NewReader(`<meta name=robots content="follow, NOINDEX">x`), "https://example.com/", "", noon, nil)
	if !errors.Is(err, ErrNotOffered) {
		t.Errorf("noindex: %v", err)
	}
	_, _, err = FromHTML(&repeat{text: strings.Repeat("<p>x", 1<<14), n: MaxHTML + 1}, "https://example.com/", "", noon, nil)
	if !errors.Is(err, ErrLimit) {
		t.Errorf("too large: %v", err)
	}
	if _, _, err = FromHTML(strings.NewReader(strings.Repeat("<div>", 100_000)), "https://example.com/", "", noon, nil); err == nil {
		t.Error("100,000 elements in one another are read")
	}
	p, blocks, err := FromHTML(strings.NewReader(""), "https://example.com/a%20b", "", noon, nil)
	if err != nil || p.Title != "a b" || len(blocks) != 1 {
		t.Errorf("an empty page: %+v, %v, %v", p, blocks, err)
	}
	p, _, err = FromHTML(strings.NewReader("<p>caf\xE9"), "https://example.com/", "text/html; charset=latin1", noon, nil)
	if err != nil {
		t.Error(err, p)
	}
}

func TestFromTCTAndBackTheWordsStay(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"paragraphs", "One\n\nTwo\nlines\n\nThree"},
		{"more than a page may have", strings.Repeat("A paragraph\n\n", 3000) + "end"},
		{"none", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const url = "https://example.com/a"
			payload, print := tct.Encode(nil, tct.Document{URL: url, Title: "T", Content: tt.text, Language: "de"})
			c := content.Page{
				URL: url, Format: content.FormatTCT, Payload: payload, Fingerprint: print, Title: "T", Language: "de",
				Description: "D", Modified: noon,
			}
			line, lost, err := FromContent(&c)
			if err != nil || len(lost) == 0 {
				t.Fatalf("%q, %v", lost, err)
			}
			if err := Check(line, url); err != nil {
				t.Fatal(err)
			}
			p, err := ParsePage(line)
			if err != nil || p.Description != "D" || !p.Modified.Equal(noon) {
				t.Fatalf("%+v, %v", p, err)
			}
			d, lost := p.Document()
			if d.URL != url || d.Title != "T" || d.Language != "de" || tct.Normalise(d.Content) != tct.Normalise(tt.text) {
				t.Errorf("%.200q", d)
			}
			if !reflect.DeepEqual(lost, []string{"description", "published and modified"}) {
				t.Errorf("lost %q", lost)
			}
		})
	}
}

func TestWhatAConversionLosesIsSaid(t *testing.T) {
	p, blocks, err := FromHTML(strings.NewReader(webPage), "https://example.com/dir/a", "", noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	line, err := AppendPage(nil, &p, append(blocks, &Unknown{Raw: []byte(`{"type":"poll"}`)}))
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParsePage(line)
	if err != nil {
		t.Fatal(err)
	}
	_, lost := read.Document()
	want := "author, description, canonical, schema, published and modified, levels of headings, targets of links, kinds of lists, languages of code, " +
		"cells of tables beyond their text, marks of quotes, addresses of images, addresses, sizes, captions and times of video and audio, blocks of unknown types"
	if got := strings.Join(lost, ", "); got != want {
		t.Errorf("lost %s", got)
	}
}

func TestAPageOfThisFormatIsItsOwnPayload(t *testing.T) {
	p, err := ParsePage([]byte(strings.Replace(good("a"), `"A page"`, `" "`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	c := p.Content()
	line, lost, err := FromContent(&c)
	if err != nil || lost != nil || string(line) != string(p.Line) || c.Format != content.FormatSCP || Check(c.Payload, c.URL) != nil || c.Title != "a" {
		t.Errorf("%+v, lost %q, %v", c, lost, err)
	}
	if _, _, err := FromContent(&content.Page{Format: 99}); err == nil {
		t.Error("an unknown format is turned into a line")
	}
}

func TestAPageWithoutATitleIsCalledByItsHeading(t *testing.T) {
	for _, tt := range []struct{ url, title, blocks, want string }{
		{"https://example.com/a/b%C3%A4r/", "", `{"type":"heading","level":2,"text":"no"},{"type":"heading","level":1,"text":" H "}`, "H"},
		{"https://example.com/a/b%C3%A4r/", "", `{"type":"text","text":"no"}`, "bär"},
		{"https://example.com/a/", "T", `{"type":"heading","level":1,"text":"no"}`, "T"},
	} {
		text := fmt.Sprintf(`{"url":%q,"title":%q,"description":"","modified":"2025-06-01T12:00:00Z","language":"und","content":[%s]}`, tt.url, tt.title, tt.blocks)
		p, err := ParsePage([]byte(text))
		if err != nil || p.Content().Title != tt.want || len(p.Warnings) > 0 {
			t.Errorf("%s: %q, %v, %q", tt.url, p.Content().Title, err, p.Warnings)
		}
	}
}
