package site

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func extractString(src string) (string, found) {
	x := extractor{rules: DefaultRules().set()}
	content, f := x.extract([]byte(src))
	return string(content), f
}

func TestTextReadsAsThePageDoes(t *testing.T) {
	for _, tt := range []struct{ name, html, want string }{
		{"a tag inside a word does not split it", "un<b>cert</b>ain<wbr>ty", "uncertainty"},
		{"nor does a comment", "un<!-- x -->known", "unknown"},
		{"a line break parts words", "one<br>two<BR/>three", "one\ntwo\nthree"},
		{"a block parts words", "one<div>two</div>three", "one\ntwo\nthree"},
		{"a paragraph stands by itself", "one<p>two<p>three", "one\n\ntwo\n\nthree"},
		{"cells of a row share a line", "<table><tr><td>a<td>b<tr><td>c<td><p>d</table>e", "a\tb\nc\td\n\ne"},
		{"an empty cell leaves no gap", "<table><tr><td></td><td>a</td></tr><tr><td></td><td>b</td></tr></table>", "a\nb"},
		{"white space is one space", " a \t\r\n b&nbsp;&#32;c ", "a b c"},
		{"white space at a tag counts once", "a <b> b </b> c", "a b c"},
		{"verbatim text keeps its shape", "<pre>\nif x:\n\tgo\r\n\r\n\r\n    end  \n</pre>after", "if x:\n\tgo\n\n    end\n\nafter"},
		{"tags in verbatim text keep it whole", "<pre>a  <b>b</b>\n  c</pre>", "a  b\n  c"},
		{"references are decoded once", "&amp;lt;p&gt; &copy &#x2014; &nosuch; &", "&lt;p> \u00a9 \u2014 &nosuch; &"},
		{"a reference does not run across a tag", "&am<b>p;</b>", "&amp;"},
		{"control characters go", "a\x00b\x01c\x7fd\u0080e&#1;f", "abcdef"},
		{"scripts, styles and templates are out", "a<script>x</script><style>x</style><template>x</template><noscript>x</noscript>b", "ab"},
		{"so are controls of a form", "a <button>x</button><select><option>x</select><textarea>x</textarea> b", "a b"},
		{"navigation is out", "a<nav>x<ul><li>x</ul></nav>b", "a\n\nb"},
		{"also by its class", "a<div class='wide breadcrumb'>x<div>x</div>x</div>b", "a\nb"},
		{"by its id", "a<ul id=toc><li>x<li>x</ul>b", "a\n\nb"},
		{"and by its role", "a<div role=navigation>x</div>b", "a\nb"},
		{"a class that only contains such a name is another", "<div class='tocs no-sidebar'>a</div>", "a"},
		{"the class of the body names no navigation", "<body class=navbar>a", "a"},
		{"a link to a heading is out", "<h2>Notes<a class=headerlink href=#n>&para;</a></h2>", "Notes"},
		{"an item that is out ends with the next", "<ul><li class=menu>x<li>a</ul>", "a"},
		{"one without an end ends with its list", "<ul><li>a<li class=menu>x</ul>b", "a\n\nb"},
		{"a paragraph that is out ends with a block", "<p class=toc>x<div>a</div>", "a"},
		{"a cell that is out ends with the next", "<table><tr><td class=menu>x<td>a</table>", "a"},
		{"a block in a cell ends with the cell", "<table><tr><td><div class=menu>x</td><td>a</table>", "a"},
		{"an end tag that ends nothing ends nothing", "<div class=menu>x</p></span></table>x</div>a", "a"},
		{"an end tag in a cell does not end what is outside", "<div class=menu><table><tr><td></div>x</table></div>a", "a"},
		{"lines of names stand apart", "<span class=t-lines><i>a<b>b</b></i><i>c</i></span>", "ab\nc"},
		{"words of a drawing count, and its title does not", "a<svg><title>x</title><text>b</text><text>c</text></svg>d", "a b c d"},
		{"a quotation mark in a drawing hides nothing", "<svg><text>5\" pipe</text></svg><p>a", "5\" pipe\n\na"},
		{"a block ends a drawing", "<svg><title>x<p>x</p></title><style>x<p>a", "a"},
		{"a formula reads as its parts", "<math><mi>x</mi><mo>=</mo><mn>1</mn><annotation>x</annotation></math>", "x=1"},
		{"the title of the page is not in its text", "<title>x</title>a", "a"},
		{"plain text runs to the end", "a<plaintext>b</plaintext><p>", "a\n\nb</plaintext><p>"},
		{"an old example is text", "a<xmp><b>b</b></xmp>c", "a\n\n<b>b</b>\n\nc"},
		{"an open comment hides the rest", "a<!-- b <p> c", "a"},
		{"an empty comment hides nothing", "a<!-->b", "ab"},
		{"an open attribute hides the rest", "a<p class=\"b>c</p>", "a"},
		{"an open script hides the rest", "a<script>b<p>c", "a"},
		{"a less-than sign may be one", "1 < 2 <3 </> 4", "1 < 2 <3 4"},
		{"no page gives no text", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, _ := extractString(tt.html); got != tt.want {
				t.Errorf("%s\n got %q\nwant %q", tt.html, got, tt.want)
			}
		})
	}
}

func TestAPageIsDescribedByItself(t *testing.T) {
	for _, tt := range []struct {
		name, html string
		want       found
	}{
		{
			"title, language and description", "<html lang=de><title> A\n<b> &amp; c </title><meta name=Description content=' d &lt;\te '>",
			found{title: "A <b> & c", lang: "de", description: "d < e"},
		},
		{"the first title counts", "<title>a</title><title>b</title>", found{title: "a"}},
		{"an empty title is one", "<title></title><title>b</title>", found{}},
		{"a drawing's title is none", "<svg><title>a</title></svg>", found{}},
		{"nor is one in a template", "<template><title>a</title></template>", found{}},
		{"the first heading with words", "<h1> </h1><h1>a<br><b>b</b></h1><h1>c</h1>", found{h1: "a b"}},
		{"a heading in navigation is none", "<nav><h1>a</h1></nav><h1>b</h1>", found{h1: "b"}},
		{"a heading that another one ends", "<h1>a<h2>b</h2>", found{h1: "a"}},
		{"a heading that nothing ends", "<h1>a", found{h1: "a"}},
		{"the language of a part is not the page's", "<p lang=fr>a", found{}},
		{"robots", "<META NAME=robots CONTENT='NoIndex , nofollow,'><meta name=robots content=nosnippet>", found{robots: []string{"noindex", "nofollow", "nosnippet"}}},
		{"what stands in a comment is nothing", "<!-- <title>a</title><meta name=robots content=noindex> -->", found{}},
		{"what stands in a script is nothing", "<script><meta name=robots content=noindex></script>", found{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := extractString(tt.html)
			w := tt.want
			if got.title != w.title || got.h1 != w.h1 || got.lang != w.lang || got.description != w.description || !slices.Equal(got.robots, w.robots) {
				t.Errorf("%s\n got %+v\nwant %+v", tt.html, got, w)
			}
		})
	}
}

// A reading that takes the square of the page's size does not come to its end
// within the time that a package's tests have.
func TestHostilePagesCostNoMoreThanTheirSize(t *testing.T) {
	const n = 200_000
	for _, tt := range []struct{ name, html string }{
		{"blocks without end", strings.Repeat("<div>", n)},
		{"blocks without end in navigation", "<nav>" + strings.Repeat("<div>", n) + strings.Repeat("</div>", n)},
		{"unknown elements without end", "<nav>" + strings.Repeat("<x-y>", n) + strings.Repeat("</z>", n)},
		{"inline elements without end", strings.Repeat("<b>", n) + strings.Repeat("</i>", n)},
		{"drawings without end", strings.Repeat("<svg>", n)},
		{"drawings in drawings", strings.Repeat("<svg><desc>", n)},
		{"parts of a drawing without end", "<svg>" + strings.Repeat("<g>", n/10) + strings.Repeat("</x>", n/10)},
		{"tables in tables", strings.Repeat("<table><tr><td>", n)},
		{"items in items", strings.Repeat("<ul><li>", n) + strings.Repeat("<li>", n)},
		{"paragraphs, each ending the last", strings.Repeat("<p>", n)},
		{"comments without end", strings.Repeat("<!--", n)},
		{"empty comments", strings.Repeat("<!-->", n)},
		{"declarations without end", strings.Repeat("<![CDATA[", n)},
		{"scripts in a script", "<script>" + strings.Repeat("<!--<script>", n)},
		{"titles without end", strings.Repeat("<title>", n)},
		{"one tag of many attributes", "<p " + strings.Repeat("a=b class=c ", n) + ">x"},
		{"one class of many names", "<p class='" + strings.Repeat("a ", n) + "'>x"},
		{"one huge name", "<" + strings.Repeat("a", n) + ">x"},
		{"ampersands", strings.Repeat("&", n)},
		{"references", strings.Repeat("&a", n)},
		{"less-than signs", strings.Repeat("<", n)},
		{"NUL", strings.Repeat("\x00", n) + strings.Repeat("<\x00", n)},
		{"indentation", "<pre>" + strings.Repeat(" ", n) + "x" + strings.Repeat("\n ", n) + "y"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := extractor{rules: DefaultRules().set()}
			content, _ := x.extract([]byte(tt.html))
			if len(content) > len(tt.html) || cap(x.stack) > 2*maxDepth {
				t.Errorf("%d octets gave %d, with %d places for open elements", len(tt.html), len(content), cap(x.stack))
			}
		})
	}
	if _, f := extractString(strings.Repeat("<div>", maxDepth+1)); !f.flattened {
		t.Error("the page is not marked as flattened")
	}
	if got, _ := extractString("<nav>" + strings.Repeat("<div>", 2*maxDepth) + "x"); got != "" {
		t.Errorf("navigation leaks out at its depth: %q", got)
	}
}

// checkText holds what must be true of the text of every page.
func checkText(t interface{ Fatalf(string, ...any) }, src []byte) {
	before := bytes.Clone(src)
	x := extractor{rules: DefaultRules().set()}
	content, _ := x.extract(src)
	once := string(content)
	if !bytes.Equal(src, before) {
		t.Fatalf("the source was changed")
	}
	if !utf8.ValidString(once) {
		t.Fatalf("%q gives %q, no UTF-8", src, once)
	}
	if strings.Trim(once, " \t\n") != once || strings.Contains(once, "\n\n\n") || strings.Contains(once, " \n") {
		t.Fatalf("%q gives %q, with a gap too many", src, once)
	}
	if i := strings.IndexFunc(once, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
		t.Fatalf("%q gives %q, with a control character", src, once)
	}
	if len(x.stack) != 0 || x.lines != 0 || x.dropAt >= 0 {
		t.Fatalf("%q leaves elements open", src)
	}
	for id, n := range x.open {
		if n != 0 {
			t.Fatalf("%q leaves %d of id %d open", src, n, id)
		}
	}
	if again, _ := x.extract(src); string(again) != once {
		t.Fatalf("%q gives %q and then %q", src, once, again)
	}
}

func TestTextIsCleanWhateverThePage(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"<p>", "</p>", "<div>", "</div>", "<ul>", "<li class=nav>", "</ul>", "<table>", "<tr>", "<td>", "</td>", "</table>", "<nav>", "</nav>", "<pre>", "</pre>", "<svg>", "<title>", "</title>", "</svg>",
		"<desc>", "</desc>", "<template>", "</template>", "<span class=t-lines>", "<i>", "</i>", "</span>", "<h1>", "</h1>", "<br>", "<script>", "</script>", "<a>", "<button>", "<select>", "<object>", "</object>", "</br>",
		"a", " ", "\n", "\t", "&nbsp;", "&lt;", "\u0085", "\x00", "<!-->", "<math>", "<mi>", "</math>",
	})
	rapid.Check(t, func(t *rapid.T) {
		checkText(t, []byte(strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces"), "")))
	})
}

func FuzzExtract(f *testing.F) {
	f.Add([]byte("<!doctype html><html lang=en><title>t</title><body><h1>a</h1><p class=nav>b<pre> c\n\td</pre>"))
	f.Add([]byte("<table><tr><td>a<td><svg><desc><p>b</svg><template></table><math><mi>x</math>&amp;&#0;"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if utf8.Valid(src) {
			checkText(t, src)
		}
	})
}

func BenchmarkExtract(b *testing.B) {
	src, err := os.ReadFile(siteDir + "/docs/reference/station.html")
	if err != nil {
		b.Fatal(err)
	}
	src = bytes.Repeat(src, 50)
	x := extractor{rules: DefaultRules().set()}
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		x.extract(src)
	}
}
