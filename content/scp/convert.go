package scp

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// undetermined is written for a page whose language nobody stated: the member
// is required, and BCP 47 has a tag for that.
const undetermined = "und"

// languageForm is the schema's pattern, which is narrower than BCP 47.
var languageForm = regexp.MustCompile(`^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?(-[0-9A-Za-z]+)*$`)

// Content returns the page as every source gives it. Its payload is the line
// itself, so nothing is lost; Location and SourceHash are the caller's.
func (p *Page) Content() content.Page { return p.contentOf(p.Digest(), p.Fingerprint()) }

// contentOf is Content for who knows digest and fingerprint.
func (p *Page) contentOf(digest, fingerprint [32]byte) content.Page {
	c := content.Page{
		URL: p.URL, Format: content.FormatSCP, Payload: p.Line, Digest: digest, Fingerprint: fingerprint,
		Title: strings.TrimSpace(p.Title), Language: p.Language, Description: p.Description, Modified: p.Modified, Warnings: p.Warnings,
	}
	if c.Title == "" {
		c.Title = p.standInTitle()
		c.Warnings = append(slices.Clip(c.Warnings), fmt.Sprintf("no title: %q stands in", c.Title))
	}
	return c
}

// standInTitle is the first heading of level 1, or else the last segment of
// the URL.
func (p *Page) standInTitle() string {
	blocks, _ := p.Blocks()
	for _, b := range blocks {
		if h, ok := b.(*Heading); ok && h.Level == 1 && strings.TrimSpace(h.Text) != "" {
			return strings.TrimSpace(h.Text)
		}
	}
	return content.LastSegment(p.URL)
}

// Document turns the page into a TCT document, and says what that loses: a
// sentence each, none where nothing was there to be lost.
func (p *Page) Document() (d tct.Document, lost []string) {
	blocks, _ := p.Blocks()
	d = tct.Document{URL: p.URL, Title: p.Content().Title, Content: blocksText(blocks), Language: p.Language}
	if p.Author != "" {
		lost = append(lost, "author")
	}
	if p.Description != "" {
		lost = append(lost, "description")
	}
	if p.Canonical != "" {
		lost = append(lost, "canonical")
	}
	if p.schema.to != 0 {
		lost = append(lost, "schema")
	}
	lost = append(lost, "published and modified")
	seen := make(map[string]bool)
	for _, b := range blocks {
		s := lostOf(b)
		if s != "" && !seen[s] {
			seen[s] = true
			lost = append(lost, s)
		}
	}
	return d, lost
}

// lostOf says what of a block its text does not hold.
func lostOf(b Block) string {
	switch b.(type) {
	case *Text:
		return ""
	case *Heading:
		return "levels of headings"
	case *Link:
		return "targets of links"
	case *Image:
		return "addresses of images"
	case *List:
		return "kinds of lists"
	case *Code:
		return "languages of code"
	case *Table:
		return "cells of tables beyond their text"
	case *Quote:
		return "marks of quotes"
	case *Unknown:
		return "blocks of unknown types"
	}
	return "addresses, sizes, captions and times of video and audio"
}

// FromContent turns a page of any format that this module reads into a page
// line, and says what that loses. A page that is in this format already comes
// back byte for byte. A TCT payload has paragraphs and nothing finer, so they
// become text blocks; who holds the HTML keeps more by FromHTML.
func FromContent(c *content.Page) (line []byte, lost []string, err error) {
	switch c.Format {
	case content.FormatSCP:
		return c.Payload, nil, nil
	case content.FormatTCT:
	default:
		return nil, nil, fmt.Errorf("page %s: format %v does not turn into a page line", c.URL, c.Format)
	}
	d, err := tct.Decode(c.Payload)
	if err != nil {
		return nil, nil, fmt.Errorf("page %s: %w", c.URL, err)
	}
	p := Page{URL: c.URL, Title: c.Title, Description: c.Description, Language: c.Language, Modified: c.Modified}
	if p.Title == "" {
		p.Title = d.Title
	}
	if p.Language == "" {
		p.Language = d.Language
	}
	if p.Language != "" && !languageForm.MatchString(p.Language) {
		lost = append(lost, "language "+p.Language+", which the schema's pattern refuses")
		p.Language = ""
	}
	blocks := textBlocks(d.Content)
	if len(blocks) == 0 {
		blocks = []Block{&Text{}}
	}
	line, err = AppendPage(nil, &p, blocks)
	return line, append(lost, "members of the payload that SCP does not know"), err
}

// textBlocks makes one text of each paragraph.
func textBlocks(s string) []Block {
	var blocks []Block
	for part := range strings.SplitSeq(s, "\n\n") {
		if part != "" {
			blocks = append(blocks, &Text{part})
		}
	}
	return fit(blocks)
}
