package scp

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/language"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// Limits of a line, from "Resource Exhaustion Attacks".
const (
	MaxPage   = 100_000_000 // octets of a page
	MaxBlocks = 1000        // of a page
)

// A Page is one page of a collection as its line says it. What a line holds
// beyond these fields, the line alone keeps.
type Page struct {
	// URL is in canonical form; Line holds it as it was written.
	URL string

	Title, Description, Author string

	// Language is a BCP 47 tag; empty where the line's is none.
	Language string

	// Modified is never zero. Published is where the line names none, or one
	// that is no time.
	Published, Modified time.Time

	// Canonical is an http or https URL in canonical form, or empty.
	Canonical string

	// Line is the JSON object, byte for byte, without the line feed.
	Line []byte

	// Warnings tell what was odd.
	Warnings []string

	content, schema span
}

// A member is one of the fields that a page line may have.
type member uint8

const (
	mURL member = iota
	mTitle
	mDescription
	mModified
	mLanguage
	mContent // the last one that is required
	mAuthor
	mPublished
	mCanonical
	mSchema
	memberCount
)

var memberNames = [memberCount]string{
	"url", "title", "description", "modified", "language", "content", "author", "published", "canonical", "schema",
}

func memberOf(name []byte) member {
	for m, s := range memberNames {
		if string(name) == s {
			return member(m)
		}
	}
	return memberCount
}

// kind is what the value of m must be.
func (m member) kind() jsontext.Kind {
	switch m {
	case mContent:
		return '['
	case mSchema:
		return '{'
	}
	return '"'
}

// parts says where in a page line the values of the members stand.
type parts [memberCount]span

// readPage checks a whole page line, and returns where its members stand. An
// error here is one that the text calls fatal, or a limit.
func (w *walker) readPage(line []byte, warn func(string)) (parts, error) {
	var p parts
	w.tops = w.tops[:0]
	if len(line) > MaxPage {
		return p, limit("a page of more than %d octets", MaxPage)
	}
	read := func(m member) (err error) {
		if m == memberCount {
			return w.skip()
		}
		if p[m].to != 0 {
			return fmt.Errorf("two members %s", memberNames[m])
		}
		k := w.dec.PeekKind()
		switch {
		case m == mContent && k == '[':
			from := w.dec.InputOffset()
			err = w.blocks(warn)
			p[m] = span{uint32(from), uint32(w.dec.InputOffset())}
			return err
		case m > mContent && k != m.kind() && k != 0:
			if k != 'n' {
				warn(memberNames[m] + " is of the wrong kind, and passed over")
			}
			return w.skip()
		}
		p[m], err = w.value(memberNames[m], m.kind())
		return err
	}
	err := w.object(line, func(name []byte, at int) error {
		m, end := memberOf(name), uint32(w.dec.InputOffset())
		err := read(m)
		if len(w.tops) < maxTops {
			w.tops = append(w.tops, top{span{uint32(at), end}, span{end, uint32(w.dec.InputOffset())}})
		}
		return err
	})
	if err != nil {
		return p, err
	}
	for m := mURL; m <= mContent; m++ {
		if p[m].to == 0 {
			return p, fmt.Errorf("no %s", memberNames[m])
		}
	}
	return p, nil
}

// blocks checks a content array: each block should be an object with a known
// type, and there are at most MaxBlocks. What a block's other members hold is
// looked at by whoever asks for it.
func (w *walker) blocks(warn func(string)) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; w.dec.PeekKind() != ']'; n++ {
		if n == MaxBlocks {
			return limit("more than %d blocks", MaxBlocks)
		}
		if w.dec.PeekKind() != '{' {
			if err := w.skip(); err != nil {
				return err
			}
			warn("a block is no object")
			continue
		}
		known := false
		err := w.members(func(name []byte, _ int) error {
			if known || string(name) != "type" || w.dec.PeekKind() != '"' {
				return w.skip()
			}
			raw, err := w.dec.ReadValue()
			if err != nil {
				return err
			}
			if known = isBlockType(unquoted(raw)); !known {
				warn(fmt.Sprintf("unknown block type %.60s", raw))
				known = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !known {
			warn("a block without a type")
		}
	}
	if n == 0 {
		warn("content is empty")
	}
	_, err := w.dec.ReadToken()
	return err
}

// A builder makes pages of lines that were checked. It remembers the language
// tags that it met.
type builder struct {
	tags map[string]string
}

// maxTags bounds what a builder remembers.
const maxTags = 256

// build makes the page of a checked line. The reason is not empty where there
// is no page in it: its URL or its time is none.
func (b *builder) build(line []byte, p *parts) (page Page, reason string) {
	text := func(m member) string {
		if p[m].to == 0 {
			return ""
		}
		return string(unquoted(line[p[m].from:p[m].to]))
	}
	page.Line, page.content, page.schema = line, p[mContent], p[mSchema]
	warn := func(format string, args ...any) { page.Warnings = append(page.Warnings, fmt.Sprintf(format, args...)) }
	var err error
	raw := text(mURL)
	if page.URL, err = content.CanonicalURL(raw); err != nil {
		return page, err.Error()
	}
	var odd, ok bool
	modified := text(mModified)
	if page.Modified, odd, ok = parseTime(modified); !ok {
		return page, fmt.Sprintf("modified %.60q is no time", modified)
	}
	if odd {
		warn("modified %.60q is not of RFC 3339's form", modified)
	}
	page.Title, page.Description, page.Author = text(mTitle), text(mDescription), text(mAuthor)
	tag := text(mLanguage)
	if page.Language = b.language(tag); page.Language == "" && tag != undetermined {
		warn("%.40q is no language", tag)
	}
	if s := text(mPublished); s != "" {
		if page.Published, odd, ok = parseTime(s); odd || !ok {
			warn("published %.60q is not of RFC 3339's form", s)
		}
	}
	if s := text(mCanonical); s != "" {
		if page.Canonical, err = content.CanonicalURL(s); err != nil {
			warn("canonical: %v", err)
		}
	}
	return page, ""
}

// language returns a tag in the form of BCP 47, or "".
func (b *builder) language(s string) string {
	if tag, ok := b.tags[s]; ok {
		return tag
	}
	form := ""
	if len(s) <= 64 {
		if tag, err := language.Parse(s); err == nil && tag != language.Und {
			form = tag.String()
		}
	}
	if b.tags == nil || len(b.tags) >= maxTags {
		b.tags = make(map[string]string)
	}
	b.tags[s] = form
	return form
}

// ParsePage reads one page line. It keeps line, which must not be changed.
func ParsePage(line []byte) (Page, error) {
	page, _, err := parsePage(line)
	return page, err
}

func parsePage(line []byte) (Page, parts, error) {
	c := checked{line: line}
	c.read(newWalker(), new(builder), maxWarnings)
	switch {
	case c.err != nil:
		return Page{}, c.parts, fmt.Errorf("SCP page: %w", c.err)
	case c.skip != "":
		return Page{}, c.parts, fmt.Errorf("SCP page: %s", c.skip)
	}
	c.page.Warnings = append(c.odd, c.page.Warnings...)
	return c.page, c.parts, nil
}

// A checked is a page line with what was found in it.
type checked struct {
	line  []byte
	err   error // what the whole collection is rejected for
	parts parts
	odd   []string // about the line
	page  Page     // with what is odd about the page
	skip  string   // why there is no page in it; empty if there is

	digest, fingerprint [32]byte // if the sink has use for them
}

// read checks the line, and keeps at most so many warnings about it.
func (c *checked) read(w *walker, b *builder, warnings int) {
	c.parts, c.err = w.readPage(c.line, func(s string) {
		if len(c.odd) < warnings {
			c.odd = append(c.odd, s)
		}
	})
	if c.err == nil {
		c.page, c.skip = b.build(c.line, &c.parts)
	}
}

// Check returns nil for a payload of format SCP that may stand for url: one
// page line, without white space around it and without a line feed in it, that
// a reader of a collection would accept, whose url is url once it is put in
// canonical form.
func Check(payload []byte, url string) error {
	if bytes.IndexByte(payload, '\n') >= 0 || len(bytes.TrimSpace(payload)) != len(payload) {
		return errors.New("SCP page: not one line")
	}
	page, err := ParsePage(payload)
	if err != nil {
		return err
	}
	if page.URL != url {
		return fmt.Errorf("SCP page: url is %.200q, not %.200q", page.URL, url)
	}
	return nil
}

// Digest returns the SHA-256 of the page's line.
func (p *Page) Digest() [32]byte { return sha256.Sum256(p.Line) }

// Fingerprint returns the SHA-256 of the line's members as they stand, each
// name and value in turn, without the members modified and published: a page
// that says only another time has not changed.
func (p *Page) Fingerprint() [32]byte {
	print, err := newWalker().walkFingerprint(p.Line)
	if err != nil {
		return p.Digest() // the line was never read; it stands for itself
	}
	return print
}

// fingerprint is Page.Fingerprint of the line that readPage read last.
func (w *walker) fingerprint(line []byte) [32]byte {
	if len(w.tops) == maxTops {
		print, _ := w.walkFingerprint(line) // the line was read without an error
		return print
	}
	p := printer{h: sha256.New()}
	for _, t := range w.tops {
		p.add(unquoted(line[t.name.from:t.name.to]), line[t.value.from:t.value.to])
	}
	return p.sum()
}

// walkFingerprint is fingerprint of any line.
func (w *walker) walkFingerprint(line []byte) ([32]byte, error) {
	p := printer{h: sha256.New()}
	err := w.object(line, func(name []byte, _ int) error {
		name = bytes.Clone(name)
		from := w.dec.InputOffset()
		err := w.skip()
		if err == nil {
			p.add(name, line[from:w.dec.InputOffset()])
		}
		return err
	})
	return p.sum(), err
}

// A printer makes a fingerprint.
type printer struct {
	h      hash.Hash
	quoted []byte
}

// add takes a member, with what stands before its value.
func (p *printer) add(name, value []byte) {
	if m := memberOf(name); m == mModified || m == mPublished {
		return
	}
	p.quoted, _ = jsontext.AppendQuote(p.quoted[:0], name) // each name in one form
	p.h.Write(p.quoted)
	p.h.Write(bytes.TrimLeft(value, ": \t\r"))
	p.h.Write([]byte{'\n'})
}

func (p *printer) sum() [32]byte { return [32]byte(p.h.Sum(nil)) }

// maxWarnings bounds what is kept of one page's oddities.
const maxWarnings = 16
