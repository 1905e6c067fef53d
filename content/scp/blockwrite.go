package scp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// typeName returns the type member of b.
func typeName(b Block) string {
	switch b.(type) {
	case *Text:
		return "text"
	case *Heading:
		return "heading"
	case *Link:
		return "link"
	case *Image:
		return "image"
	case *List:
		return "list"
	case *Code:
		return "code"
	case *Table:
		return "table"
	case *Quote:
		return "quote"
	case *Video:
		return "video"
	case *Audio:
		return "audio"
	}
	return ""
}

// appendBlock appends b as the schema wants it, or says why it cannot be
// written. An Unknown is written as it was read.
func appendBlock(dst []byte, b Block) ([]byte, error) {
	if u, ok := b.(*Unknown); ok {
		v := jsontext.Value(u.Raw)
		if v.Kind() != '{' || !v.IsValid(jsontext.AllowDuplicateNames(true)) || strings.ContainsAny(string(u.Raw), "\r\n") {
			return dst, errors.New("an unknown block that is no object on one line")
		}
		return append(dst, u.Raw...), nil
	}
	if err := validBlock(b); err != nil {
		return dst, fmt.Errorf("%s block: %w", typeName(b), err)
	}
	v, err := json.Marshal(b, json.FormatNilSliceAsNull(false))
	if err != nil {
		return dst, fmt.Errorf("%s block: %w", typeName(b), err)
	}
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typeName(b)...)
	dst = append(dst, `",`...)
	return append(dst, v[1:]...), nil
}

// validBlock says what the schema refuses in b.
func validBlock(b Block) error {
	var problems []string
	sanitise(b, func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) })
	empty := func(u string) {
		if u == "" {
			problems = append(problems, "no URL")
		}
	}
	media := func(m *Media) {
		if len(m.URL.Many) == 0 {
			empty(m.URL.One)
		}
		for _, u := range m.URL.Many {
			empty(u.Href)
		}
		if m.Icon != nil && m.Icon.Type != "" && m.Icon.Type != "Image" {
			problems = append(problems, "icon is no Image")
		}
		for _, c := range m.Chapters {
			if c.Time < 0 {
				problems = append(problems, "chapter before the start")
			}
		}
	}
	switch b := b.(type) {
	case *Link:
		empty(b.URL)
	case *Image:
		empty(b.URL)
	case *Video:
		media(&b.Media)
		if b.Width != nil && *b.Width < 0 || b.Height != nil && *b.Height < 0 {
			problems = append(problems, "negative size")
		}
	case *Audio:
		media(&b.Media)
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// AppendPage appends p and its blocks as one line of this package's own form,
// without a line feed: members in the order of the seed's example, blocks with
// their type first. p.Line is not looked at, but for its schema member, which
// is carried over. Where the page has no language, "und" is written.
func AppendPage(dst []byte, p *Page, blocks []Block) ([]byte, error) {
	if err := content.IsCanonical(p.URL); err != nil {
		return dst, fmt.Errorf("SCP page: %w", err)
	}
	tag := p.Language
	if tag == "" {
		tag = undetermined
	}
	if !languageForm.MatchString(tag) {
		return dst, fmt.Errorf("SCP page %s: language %.40q", p.URL, tag)
	}
	if p.Modified.IsZero() || !inRange(p.Modified) {
		return dst, fmt.Errorf("SCP page %s: no time of modification", p.URL)
	}
	if len(blocks) == 0 || len(blocks) > MaxBlocks {
		return dst, fmt.Errorf("SCP page %s: %d blocks; 1 to %d", p.URL, len(blocks), MaxBlocks)
	}
	start, err := len(dst), error(nil)
	add := func(m member, value string) {
		if err == nil {
			dst = append(append(append(dst, ",\""...), memberNames[m]...), "\":"...)
			dst, err = jsontext.AppendQuote(dst, value)
		}
	}
	add(mURL, p.URL)
	dst[start] = '{'
	add(mTitle, p.Title)
	add(mDescription, p.Description)
	if p.Author != "" {
		add(mAuthor, p.Author)
	}
	if !p.Published.IsZero() {
		add(mPublished, formatTime(p.Published))
	}
	add(mModified, formatTime(p.Modified))
	add(mLanguage, tag)
	if p.Canonical != "" {
		add(mCanonical, p.Canonical)
	}
	if err != nil {
		return dst[:start], fmt.Errorf("SCP page %s: %w", p.URL, err)
	}
	if p.schema.to != 0 {
		dst = append(append(dst, `,"schema":`...), p.schema.of(p.Line)...)
	}
	dst = append(dst, `,"content":[`...)
	for i, b := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendBlock(dst, b); err != nil {
			return dst[:start], fmt.Errorf("SCP page %s: %w", p.URL, err)
		}
	}
	dst = append(dst, "]}"...)
	if len(dst)-start > MaxPage {
		return dst[:start], limit("page %s: more than %d octets", p.URL, MaxPage)
	}
	return dst, nil
}
