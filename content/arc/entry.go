package arc

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// MaxEntry is the greatest size of one entry, in octets, and maxDepth how deep
// its objects and arrays may nest, itself counted.
const (
	MaxEntry = 4 << 20
	maxDepth = 32
)

// An Entry is one page in a sitemap (E.4).
type Entry struct {
	URL       string    // canonical
	Modified  time.Time // lastmod, as it is claimed; zero where absent
	Indexable bool
	Summary   string
	Tags      []string
	// Checksum is ai_checksum as it stands there; see ParseChecksum.
	Checksum string
	Snapshot jsontext.Value // an object; nil where absent
	// Priority is crawl_priority, or -1 where absent.
	Priority     float64
	AuthRequired bool
	Robots       string // robots_directive

	// Line is the whole entry in the form of RFC 8785, without members that were
	// null. Members that are not named above are in it as well.
	Line []byte
	// Odd is what an operator should know, and is no reason to leave it out.
	Odd []string
}

// ParseEntry reads one entry, which is a JSON object.
func ParseEntry(raw []byte) (Entry, error) {
	if len(raw) > MaxEntry {
		return Entry{}, fmt.Errorf("an entry of %d octets, at most %d", len(raw), MaxEntry)
	}
	if err := checkDepth(raw, maxDepth); err != nil {
		return Entry{}, err
	}
	raw = bytes.TrimSpace(raw)
	members, err := shallow(raw)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Priority: -1}
	for name, v := range members {
		if v.Kind() == 'n' {
			delete(members, name)
			e.odd("%.60q is null, and counts as missing", name)
		}
	}
	if err := e.validate(members); err != nil {
		return Entry{Odd: e.Odd}, err
	}
	return e, e.fill(members)
}

func (e *Entry) odd(format string, args ...any) { e.Odd = append(e.Odd, fmt.Sprintf(format, args...)) }

// validate holds the members against the schema. What it objects to in the form
// of a string is odd, and judged by fill.
func (e *Entry) validate(members map[string]jsontext.Value) error {
	var err error
	if e.Line, err = canonicalObject(members); err != nil {
		return err
	}
	set, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.Line))
	if err != nil {
		return err
	}
	found, err := violationsOf(set.entry, value)
	if err != nil {
		return err
	}
	for _, v := range found {
		if !v.form {
			return fmt.Errorf("by the schema: %s", v)
		}
		e.odd("%s", v)
	}
	return nil
}

// fill takes the members that the schema has passed.
func (e *Entry) fill(members map[string]jsontext.Value) (err error) {
	for _, m := range []struct {
		name string
		to   *string
	}{{"ai_summary", &e.Summary}, {"ai_checksum", &e.Checksum}, {"robots_directive", &e.Robots}} {
		*m.to = stringOf(members[m.name])
	}
	if v, ok := members["ai_tags"]; ok {
		if err := json.Unmarshal(v, &e.Tags); err != nil {
			return err
		}
	}
	e.Indexable = string(members["ai_indexable"]) == "true"
	e.AuthRequired = string(members["auth_required"]) == "true"
	if v, ok := members["ai_snapshot"]; ok {
		e.Snapshot = v.Clone() // in the order that Line has
		if err := e.Snapshot.Canonicalize(); err != nil {
			return err
		}
	}
	if v, ok := members["crawl_priority"]; ok {
		e.Priority, _ = strconv.ParseFloat(string(v), 64) // a number from 0 to 1
	}
	if s, ok := members["lastmod"]; ok {
		var odd bool
		if e.Modified, odd, err = content.ParseTime(stringOf(s)); err != nil {
			e.odd("lastmod is %.64s, and counts as missing", s)
		} else if odd && len(e.Odd) == 0 {
			e.odd("lastmod is %.64s", s)
		}
	}
	given := stringOf(members["url"])
	if e.URL, err = content.CanonicalURL(given); err != nil {
		return err
	}
	if e.URL != given {
		e.odd("url %.200q is not in canonical form", given)
		return e.rename()
	}
	return nil
}

// rename writes the canonical URL into the line.
func (e *Entry) rename() error {
	line, err := withMember(e.Line, "url", e.URL)
	e.Line = line
	return err
}

// withMember returns an entry in canonical form with one member set; a nil value
// removes it.
func withMember(line []byte, name string, value any) ([]byte, error) {
	members, err := shallow(line)
	if err != nil {
		return nil, err
	}
	delete(members, name)
	if value != nil {
		v, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		members[name] = v
	}
	return canonicalObject(members)
}

func canonicalObject(members any) ([]byte, error) {
	line, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(line)
	err = v.Canonicalize()
	return v, err
}

// stringOf returns the value of a JSON string; that of anything else is empty.
func stringOf(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(s)
}

// Fingerprint is the SHA-256 of the entry without lastmod: what is equal as long
// as only times have moved.
func (e *Entry) Fingerprint() ([32]byte, error) {
	line, err := withMember(e.Line, "lastmod", nil)
	return sha256.Sum256(line), err
}

// Withdrawn says why a page is not to be offered, or "" if it may be. Of several
// answers the restrictive one counts.
func (e *Entry) Withdrawn() string {
	switch {
	case !e.Indexable:
		return "its entry says ai_indexable false"
	case e.AuthRequired:
		return "its entry says auth_required"
	case forbids(e.Robots):
		return fmt.Sprintf("its entry says robots_directive %.60q", e.Robots)
	}
	if tag := e.sensitive(); tag != "" {
		return fmt.Sprintf("its entry is tagged %.60q", tag)
	}
	return ""
}

// forbids reports whether robots directives ask not to be indexed.
func forbids(directives string) bool {
	for word := range strings.SplitSeq(strings.ToLower(directives), ",") {
		if _, behind, named := strings.Cut(word, ":"); named {
			word = behind
		}
		switch strings.TrimSpace(word) {
		case "noindex", "none":
			return true
		}
	}
	return false
}

// sensitive returns the tag by which an entry, or its snapshot, says that it
// holds what is not for all (E.6).
func (e *Entry) sensitive() string {
	var s struct {
		Tags    jsontext.Value `json:"ai_tags"`
		Context jsontext.Value `json:"ai_context"`
	}
	tags := e.Tags
	if e.Snapshot != nil && json.Unmarshal(e.Snapshot, &s) == nil {
		tags = append(append(tags[:len(tags):len(tags)], words(s.Tags)...), words(s.Context)...)
	}
	for _, tag := range tags {
		switch strings.ToLower(strings.TrimSpace(tag)) {
		case "sensitive", "personal", "private", "confidential", "pii":
			return tag
		}
	}
	return ""
}

// words are the strings of a value: itself, or those in it.
func words(v jsontext.Value) (all []string) {
	d := jsontext.NewDecoder(bytes.NewReader(v))
	for {
		t, err := d.ReadToken()
		if err != nil {
			return all
		}
		if t.Kind() == '"' {
			all = append(all, t.String())
		}
	}
}

// checkDepth bounds how deep objects and arrays nest, before anything recurses
// into them. What is no JSON is for others to find.
func checkDepth(raw []byte, most int) error {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > most {
				return limit("more than %d levels deep", most)
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// shallow reads the members of one object.
func shallow(raw []byte) (map[string]jsontext.Value, error) {
	if jsontext.Value(raw).Kind() != '{' {
		return nil, errors.New("no JSON object")
	}
	var m map[string]jsontext.Value
	return m, json.Unmarshal(raw, &m)
}
