package scp

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// A Block is one of the ten types below, or Unknown.
type Block interface {
	// text returns what a reader sees or hears of it.
	text() string
}

// The types of "Content Block Types". Optional members are left out where they
// are empty; a pointer tells zero from absent.
type (
	Text struct {
		Text string `json:"text"`
	}
	Heading struct {
		Level int    `json:"level"` // 1 to 6; others are clamped when they are read
		Text  string `json:"text"`
	}
	Link struct {
		URL  string   `json:"url"`
		Text string   `json:"text"`
		Rel  []string `json:"rel,omitempty"`
	}
	Image struct {
		URL string `json:"url"`
		Alt string `json:"alt"`
	}
	List struct {
		Ordered bool     `json:"ordered"`
		Items   []string `json:"items"`
	}
	Code struct {
		Language string `json:"language,omitzero"`
		Code     string `json:"code"`
	}
	Table struct {
		Rows [][]string `json:"rows"`
	}
	Quote struct {
		Text     string `json:"text"`
		Citation string `json:"citation,omitzero"`
	}
	Video struct {
		Media
		Width    *int64    `json:"width,omitzero"`
		Height   *int64    `json:"height,omitzero"`
		Captions []Caption `json:"captions,omitempty"`
	}
	Audio struct {
		Media
		AttributedTo Name `json:"attributedTo,omitzero"`
		PartOf       Name `json:"partOf,omitzero"`
	}
)

// An Unknown is a block of another type, or one that lacks what its type
// requires; Why says which. Raw is the block, byte for byte.
type Unknown struct {
	Raw []byte
	Why string
}

// Media is what video and audio have in common.
type Media struct {
	Name       string    `json:"name"`
	URL        URLs      `json:"url"`
	Duration   string    `json:"duration,omitzero"`
	Icon       *Icon     `json:"icon,omitzero"`
	Summary    string    `json:"summary,omitzero"`
	Chapters   []Chapter `json:"chapters,omitempty"`
	Transcript string    `json:"transcript,omitzero"`
}

// URLs is one URL, written as a string, or several with their media types.
type URLs struct {
	One  string
	Many []MediaURL
}

// A MediaURL is one form of a medium.
type MediaURL struct {
	Href      string `json:"href"`
	MediaType string `json:"mediaType"`
	Rel       string `json:"rel,omitzero"`
}

// The smaller parts of media.
type (
	Icon struct {
		Type string `json:"type,omitzero"`
		URL  string `json:"url,omitzero"`
	}
	Caption struct {
		Language string `json:"language"`
		URL      string `json:"url"`
		Label    string `json:"label"`
	}
	Chapter struct {
		Time  int64  `json:"time"` // seconds
		Title string `json:"title"`
	}
)

// A Name is a string, which the schema wants, or the name of an ActivityStreams
// object, which the prose allows. It is written as a string.
type Name string

// UnmarshalJSON reads either form.
func (n *Name) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() == '"' {
		return json.Unmarshal(b, (*string)(n))
	}
	var o struct {
		Name string `json:"name"`
	}
	err := json.Unmarshal(b, &o)
	*n = Name(o.Name)
	return err
}

// UnmarshalJSON reads either form.
func (u *URLs) UnmarshalJSON(b []byte) error {
	if jsontext.Value(b).Kind() == '"' {
		return json.Unmarshal(b, &u.One)
	}
	if err := json.Unmarshal(b, &u.Many); err != nil {
		return err
	}
	if len(u.Many) == 0 {
		return errors.New("no URL in the list")
	}
	for _, m := range u.Many {
		if m.Href == "" || m.MediaType == "" {
			return errors.New("a URL without href or mediaType")
		}
	}
	return nil
}

// MarshalJSON writes the form that u is in.
func (u URLs) MarshalJSON() ([]byte, error) {
	if len(u.Many) == 0 {
		return json.Marshal(u.One)
	}
	return json.Marshal(u.Many)
}

// blockTypes names the ten types, and what each requires.
var blockTypes = map[string][]string{
	"text": {"text"}, "heading": {"level", "text"}, "link": {"url", "text"}, "image": {"url", "alt"},
	"list": {"ordered", "items"}, "code": {"code"}, "table": {"rows"}, "quote": {"text"},
	"video": {"name", "url"}, "audio": {"name", "url"},
}

func isBlockType(name []byte) bool {
	_, ok := blockTypes[string(name)]
	return ok
}

// newBlock returns an empty block of a type that is known.
func newBlock(name string) Block {
	switch name {
	case "text":
		return new(Text)
	case "heading":
		return new(Heading)
	case "link":
		return new(Link)
	case "image":
		return new(Image)
	case "list":
		return new(List)
	case "code":
		return new(Code)
	case "table":
		return new(Table)
	case "quote":
		return new(Quote)
	case "video":
		return new(Video)
	}
	return new(Audio)
}

// duration is the schema's pattern; that at least one part follows PT, which
// it says by looking ahead, is seen to beside it.
var duration = regexp.MustCompile(`^PT(\d+H)?(\d+M)?(\d+(\.\d+)?S)?$`)

func isDuration(s string) bool { return len(s) > len("PT") && duration.MatchString(s) }

// Blocks reads the page's blocks. Those that cannot be read come as *Unknown.
// URLs that are neither http nor https are taken out, and levels of headings
// are clamped; the warnings tell. It holds all blocks of the page at once.
func (p *Page) Blocks() (blocks []Block, warnings []string) {
	warn := func(format string, args ...any) {
		if len(warnings) < maxWarnings {
			warnings = append(warnings, fmt.Sprintf(format, args...))
		}
	}
	for raw := range elements(p.content.of(p.Line)) {
		b := readBlock(raw)
		if u, ok := b.(*Unknown); ok {
			warn("block: %s", u.Why)
		}
		sanitise(b, warn)
		blocks = append(blocks, b)
	}
	return blocks, warnings
}

// elements yields the values of an array that was checked.
func elements(array []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		w := newWalker()
		w.reset(array)
		if _, err := w.dec.ReadToken(); err != nil {
			return
		}
		for w.dec.PeekKind() != ']' && w.dec.PeekKind() != 0 {
			raw, err := w.dec.ReadValue()
			if err != nil || !yield(raw) {
				return
			}
		}
	}
}

// readBlock reads one block.
func readBlock(raw []byte) Block {
	unknown := func(why string, args ...any) Block {
		return &Unknown{slices.Clone(raw), fmt.Sprintf(why, args...)}
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return unknown("no object with a type")
	}
	required, ok := blockTypes[head.Type]
	if !ok {
		return unknown("unknown type %.60q", head.Type)
	}
	missing := slices.Clone(required)
	w := newWalker()
	if err := w.object(raw, func(name []byte, _ int) error {
		if w.dec.PeekKind() != 'n' {
			key := string(name)
			missing = slices.DeleteFunc(missing, func(s string) bool { return s == key })
		}
		return w.skip()
	}); err != nil || len(missing) > 0 {
		return unknown("a %s without %s", head.Type, strings.Join(missing, " and "))
	}
	if head.Type == "heading" {
		raw = withPlainLevel(raw)
	}
	b := newBlock(head.Type)
	if err := json.Unmarshal(raw, b); err != nil {
		return unknown("a %s with a member of the wrong kind", head.Type)
	}
	return b
}

// withPlainLevel clamps a heading's level where it is a number beyond int64.
func withPlainLevel(raw []byte) []byte {
	var h map[string]jsontext.Value
	if json.Unmarshal(raw, &h) != nil || h["level"].Kind() != '0' {
		return raw
	}
	var f float64
	if json.Unmarshal(h["level"], &f) != nil || f != math.Trunc(f) {
		return raw
	}
	h["level"] = jsontext.Value(fmt.Sprint(int(min(max(f, 1), 6))))
	if b, err := json.Marshal(h); err == nil {
		return b
	}
	return raw
}

// sanitise takes out of a block what must not reach whoever follows a URL or
// shows a heading.
func sanitise(b Block, warn func(string, ...any)) {
	clean := func(u *string) {
		if *u == "" {
			return
		}
		if _, err := content.CanonicalURL(*u); err != nil {
			warn("block: %v", err)
			*u = ""
		}
	}
	media := func(m *Media) {
		clean(&m.URL.One)
		for i := range m.URL.Many {
			clean(&m.URL.Many[i].Href)
		}
		if m.Icon != nil {
			clean(&m.Icon.URL)
		}
		if m.Duration != "" && !isDuration(m.Duration) {
			warn("block: duration %.40q", m.Duration)
			m.Duration = ""
		}
	}
	switch b := b.(type) {
	case *Heading:
		if b.Level < 1 || b.Level > 6 {
			warn("block: heading of level %d", b.Level)
			b.Level = min(max(b.Level, 1), 6)
		}
	case *Link:
		clean(&b.URL)
	case *Image:
		clean(&b.URL)
	case *Video:
		media(&b.Media)
		for i := range b.Captions {
			clean(&b.Captions[i].URL)
		}
	case *Audio:
		media(&b.Media)
	}
}
