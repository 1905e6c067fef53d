package scp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/language"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

// MaxHTML is the greatest size of a web page that is turned into blocks, in
// octets. The tree of a hostile one takes some fifty times as much.
const MaxHTML = 4 << 20

// ErrNotOffered says that a web page asks not to be indexed.
var ErrNotOffered = errors.New("the page asks not to be indexed")

// FromHTML reads a web page and turns it into a page and its blocks, for
// AppendPage. contentType is that of the response, or empty. Navigation,
// scripts and controls are left out, by the rules that the folder source goes
// by; nil rules stand for its defaults.
//
// Headings, paragraphs, lists, tables, code, quotes, images and media become
// blocks of their kinds, in the order of the page, and a paragraph that is one
// link becomes a link. What that loses: emphasis and the targets of links
// inside a text; the nesting of lists, whose inner items follow the outer ones,
// and of tables, whose inner cells become one; quotes inside of lists and
// cells; forms, drawings and formulas but for their text. It holds the page's
// tree.
func FromHTML(r io.Reader, pageURL, contentType string, modified time.Time, rules *site.Rules) (Page, []Block, error) {
	base, err := url.Parse(pageURL)
	if err != nil {
		return Page{}, nil, fmt.Errorf("page %.200q: %w", pageURL, err)
	}
	src, err := io.ReadAll(io.LimitReader(r, MaxHTML+1))
	if err == nil && len(src) > MaxHTML {
		err = limit("more than %d octets of HTML", MaxHTML)
	}
	if err != nil {
		return Page{}, nil, fmt.Errorf("page %s: %w", pageURL, err)
	}
	encoding, _, _ := charset.DetermineEncoding(src[:min(len(src), 1024)], contentType)
	root, err := html.Parse(encoding.NewDecoder().Reader(bytes.NewReader(src)))
	if err != nil {
		return Page{}, nil, fmt.Errorf("page %s: %w", pageURL, err)
	}
	if rules == nil {
		d := site.DefaultRules()
		rules = &d
	}
	h := &htmlReader{base: base, rules: rules, page: Page{URL: pageURL, Modified: modified}}
	h.children(root)
	h.flush()
	if h.noindex {
		return Page{}, nil, fmt.Errorf("page %s: %w", pageURL, ErrNotOffered)
	}
	if len(h.blocks) == 0 {
		h.blocks = []Block{&Text{}}
	}
	p := &h.page
	if p.Title == "" {
		p.Title = h.h1
	}
	if p.Title == "" {
		p.Title = p.standInTitle()
	}
	return *p, fit(h.blocks), nil
}

// An htmlReader turns a tree into blocks.
type htmlReader struct {
	base    *url.URL
	rules   *site.Rules
	page    Page
	blocks  []Block
	h1      string
	noindex bool

	// line is the paragraph that is being gathered; link is the target of the
	// only link in it, unless mixed says that there is more.
	line  strings.Builder
	link  string
	rel   []string
	mixed bool
}

func (h *htmlReader) children(n *html.Node) {
	lines := hasClass(n, h.rules.Lines)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if lines {
			h.line.WriteByte('\n')
		}
		h.node(c)
	}
}

// flush ends the paragraph.
func (h *htmlReader) flush() {
	text := collapse(h.line.String())
	switch {
	case text == "":
	case h.link != "" && !h.mixed:
		h.blocks = append(h.blocks, &Link{h.link, text, h.rel})
	default:
		h.blocks = append(h.blocks, &Text{text})
	}
	h.line.Reset()
	h.link, h.rel, h.mixed = "", nil, false
}

func (h *htmlReader) add(b Block) {
	h.flush()
	h.blocks = append(h.blocks, b)
}

// node reads one node, and what is below it. The parser bounds the depth.
func (h *htmlReader) node(n *html.Node) {
	if n.Type == html.TextNode {
		h.mixed = h.mixed || strings.TrimSpace(n.Data) != ""
		h.line.WriteString(oneSpaced.Replace(n.Data))
		return
	}
	if n.Type != html.ElementNode {
		h.children(n)
		return
	}
	if h.head(n) || h.dropped(n) {
		return
	}
	switch n.DataAtom {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		text := strings.ReplaceAll(h.text(n), "\n", " ")
		if n.DataAtom == atom.H1 && h.h1 == "" {
			h.h1 = text
		}
		if text != "" {
			h.add(&Heading{int(n.Data[1] - '0'), text})
		}
		h.media(n)
	case atom.Ul, atom.Ol, atom.Menu, atom.Dir:
		if items := h.items(n, nil); len(items) > 0 {
			h.add(&List{n.DataAtom == atom.Ol, items})
		}
		h.media(n)
	case atom.Pre, atom.Listing, atom.Xmp:
		if code := strings.Trim(verbatim(n), "\r\n"); strings.TrimSpace(code) != "" {
			h.add(&Code{codeLanguage(n), code})
		}
	case atom.Table:
		if rows := h.rows(n, nil); len(rows) > 0 {
			h.add(&Table{rows})
		}
		h.media(n)
	case atom.Blockquote:
		if text := h.text(n); text != "" {
			h.add(&Quote{text, attr(n, "cite")})
		}
		h.media(n)
	case atom.Img, atom.Video, atom.Audio:
		h.medium(n)
	case atom.A:
		h.anchor(n)
	case atom.Br:
		h.line.WriteString("\n")
	default:
		if isBlock[n.DataAtom] {
			h.flush()
			h.children(n)
			h.flush()
			return
		}
		h.children(n)
	}
}

// anchor notes a link's target, and reads its text.
func (h *htmlReader) anchor(n *html.Node) {
	target := h.resolve(attr(n, "href"))
	alone := target != "" && !h.mixed && h.link == ""
	h.children(n)
	if alone {
		h.link, h.rel, h.mixed = target, strings.Fields(attr(n, "rel")), false
		if len(h.rel) == 0 {
			h.rel = nil
		}
	}
}

// resolve makes a URL absolute; "" for what is neither http nor https.
func (h *htmlReader) resolve(ref string) string {
	u, err := h.base.Parse(strings.TrimSpace(ref))
	if ref == "" || err != nil {
		return ""
	}
	s, err := content.CanonicalURL(u.String())
	if err != nil {
		return ""
	}
	return s
}

// media adds the images and media below a node whose text was taken whole.
func (h *htmlReader) media(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && !h.dropped(c) {
			if isElement(c, atom.Img, atom.Video, atom.Audio) {
				h.medium(c)
			}
			h.media(c)
		}
	}
}

func (h *htmlReader) medium(n *html.Node) {
	if n.DataAtom == atom.Img {
		if u := h.resolve(attr(n, "src")); u != "" {
			h.add(&Image{u, oneLine(attr(n, "alt"))})
		}
		return
	}
	urls := h.sources(n)
	if urls.One == "" && len(urls.Many) == 0 {
		h.children(n)
		return
	}
	name := oneLine(attr(n, "title"))
	if name == "" {
		name = oneLine(attr(n, "aria-label"))
	}
	m := Media{Name: name, URL: urls}
	if n.DataAtom == atom.Audio {
		h.add(&Audio{Media: m})
		return
	}
	v := &Video{Media: m}
	if poster := h.resolve(attr(n, "poster")); poster != "" {
		v.Icon = &Icon{"Image", poster}
	}
	v.Width, v.Height = pixels(n, "width"), pixels(n, "height")
	h.add(v)
}

func pixels(n *html.Node, key string) *int64 {
	v, err := strconv.ParseInt(attr(n, key), 10, 32)
	if err != nil || v < 0 {
		return nil
	}
	return &v
}

// sources are the URLs of a medium.
func (h *htmlReader) sources(n *html.Node) URLs {
	var u URLs
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		href, kind := h.resolve(attr(c, "src")), attr(c, "type")
		if c.DataAtom == atom.Source && href != "" {
			if u.One == "" {
				u.One = href
			}
			if kind != "" {
				u.Many = append(u.Many, MediaURL{Href: href, MediaType: kind})
			}
		}
	}
	if src := h.resolve(attr(n, "src")); src != "" {
		return URLs{One: src}
	}
	if len(u.Many) > 0 {
		u.One = ""
	}
	return u
}

// head reads what a page says of itself, and reports whether n was such.
func (h *htmlReader) head(n *html.Node) bool {
	p := &h.page
	switch n.DataAtom {
	case atom.Html:
		if tag, err := language.Parse(attr(n, "lang")); err == nil && languageForm.MatchString(tag.String()) && tag != language.Und {
			p.Language = tag.String()
		}
		return false
	case atom.Title:
		if p.Title == "" && n.Namespace == "" {
			p.Title = oneLine(verbatim(n))
		}
		return true
	case atom.Link:
		if strings.EqualFold(attr(n, "rel"), "canonical") && p.Canonical == "" {
			p.Canonical = h.resolve(attr(n, "href"))
		}
		return true
	case atom.Script:
		if strings.EqualFold(attr(n, "type"), "application/ld+json") && p.schema.to == 0 {
			v := jsontext.Value(verbatim(n))
			if v.Kind() == '{' && len(v) < maxKept && v.Compact() == nil {
				p.Line, p.schema = v, span{0, uint32(len(v))}
			}
		}
		return true
	case atom.Meta:
		h.meta(strings.ToLower(attr(n, "name")+attr(n, "property")), oneLine(attr(n, "content")))
		return true
	}
	return false
}

func (h *htmlReader) meta(name, value string) {
	p := &h.page
	switch {
	case name == "description" && p.Description == "":
		p.Description = value
	case name == "author" && p.Author == "":
		p.Author = value
	case name == "article:published_time" && p.Published.IsZero():
		if t, _, ok := parseTime(value); ok {
			p.Published = t
		}
	case name == "robots":
		for part := range strings.SplitSeq(strings.ToLower(value), ",") {
			part = strings.TrimSpace(part)
			h.noindex = h.noindex || part == "noindex" || part == "none"
		}
	}
}
