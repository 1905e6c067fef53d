package preferences

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// MaxText is the greatest size of a text that is read, in octets.
const MaxText = 256 << 10

// maxLines bounds the lines of a robots.txt or header that are looked at.
const maxLines = 10_000

func checkSize(text []byte) error {
	if len(text) > MaxText {
		return fmt.Errorf("a statement of %d octets, at most %d", len(text), MaxText)
	}
	return nil
}

// A record is one line "name: value".
type record struct{ name, value, place string }

// records are the lines of text that have a colon, each with its number. It
// stops at an empty line if the text is a header, and joins the lines of a
// field that was folded.
func records(text []byte, file string, header bool) []record {
	var all []record
	n := 0
	for l := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		if n++; n > maxLines {
			break
		}
		l = strings.TrimRight(l, "\r\n")
		if header && strings.TrimSpace(l) == "" && len(all) > 0 {
			break
		}
		if header && len(all) > 0 && (l[0] == ' ' || l[0] == '\t') {
			all[len(all)-1].value += " " + strings.TrimSpace(l)
			continue
		}
		if !header {
			l, _, _ = strings.Cut(l, "#")
		}
		if name, value, ok := strings.Cut(l, ":"); ok {
			all = append(all, record{strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value), fmt.Sprintf("%s line %d", file, n)})
		}
	}
	return all
}

// ReadHeader reads a field, or a saved block of them, as HTTP has it: the lines
// of Content-Usage are one dictionary; those of Content-Signal and X-Robots-Tag
// count each by itself. What stands behind an empty line is not read.
func ReadHeader(text []byte, file string) (Statement, error) {
	var s Statement
	if err := checkSize(text); err != nil {
		return s, err
	}
	var usage []line
	for _, r := range records(text, file, true) {
		switch r.name {
		case "content-usage":
			usage = append(usage, line{r.place, r.value})
		case "content-signal", "x-robots-tag":
			if err := s.Field(r.name, r.value, r.place); err != nil {
				return s, err
			}
		}
	}
	return s, s.usage(usage)
}

// ReadRobots reads what a robots.txt says by Content-Signal and Content-Usage,
// and nothing else: allow and disallow are about crawling. A line in the group
// of an agent other than "*", or for a path other than "/", denies to all, and
// allows to nobody.
func ReadRobots(text []byte, file string) (Statement, error) {
	var s Statement
	if err := checkSize(text); err != nil {
		return s, err
	}
	toAll, inRules := true, true
	for _, r := range records(text, file, false) {
		switch r.name {
		case "user-agent":
			if inRules {
				toAll, inRules = false, false
			}
			toAll = toAll || r.value == "*"
		case "content-signal", "content-usage":
			inRules = true
			path, value := "/", r.value
			if strings.HasPrefix(value, "/") || strings.HasPrefix(value, "*") {
				path, value, _ = strings.Cut(value, " ")
			}
			if err := s.rule(r, value, toAll && path == "/"); err != nil {
				return s, err
			}
		case "allow", "disallow", "crawl-delay":
			inRules = true
		}
	}
	return s, nil
}

// rule reads one line of a robots.txt.
func (s *Statement) rule(r record, value string, toAll bool) error {
	if r.name == "content-signal" {
		s.signal(value, r.place, toAll)
		return nil
	}
	var one Statement
	if err := one.usage([]line{{r.place, value}}); err != nil {
		return err
	}
	for _, x := range one.Preferences.Stated() {
		if x.Answer == content.Yes && !toAll {
			s.Ignore("%s, is for some agents or paths only, and so allows nothing", x.Origin)
			continue
		}
		s.State(x.Purpose, x.Answer, x.Origin)
	}
	for _, l := range one.Ignored {
		s.Ignore("%s", l)
	}
	return nil
}

// permissions maps the keys of RBT 13.5.
var permissions = map[string]string{
	"index": content.PurposeSearchIndex, "quote": content.PurposeSearchSnippet,
	"summarize": content.PurposeAISummarise, "train": content.PurposeAITrain,
}

// Permitted returns the keys of RBT 13.5, each with its purpose.
func Permitted() map[string]string { return maps.Clone(permissions) }

// HasPermissions reports whether a JSON text is an RBT manifest, its agents
// object, or an object with permissions.
func HasPermissions(text []byte) bool {
	_, ok := permissionsOf(text)
	return ok
}

// permissionsOf finds the object of RBT 13.5 in a manifest, or alone.
func permissionsOf(text []byte) (map[string]jsontext.Value, bool) {
	v := jsontext.Value(bytes.TrimSpace(text))
	for _, name := range []string{"manifest", "agents", "permissions"} {
		var m map[string]jsontext.Value
		if v.Kind() != '{' || json.Unmarshal(v, &m) != nil {
			return nil, false
		}
		if inner, ok := m[name]; ok {
			v = inner
		} else if name == "permissions" {
			return nil, false
		}
	}
	var m map[string]jsontext.Value
	return m, v.Kind() == '{' && json.Unmarshal(v, &m) == nil
}

// ReadPermissions reads the permissions of an RBT manifest (RBT 13.5): true
// allows, "with-attribution" allows if the source is named, null says nothing,
// and anything else denies: it was said, and cannot be understood.
func ReadPermissions(text []byte, file string) (Statement, error) {
	var s Statement
	if err := checkSize(text); err != nil {
		return s, err
	}
	said, ok := permissionsOf(text)
	if !ok {
		return s, fmt.Errorf("%s: no permissions of an RBT manifest", file)
	}
	s.permissions(said, func(key string) string {
		return fmt.Sprintf("%s line %d", file, LineOf(text, `"permissions"`, `"`+key+`"`))
	})
	return s, nil
}

// Permissions reads the value of a permissions member, as ReadPermissions does;
// place says where it stands.
func (s *Statement) Permissions(object []byte, place string) error {
	if err := checkSize(object); err != nil {
		return err
	}
	var said map[string]jsontext.Value
	if jsontext.Value(object).Kind() != '{' || json.Unmarshal(object, &said) != nil {
		return fmt.Errorf("%s: no permissions of an RBT manifest", place)
	}
	s.permissions(said, func(string) string { return place })
	return nil
}

func (s *Statement) permissions(said map[string]jsontext.Value, placeOf func(key string) string) {
	for _, key := range slices.Sorted(maps.Keys(said)) {
		purpose, known := permissions[key]
		place := placeOf(key)
		if !known {
			s.Ignore("%s: permission %.60q has no purpose here", place, key)
			continue
		}
		v := said[key]
		answer := content.No
		switch string(v) {
		case "true":
			answer = content.Yes
		case `"with-attribution"`:
			answer, s.Attribution = content.Yes, true
		case "null":
			answer = content.Unknown
		case "false":
		default:
			s.Ignore("%s: permission %s is %.60s, which is read as a denial", place, key, v)
		}
		s.State(purpose, answer, fmt.Sprintf("%s: permission %s is %.60s", place, key, v))
	}
}

// ReadHTML reads the meta elements of a page, or of a piece of one.
func ReadHTML(text []byte, file string) (Statement, error) {
	var s Statement
	if err := checkSize(text); err != nil {
		return s, err
	}
	z := html.NewTokenizer(bytes.NewReader(text))
	n := 1
	for {
		kind := z.Next()
		place := fmt.Sprintf("%s line %d", file, n)
		n += bytes.Count(z.Raw(), []byte{'\n'})
		switch kind {
		case html.ErrorToken:
			if z.Err() == io.EOF {
				return s, nil
			}
			return s, fmt.Errorf("%s: %w", place, z.Err())
		case html.StartTagToken, html.SelfClosingTagToken:
			name, value := metaOf(z.Token())
			if err := s.Field(name, value, place); err != nil {
				return s, err
			}
		}
	}
}

// metaOf is the name and content of a meta element.
func metaOf(t html.Token) (name, value string) {
	if t.Data != "meta" {
		return "", ""
	}
	for _, a := range t.Attr {
		switch a.Key {
		case "name", "http-equiv":
			name = a.Val
		case "content":
			value = a.Val
		}
	}
	return name, value
}

// LineOf is the number of the line on which the last of words begins, each
// looked for behind the one before; 1 if one is not there.
func LineOf(text []byte, words ...string) int {
	at := 0
	for _, w := range words {
		i := bytes.Index(text[at:], []byte(w))
		if i < 0 {
			return 1
		}
		at += i
	}
	return 1 + bytes.Count(text[:at], []byte{'\n'})
}
