package arc

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// A snapshot is an ai_snapshot as it is written here. The text gives an example
// and no schema; of that, page and title are kept.
type snapshot struct {
	Page     string    `json:"page"`
	Title    string    `json:"title"`
	Language string    `json:"language,omitzero"`
	Content  string    `json:"content"`
	Elements []element `json:"elements,omitzero"`
}

// An element is one of a page's HTML that has data-ai- attributes.
type element struct {
	Element string            `json:"element"`
	Data    map[string]string `json:"data"` // names without data-ai-
}

// Bounds of what is read of data-ai- attributes.
const (
	maxElements     = 1000
	maxElementsData = 64 << 10 // octets, names and values of all elements
)

// A markup is what the data-ai- attributes of a page say.
type markup struct {
	Elements         []element
	Summary          string
	Tags             []string
	Closed           bool // data-ai-indexable says false
	Truncated        bool
	attributesOctets int
}

// readMarkup reads the data-ai- attributes of a page, which is in UTF-8. Those of
// html and body that are named as members of an entry speak for the page.
func readMarkup(page []byte) (m markup) {
	if !bytes.Contains(bytes.ToLower(page), []byte("data-ai-")) {
		return m
	}
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return m
		case html.StartTagToken, html.SelfClosingTagToken:
			if name, more := z.TagName(); more {
				m.take(string(name), z)
			}
		}
	}
}

func (m *markup) take(name string, z *html.Tokenizer) {
	e := element{Element: name}
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		attribute, ok := bytes.CutPrefix(key, []byte("data-ai-"))
		if !ok || len(attribute) == 0 || !utf8.Valid(attribute) || !utf8.Valid(value) {
			continue
		}
		if m.attributesOctets += len(attribute) + len(value); m.attributesOctets > maxElementsData || len(m.Elements) >= maxElements {
			m.Truncated = true
			return
		}
		if e.Data == nil {
			e.Data = make(map[string]string)
		}
		if _, twice := e.Data[string(attribute)]; !twice {
			e.Data[string(attribute)] = string(value)
		}
	}
	if e.Data == nil {
		return
	}
	m.Elements = append(m.Elements, e)
	if name != "html" && name != "body" && name != "main" {
		return
	}
	if m.Summary == "" {
		m.Summary = strings.Join(strings.Fields(e.Data["summary"]), " ")
	}
	for tag := range strings.SplitSeq(e.Data["tags"], ",") {
		if tag = strings.TrimSpace(tag); tag != "" {
			m.Tags = append(m.Tags, tag)
		}
	}
	m.Closed = m.Closed || strings.EqualFold(strings.TrimSpace(e.Data["indexable"]), "false")
}

// said is what a snapshot of whatever shape says in words: its title and language
// if it names them, and its text.
func said(v jsontext.Value) (title, language, words string) {
	var s struct {
		Title    jsontext.Value `json:"title"`
		Language jsontext.Value `json:"language"`
		Content  jsontext.Value `json:"content"`
	}
	if len(v) == 0 || json.Unmarshal(v, &s) != nil {
		return "", "", ""
	}
	title, language = strings.TrimSpace(stringOf(s.Title)), stringOf(s.Language)
	if s.Content.Kind() == '"' {
		return title, language, stringOf(s.Content)
	}
	return title, language, valuesOf(v)
}

// valuesOf joins the strings of a snapshot that has no content, in its order and
// a line each; names of members are not among them.
func valuesOf(v jsontext.Value) string {
	var b strings.Builder
	d := jsontext.NewDecoder(bytes.NewReader(v))
	for {
		kind, done := d.StackIndex(d.StackDepth())
		isName := kind == '{' && done%2 == 0
		t, err := d.ReadToken()
		if err != nil {
			return b.String()
		}
		if t.Kind() == '"' && !isName && t.String() != "" {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(t.String())
		}
	}
}

// FromContent turns a page into the line of an entry, and says what that loses.
// A page that is one already keeps its members, with the time of p. What is in
// TCT gets a snapshot with its text, unless that is left out; the summary is the
// page's description, or else its first words.
func FromContent(p *content.Page, withSnapshot bool) (line []byte, lost []string, err error) {
	if p.Format == content.FormatARC {
		return p.Payload, nil, nil
	}
	if p.Format != content.FormatTCT {
		return nil, nil, fmt.Errorf("page %s: format %v does not turn into an entry", p.URL, p.Format)
	}
	d, err := tct.Decode(p.Payload)
	if err != nil {
		return nil, nil, fmt.Errorf("page %s: %w", p.URL, err)
	}
	members := map[string]any{"url": p.URL, "ai_indexable": true}
	if !p.Modified.IsZero() {
		members["lastmod"] = formatTime(p.Modified)
	}
	if p.HTMLChecksum != [32]byte{} {
		members["ai_checksum"] = FormatChecksum(p.HTMLChecksum)
	} else {
		lost = append(lost, "no checksum: the source holds no HTML")
	}
	if summary := summaryOf(p.Description, d.Content); summary != "" {
		members["ai_summary"] = summary
	}
	s := snapshot{Page: content.LastSegment(p.URL), Title: p.Title, Language: p.Language, Content: d.Content}
	if withSnapshot && len(d.Content) <= MaxEntry/2 {
		members["ai_snapshot"] = s
	} else {
		lost = append(lost, "text, title and language, which agents read from the page itself")
	}
	line, err = canonicalObject(members)
	if err == nil && len(line) > MaxEntry {
		delete(members, "ai_snapshot")
		line, err = canonicalObject(members)
	}
	return line, lost, err
}

// maxSummary is how long a summary made of a page's first words gets, in octets.
const maxSummary = 240

// summaryOf is a description, or the first words of a text.
func summaryOf(description, text string) string {
	s := strings.Join(strings.Fields(description), " ")
	if s != "" {
		return s
	}
	s = strings.Join(strings.Fields(text[:min(len(text), 8*maxSummary)]), " ")
	s = strings.ToValidUTF8(s, "")
	if len(s) <= maxSummary {
		return s
	}
	s = strings.ToValidUTF8(s[:maxSummary], "")
	if at := strings.LastIndexByte(s, ' '); at > maxSummary/2 {
		s = s[:at]
	}
	return s + "…"
}

// Document turns an entry into a TCT document, and says what that loses.
func (e *Entry) Document() (d tct.Document, lost []string) {
	title, lang, words := said(e.Snapshot)
	d = tct.Document{URL: e.URL, Title: title, Content: words}
	if d.Title == "" {
		d.Title = content.LastSegment(e.URL)
	}
	d.Language, _ = content.Language(lang)
	if words == "" {
		d.Content = e.Summary
	}
	members, err := shallow(e.Line)
	if err != nil {
		return d, []string{"all but the text"}
	}
	for name := range sorted(members) {
		switch name {
		case "url", "ai_indexable":
		case "ai_snapshot":
			lost = append(lost, "what ai_snapshot holds beside title and text")
		default:
			lost = append(lost, fmt.Sprintf("%.60s", name))
		}
	}
	return d, lost
}
