package site

// A gap is what an element puts between the words on its two sides. The
// greater one wins where several meet.
type gap uint8

const (
	joined    gap = iota // nothing: the element is a part of its line's words
	spaced               // a space
	cell                 // a tab
	line                 // a line feed
	paragraph            // an empty line
)

// traits is the set of what the extraction has to know of an element.
type traits uint16

const (
	void        traits = 1 << iota // has no content and no end tag
	raw                            // its content is text up to its own end tag
	dropped                        // its content is not what a reader comes for
	verbatim                       // line breaks and indentation in it count
	block                          // no end tag of an inline element reaches out of it
	endsP                          // ends an open p
	heading                        // h1 to h6, which end one another
	transparent                    // a block that li, dd and dt look through

	// Scopes, in the standard's sense: end tags inside do not reach out.
	scope       // any end tag
	listScope   // that of li
	buttonScope // that of p, also implied
	tableScope  // that of table, rows and cells
)

// An element is an entry of the table below.
type element struct {
	name   string
	id     int // its place in a count of open elements; 0 for all unknown ones
	gap    gap
	traits traits
	rank   uint8 // 1 for table, 2 for its sections, 3 for rows, 4 for cells, 5 for its captions
}

// is reports whether e has one of the traits t.
func (e *element) is(t traits) bool { return e.traits&t != 0 }

// unknown stands for all names that are not in the table: inline, and kept.
var unknown = &element{}

// elements is the table by name, and buckets the same by length and first
// letter, which finds a name several times faster; nothing changes them. The
// rules are those of the HTML Standard (13.2.6 and 15.3) as far as they decide
// where an element ends and what its default rendering is.
var (
	elements = elementTable()
	buckets  = elementBuckets()
)

// lookup returns the entry for a lower-case name, or unknown.
func lookup(name []byte) *element {
	if len(name) < len(buckets) {
		for _, e := range buckets[len(name)][name[0]&31] {
			if string(name) == e.name {
				return e
			}
		}
	}
	return unknown
}

func elementBuckets() (b [16][32][]*element) {
	for name, e := range elements {
		b[len(name)][name[0]&31] = append(b[len(name)][name[0]&31], e)
	}
	return b
}

// elementCount is above every id.
const elementCount = 128

func elementTable() map[string]*element {
	all := make(map[string]*element, elementCount)
	add := func(g gap, t traits, names ...string) {
		for _, name := range names {
			all[name] = &element{name: name, id: len(all) + 1, gap: g, traits: t}
		}
	}
	add(paragraph, block|endsP,
		"article", "aside", "blockquote", "center", "dir", "dl", "fieldset", "figure", "footer", "form",
		"header", "hgroup", "main", "menu", "search", "section")
	add(paragraph, block|endsP|transparent, "address", "p")
	add(paragraph, block|endsP|listScope, "ol", "ul")
	add(paragraph, block|endsP|heading, "h1", "h2", "h3", "h4", "h5", "h6")
	add(paragraph, block|endsP|verbatim, "pre", "listing")
	add(paragraph, block|endsP|verbatim|raw, "xmp", "plaintext")
	add(paragraph, block|endsP|dropped, "nav")
	add(paragraph, block|endsP|void, "hr")
	add(paragraph, block|endsP|scope|buttonScope|listScope|tableScope, "table")
	add(line, block|endsP, "details", "dialog", "figcaption", "summary", "li", "dd", "dt")
	add(line, block|endsP|transparent, "div")
	add(line, block, "colgroup", "tbody", "tfoot", "thead", "tr")
	add(line, block|void, "br")
	add(line, 0, "audio", "canvas", "legend", "optgroup", "option", "video")
	add(line, block|scope|buttonScope|listScope, "applet", "caption", "marquee", "object")
	add(cell, block|scope|buttonScope|listScope, "td", "th")
	add(spaced, block|dropped|buttonScope, "button")
	add(spaced, block|dropped|scope|buttonScope|listScope, "select")
	add(spaced, block|dropped|raw, "iframe", "textarea")
	add(joined, block|dropped|raw, "noembed", "noframes", "noscript", "script", "style", "title")
	add(joined, block|dropped|scope|buttonScope|listScope|tableScope, "template")
	add(joined, dropped, "datalist", "rp")
	add(joined, block|void, "area", "base", "basefont", "bgsound", "col", "embed", "frame", "img", "input", "keygen",
		"link", "meta", "param", "source", "track", "wbr")
	add(joined, block, "body", "frameset", "head", "html")
	add(joined, 0, "a", "math", "svg")
	for rank, names := range [][]string{{"table"}, {"tbody", "tfoot", "thead"}, {"tr"}, {"td", "th"}, {"caption", "colgroup"}} {
		for _, name := range names {
			all[name].rank = uint8(rank + 1)
		}
	}
	return all
}

// The elements that a rule names.
var (
	elemA        = elements["a"]
	elemBody     = elements["body"]
	elemButton   = elements["button"]
	elemDd       = elements["dd"]
	elemDt       = elements["dt"]
	elemH1       = elements["h1"]
	elemHead     = elements["head"]
	elemHTML     = elements["html"]
	elemInput    = elements["input"]
	elemListing  = elements["listing"]
	elemPre      = elements["pre"]
	elemLi       = elements["li"]
	elemMath     = elements["math"]
	elemMeta     = elements["meta"]
	elemOption   = elements["option"]
	elemP        = elements["p"]
	elemSelect   = elements["select"]
	elemSVG      = elements["svg"]
	elemTable    = elements["table"]
	elemTemplate = elements["template"]
	elemTitle    = elements["title"]
)

// Names with a meaning of their own inside svg and math.
var (
	// foreignDropped describe the drawing or formula; they are not shown in it.
	foreignDropped = set("annotation", "annotation-xml", "desc", "metadata", "script", "style", "title")

	// integrationPoints hold HTML again.
	integrationPoints = set("annotation-xml", "desc", "foreignobject", "mi", "mn", "mo", "ms", "mtext", "title")

	// breakouts end the drawing or formula that they are found in.
	breakouts = set("b", "big", "blockquote", "body", "br", "center", "code", "dd", "div", "dl", "dt", "em", "embed",
		"h1", "h2", "h3", "h4", "h5", "h6", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ol", "p",
		"pre", "ruby", "s", "small", "span", "strong", "strike", "sub", "sup", "table", "tt", "u", "ul", "var")
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}
