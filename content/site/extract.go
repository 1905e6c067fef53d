package site

import (
	"bytes"
	"html"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// maxDepth is how many elements may be open at once; more are flattened, as
// browsers do.
const maxDepth = 512

// An extractor turns one page's HTML after another into text. It reads each
// page once, front to back, without a tree and without recursion, and holds no
// more than the text that it returns and maxDepth open elements.
//
// TestExtractionAgreesWithATree shows that it finds the words that the same
// rules find in the tree of golang.org/x/net/html.
type extractor struct {
	rules *ruleSet

	lex  lexer
	body writer
	aux  writer // for what stands in an attribute or a raw element

	// stack holds the open elements that matter: all but inline ones, and
	// below the element that is being dropped, or in a drawing, all. open
	// counts them by id.
	stack []frame
	open  [elementCount]uint16

	dropAt int // place in stack of the element being dropped, or -1
	h1At   int // place in stack of the first h1, or -1
	lines  int // how many of stack have their children on lines of their own

	found found
}

// found is what the extraction finds beside the text.
type found struct {
	title, h1, lang, description string
	hasTitle, hasHTML            bool
	robots                       []string // lower case
	stated                       preferences.Statement
	flattened                    bool
}

// A frame is an open element.
type frame struct {
	*element
	name    []byte // as it is written
	around  gap    // on its two sides
	from    int    // where its text starts in body.out
	lines   bool   // has its children on lines of their own
	foreign bool   // stands in svg or math
	holds   bool   // foreign, and holds HTML
}

// extract returns the text of a page, valid until the next call, and what else
// it found. src must be UTF-8 and is not changed.
func (x *extractor) extract(src []byte) (content []byte, f found) {
	x.lex = lexer{src: src}
	x.body.reset()
	x.stack = x.stack[:0]
	clear(x.open[:])
	x.dropAt, x.h1At, x.lines, x.found = -1, -1, 0, found{}
	for {
		switch x.lex.next() {
		case text:
			if x.dropAt < 0 {
				x.body.reference(x.lex.text, x.verbatim())
			}
		case startTag:
			x.start()
		case endTag:
			x.end()
		case endOfFile:
			x.popTo(0)
			return x.body.out, x.found
		}
	}
}

func (x *extractor) verbatim() bool {
	return x.open[elemPre.id]+x.open[elemListing.id] > 0
}

// inForeign reports whether the next tag stands in svg or math.
func (x *extractor) inForeign() bool {
	n := len(x.stack)
	return n > 0 && x.stack[n-1].foreign && !x.stack[n-1].holds
}

func (x *extractor) start() {
	name := x.lex.name
	if x.inForeign() {
		if !breakouts[string(name)] {
			x.startForeign()
			return
		}
		for x.inForeign() {
			x.popTo(len(x.stack) - 1)
		}
	}
	e := lookup(name)
	switch e {
	case elemHTML:
		if !x.found.hasHTML {
			x.found.hasHTML, x.found.lang = true, string(x.lex.attrs.lang)
		}
		return
	case elemHead, elemBody:
		return
	case elemMeta:
		x.meta()
		return
	case elemSVG, elemMath:
		x.startForeign()
		return
	}
	if e == elemSelect && x.popTo(x.find(e, scope)) {
		return // a second start tag ends the first
	}
	x.endImplied(e)
	if e.is(raw) {
		x.startRaw(e)
		return
	}
	f := frame{element: e, name: x.lex.written, around: e.gap}
	drop := e.is(dropped)
	if x.dropAt < 0 {
		v := x.rules.judge(&x.lex.attrs)
		drop = drop || v&navigation != 0
		f.lines = v&lines != 0
		if n := len(x.stack); n > 0 && x.stack[n-1].lines {
			f.around = max(f.around, line)
		}
		if f.around == cell {
			x.body.startCell()
		} else {
			x.body.separate(f.around)
		}
	}
	if !e.is(void) && (drop || f.lines || e.is(block) || e.gap != joined || x.tracks(&f)) {
		x.push(f, drop)
	}
}

// tracks reports whether it matters where an inline element ends: only if it
// has the name of one that is being dropped, or lines of names stand open.
func (x *extractor) tracks(f *frame) bool {
	if x.dropAt >= 0 {
		return x.stack[x.dropAt].same(f)
	}
	return x.lines > 0
}

// same reports whether two elements of HTML have one name.
func (f *frame) same(g *frame) bool {
	return f.element == g.element && !f.foreign && !g.foreign && (f.element != unknown || sameName(f.name, g.name))
}

// startRaw reads the content of an element that holds only text. Its end tag,
// if it has one, finds nothing to end.
func (x *extractor) startRaw(e *element) {
	content := x.lex.rawText(e.name)
	if x.dropAt >= 0 {
		return
	}
	if e == elemTitle && !x.found.hasTitle {
		x.found.hasTitle, x.found.title = true, x.oneLine(content)
	}
	x.body.separate(e.gap)
	if !e.is(dropped) {
		x.body.plain(content, true)
		x.body.separate(e.gap)
	}
}

func (x *extractor) startForeign() {
	name := string(x.lex.name)
	f := frame{element: unknown, name: x.lex.written, foreign: true}
	inside := x.inForeign()
	if !inside {
		f.element = elements[name]
	}
	if name == "svg" || name == "text" {
		f.around = spaced
	}
	drop := inside && foreignDropped[name]
	if x.dropAt < 0 {
		drop = drop || x.rules.judge(&x.lex.attrs)&navigation != 0
		x.body.separate(f.around)
	}
	if !x.lex.selfClosing {
		f.holds = inside && integrationPoints[name]
		x.push(f, drop)
	}
}

// endImplied ends what the start of e ends.
func (x *extractor) endImplied(e *element) {
	switch {
	case e.rank > 1:
		// Rows and cells end those before them, back to what may hold them.
		if table := x.find(elemTable, tableScope); table >= 0 {
			i := len(x.stack) - 1
			for i > table && (x.stack[i].rank == 0 || x.stack[i].rank >= e.rank) {
				i--
			}
			x.popTo(i + 1)
		}
	case e == elemLi:
		x.endItem(elemLi, elemLi)
	case e == elemDd || e == elemDt:
		x.endItem(elemDd, elemDt)
	case e == elemA || e == elemButton:
		x.popTo(x.find(e, scope))
	case e == elemInput:
		x.popTo(x.find(elemSelect, scope))
	case e == elemOption && len(x.stack) > 0 && x.stack[len(x.stack)-1].element == elemOption:
		x.popTo(len(x.stack) - 1)
	}
	if e.is(endsP) {
		x.popTo(x.find(elemP, scope|buttonScope))
	}
	if n := len(x.stack); e.is(heading) && n > 0 && x.stack[n-1].is(heading) {
		x.popTo(n - 1)
	}
}

// endItem ends an open list item, if only inline elements and transparent
// blocks stand open in it.
func (x *extractor) endItem(e1, e2 *element) {
	if x.open[e1.id]+x.open[e2.id] == 0 {
		return
	}
	for i := len(x.stack) - 1; i >= 0; i-- {
		switch f := &x.stack[i]; {
		case f.element == e1 || f.element == e2:
			x.popTo(i)
			return
		case f.is(block) && !f.is(transparent) || f.holds:
			return
		}
	}
}

func (x *extractor) end() {
	if x.endForeign() {
		return
	}
	e := lookup(x.lex.name)
	f := frame{element: e, name: x.lex.written}
	if !e.is(block) && e.gap == joined && !x.tracks(&f) {
		return // it is not on the stack
	}
	ended := false
	switch {
	case e == elemP:
		ended = x.popTo(x.find(e, scope|buttonScope))
	case e == elemLi:
		ended = x.popTo(x.find(e, scope|listScope))
	case e.rank > 0:
		ended = x.popTo(x.find(e, tableScope))
	case e == elemTemplate:
		ended = x.popTo(x.find(e, 0))
	case e.is(block):
		ended = x.popTo(x.find(e, scope))
	default:
		ended = x.endInline(&f)
	}
	if !ended && x.dropAt < 0 {
		x.body.separate(e.gap) // it ends nothing, and yet no word runs across it
	}
}

// endInline ends an inline element, if no block stands open in it.
func (x *extractor) endInline(f *frame) bool {
	for i := len(x.stack) - 1; i >= 0; i-- {
		switch g := &x.stack[i]; {
		case g.same(f):
			return x.popTo(i)
		case g.is(block) || g.holds:
			return false
		}
	}
	return false
}

// endForeign ends an element of the drawing or formula that we stand right in,
// and reports whether the tag was one's.
func (x *extractor) endForeign() bool {
	for i := len(x.stack) - 1; i >= 0 && x.stack[i].foreign; i-- {
		if sameName(x.stack[i].name, x.lex.written) {
			x.popTo(i)
			return true
		}
	}
	return false
}

// find returns the place of the innermost open e from which no element of the
// given scopes separates us, or -1. HTML in a drawing is a scope of all kinds
// but that of tables. Any heading stands for any other.
func (x *extractor) find(e *element, scopes traits) int {
	if x.open[e.id] == 0 && !e.is(heading) {
		return -1
	}
	for i := len(x.stack) - 1; i >= 0; i-- {
		f := &x.stack[i]
		switch {
		case !f.foreign && (f.element == e || e.is(heading) && f.is(heading)):
			return i
		case f.is(scopes) || f.holds && scopes&^tableScope != 0:
			return -1
		}
	}
	return -1
}

func (x *extractor) push(f frame, drop bool) {
	if len(x.stack) == maxDepth {
		x.found.flattened = true
		if x.dropAt >= 0 {
			return
		}
		x.popTo(maxDepth - 1)
	}
	x.open[f.id]++
	if f.lines {
		x.lines++
	}
	f.from = len(x.body.out)
	x.stack = append(x.stack, f)
	switch {
	case x.dropAt >= 0:
	case drop:
		x.dropAt = len(x.stack) - 1
	case f.element == elemH1 && x.h1At < 0 && x.found.h1 == "":
		x.h1At = len(x.stack) - 1
	}
}

// popTo ends the elements from place i on, and reports whether it was asked to
// end any: a negative i ends none.
func (x *extractor) popTo(i int) bool {
	if i < 0 {
		return false
	}
	for n := len(x.stack) - 1; n >= i; n-- {
		f := &x.stack[n]
		x.open[f.id]--
		if f.lines {
			x.lines--
		}
		switch {
		case x.dropAt == n:
			x.dropAt = -1
		case x.h1At == n:
			x.h1At = -1
			x.found.h1 = strings.Join(strings.Fields(string(x.body.out[f.from:])), " ")
		}
		if x.dropAt < 0 {
			if f.around == cell {
				x.body.endCell(len(x.body.out) == f.from)
			} else {
				x.body.separate(f.around)
			}
		}
		x.stack = x.stack[:n]
	}
	return true
}

// meta reads what a page says of itself.
func (x *extractor) meta() {
	switch name := string(bytes.ToLower(x.lex.attrs.name)); {
	case name == "description" && x.found.description == "":
		x.found.description = x.oneLine(x.lex.attrs.content)
	case name == "robots":
		for part := range strings.SplitSeq(html.UnescapeString(string(x.lex.attrs.content)), ",") {
			if part = strings.ToLower(strings.TrimSpace(part)); part != "" {
				x.found.robots = append(x.found.robots, part)
			}
		}
	}
	for _, name := range [][]byte{x.lex.attrs.name, x.lex.attrs.httpEquiv} {
		if name := string(name); preferences.Speaks(name) {
			x.found.state(name, x.oneLine(x.lex.attrs.content))
		}
	}
}

// state reads a meta element about the use of the page.
func (f *found) state(name, value string) {
	if err := f.stated.Field(name, value, "the page"); err != nil {
		f.stated.Ignore("%v", err)
	}
}

// oneLine decodes s and collapses its white space.
func (x *extractor) oneLine(s []byte) string {
	x.aux.reset()
	x.aux.reference(s, false)
	return string(x.aux.out)
}

// sameName compares names as they are written, whatever the case of their
// letters.
func sameName(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && (a[i]|0x20 != b[i]|0x20 || !isLetter(a[i])) {
			return false
		}
	}
	return true
}
