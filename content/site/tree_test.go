package site

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// treeWords returns the words that the extraction's rules find in the tree of
// another parser: the oracle for where elements begin and end.
func treeWords(t interface{ Fatal(...any) }, src []byte, rules Rules) []string {
	doc, err := html.Parse(strings.NewReader(string(src)))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		switch n.Type {
		case html.TextNode:
			b.WriteString(strings.Map(visible, n.Data))
			return
		case html.ElementNode:
			drop, apart := nodeRules(n, rules)
			if apart {
				b.WriteByte(' ')
				defer b.WriteByte(' ')
			}
			if drop {
				return
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	return strings.Fields(b.String())
}

// nodeRules tells whether an element's content is dropped, and whether words
// on its two sides stand apart.
func nodeRules(n *html.Node, rules Rules) (drop, apart bool) {
	if p := n.Parent; p != nil && p.Type == html.ElementNode && hasClass(p, rules.Lines) {
		apart = true
	}
	drop = hasClass(n, rules.Classes) || slices.Contains(rules.IDs, attr(n, "id")) || slices.Contains(rules.Roles, attr(n, "role"))
	if n.Namespace != "" {
		name := strings.ToLower(n.Data)
		root := n.Parent != nil && n.Parent.Namespace == ""
		return drop || !root && foreignDropped[name], apart || name == "svg" || name == "text"
	}
	if n.Data == "html" || n.Data == "body" {
		return false, false
	}
	e := lookup([]byte(n.Data))
	return drop || e.is(dropped), apart || e.gap != joined
}

func hasClass(n *html.Node, names []string) bool {
	return slices.ContainsFunc(strings.Fields(attr(n, "class")), func(c string) bool { return slices.Contains(names, c) })
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// visible drops control characters that are no white space.
func visible(r rune) rune {
	if unicode.IsControl(r) && !unicode.IsSpace(r) || r == '\v' {
		return -1
	}
	return r
}

// extractWords returns what the extraction itself finds.
func extractWords(src []byte) []string {
	x := extractor{rules: DefaultRules().set()}
	content, _ := x.extract(src)
	return strings.Fields(string(content))
}

// firstDifference shows where two lists of words part.
func firstDifference(a, b []string) (string, string) {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-5)
	return strings.Join(a[from:min(len(a), i+5)], " "), strings.Join(b[from:min(len(b), i+5)], " ")
}

const siteDir = "../../testdata/site"

func TestExtractionAgreesWithATree(t *testing.T) {
	for _, pattern := range []string{"*.htm*", "*/*.htm*", "*/*/*.htm*"} {
		files, err := filepath.Glob(filepath.Join(siteDir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := extractWords(src), treeWords(t, src, DefaultRules()); !slices.Equal(got, want) {
				g, w := firstDifference(got, want)
				t.Errorf("%s\n got %s\nwant %s", file, g, w)
			}
		}
	}
}

func TestExtractionAgreesWithATreeOnAnyPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pageMaker{T: t}
		p.write("<!DOCTYPE html>", "<html lang=en>", "<head>", "<title>t</title>", "<style>.x{}</style>", "<body class=navbar>")
		p.flow(4)
		src := []byte(p.String())
		if got, want := extractWords(src), treeWords(t, src, DefaultRules()); !slices.Equal(got, want) {
			g, w := firstDifference(got, want)
			t.Fatalf("%s\n got %s\nwant %s", src, g, w)
		}
	})
}

// A pageMaker writes valid HTML: it leaves out only end tags that may be left
// out.
type pageMaker struct {
	*rapid.T
	strings.Builder
	inButton bool // where no second may start
}

func (p *pageMaker) write(tags ...string) {
	for _, tag := range tags {
		p.WriteString(tag)
	}
}

func (p *pageMaker) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(p.T, label)
}

func (p *pageMaker) text() {
	for range rapid.IntRange(0, 3).Draw(p.T, "n") {
		p.write(p.pick("text", "a", "b ", " c", "\n", "&amp;", "&lt;p&gt;", "&nbsp;", "&#160;x", "&notit;", "&", "&x", "\u00e9", "\u00a0", "\u00b5", "&#x85;", "\x01", "1 < 2 ", "<!-- c -->", "<!-->", "<![CDATA[d>", "</>", "<?e?>"))
	}
}

// phrase writes inline content.
func (p *pageMaker) phrase(depth int) {
	p.text()
	for range rapid.IntRange(0, 2).Draw(p.T, "n") {
		switch tag := p.pick("inline", "b", "SPAN", "x-y", "br", "img", "script", "title", "noscript", "navigation", "lines", "svg", "math", "button", "select", "textarea", "wbr"); tag {
		case "br", "img", "wbr":
			p.write("<", tag, " class=nav>")
		case "script", "title", "noscript", "textarea":
			p.write("<", tag, ">d<p>\"</p </", tag, " >")
		case "navigation":
			p.write("<span class='a\tnav'>")
			p.inner(depth, p.phrase)
			p.write("</span>")
		case "lines":
			p.write("<span class=t-lines><i>a<u>b</u></i><i>c</i>d</span>")
		case "svg":
			p.write(p.pick("svg", "<svg><title>d</title><text>a</text><g>b</g></svg>", "<svg><title>d<p>d</p></title><path/></svg>", "<svg/>", "<svg><style>d</style>\"<g/>a</svg>",
				"<SVG><foreignObject><p>a<div>b</div></foreignObject><desc><b>d</b></desc>c</SVG>", "<svg><g class=nav>d</g>a<i>b</i>"))
		case "math":
			p.write(p.pick("math", "<math><mi>a</mi><mo>=</mo><annotation>d</annotation></math>", "<math><mtext><b>a</b>c</mtext></math>"))
		case "select":
			p.write("<select><option>d<option>d</select>")
		case "button":
			if !p.inButton {
				p.inButton = true
				p.write("<button>")
				p.inner(depth, p.phrase)
				p.write("</button>")
				p.inButton = false
			}
		default:
			p.write("<", tag, ">")
			p.inner(depth, p.phrase)
			p.write("</", tag, ">")
		}
		p.text()
	}
}

func (p *pageMaker) inner(depth int, f func(int)) {
	if depth > 0 {
		f(depth - 1)
	}
}

// flow writes blocks.
func (p *pageMaker) flow(depth int) {
	for range rapid.IntRange(0, 3).Draw(p.T, "n") {
		class := p.pick("class", "", "", " class=toc", " id='nav'", " role=navigation", " class=tocs")
		switch tag := p.pick("block", "p", "p without end", "div", "DIV", "section", "nav", "h1", "pre", "ul", "dl", "table", "hr", "details", "object", "template", "text"); tag {
		case "p", "h1", "pre":
			p.write("<", tag, class, ">")
			p.inner(depth, p.phrase)
			p.write("</", tag, ">")
		case "p without end":
			p.write("<p", class, ">")
			p.inner(depth, p.phrase)
			p.write("<hr>")
		case "ul":
			p.items(depth, class, "ul", "li")
		case "dl":
			p.items(depth, class, "dl", p.pick("item", "dt", "dd"))
		case "table":
			p.table(depth, class)
		case "hr":
			p.write("<hr>")
		case "text":
			p.inner(depth, p.phrase)
		default:
			p.write("<", tag, class, ">")
			p.inner(depth, p.flow)
			p.write("</", tag, ">")
		}
	}
}

func (p *pageMaker) items(depth int, class, list, item string) {
	p.write("<", list, class, ">")
	for range rapid.IntRange(0, 3).Draw(p.T, "n") {
		p.write("<", item, p.pick("class", "", " class=menu"), ">")
		p.inner(depth, p.flow)
		p.write(p.pick("end", "", "</"+item+">"))
	}
	p.write("</", list, ">")
}

func (p *pageMaker) table(depth int, class string) {
	p.write("<table", class, ">", p.pick("caption", "", "<caption>a</caption>", "<caption>a<div>b</div>"), p.pick("head", "", "<thead><tr><th>a<th>b", "<thead><tr><th>a</thead>"), "<tbody>")
	for range rapid.IntRange(0, 2).Draw(p.T, "n") {
		p.write("<tr", p.pick("class", "", " class=menu"), ">")
		for range rapid.IntRange(0, 2).Draw(p.T, "n") {
			p.write("<td", p.pick("class", "", " class=menu"), ">")
			p.inner(depth, p.flow)
			p.write(p.pick("end", "", "</td>"))
		}
		p.write(p.pick("end", "", "</tr>"))
	}
	p.write("</table>")
}
