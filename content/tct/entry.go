package tct

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/uzpif-oi/uzpif-oi/content"
)

// An entry is the members of an item or child that the draft names. One of
// another type than string, and an empty one, count as missing.
type entry struct {
	values [len(entryNames)]string
	seen   [len(entryNames)]bool
}

// The members of an entry, as places in entryNames.
const (
	entryCURL = iota
	entryMURL
	entryModified
	entryContentHash
	entryETag
	entryURL
)

var entryNames = [...]string{"cUrl", "mUrl", "modified", "contentHash", "etag", "url"}

// readEntry reads one entry, which has been read as valid. Its values are parts of one
// string, as long as the entry.
func readEntry(raw jsontext.Value) (e entry, err error) {
	if raw.Kind() != '{' {
		return e, errors.New("the entry is no object")
	}
	err = eachMember(string(raw), func(name, value string) error {
		at := slices.Index(entryNames[:], unquotedText(name))
		if at < 0 {
			return nil
		}
		if e.seen[at] {
			return fmt.Errorf("member %s stands twice", entryNames[at])
		}
		e.seen[at] = true
		if value[0] == '"' {
			e.values[at] = unquotedText(value)
		}
		return nil
	})
	return e, err
}

// unquotedText is what a valid JSON string says.
func unquotedText(quoted string) string {
	if strings.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	s, _ := jsontext.AppendUnquote(nil, quoted) // quoted has been read as valid
	return string(s)
}

// eachMember goes over the members of an object that is valid JSON.
func eachMember(object string, visit func(name, value string) error) error {
	rest := object[1:]
	for {
		rest = behindSpace(rest, ',')
		if rest[0] == '}' {
			return nil
		}
		name := rest[:valueLength(rest)]
		rest = behindSpace(rest[len(name):], ':')
		value := rest[:valueLength(rest)]
		rest = rest[len(value):]
		if err := visit(name, value); err != nil {
			return err
		}
	}
}

// behindSpace passes over white space and a separator.
func behindSpace(b string, separator byte) string {
	for b[0] <= ' ' || b[0] == separator {
		b = b[1:]
	}
	return b
}

// stringLength is how many octets the string takes that valid JSON begins with.
func stringLength(b string) int {
	for i := 1; ; i++ {
		quote := strings.IndexByte(b[i:], '"')
		if quote < 0 {
			return len(b) // it was not valid
		}
		i += quote
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// valueLength is how many octets the value takes that valid JSON begins with.
func valueLength(b string) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringLength(b[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a number or literal
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

func (s *sitemapReader) item(n int, raw jsontext.Value) error {
	e, err := readEntry(raw)
	item := Item{}
	if err == nil {
		item, err = s.itemOf(n, e)
	}
	switch {
	case err != nil && s.visit.Skip != nil:
		return s.visit.Skip(n, e.values[entryMURL], err)
	case err == nil && s.visit.Item != nil:
		return s.visit.Item(item)
	}
	return nil
}

// itemOf checks what an item must hold.
func (s *sitemapReader) itemOf(n int, e entry) (Item, error) {
	item := Item{MURL: e.values[entryMURL]}
	if item.MURL == "" || e.values[entryCURL] == "" {
		return Item{}, errors.New("cUrl or mUrl is missing")
	}
	if len(item.MURL) > content.MaxURL {
		return Item{}, fmt.Errorf("mUrl of %d octets", len(item.MURL))
	}
	var err error
	if item.CURL = e.values[entryCURL]; content.IsCanonical(item.CURL) != nil {
		if item.CURL, err = content.CanonicalURL(item.CURL); err != nil {
			return Item{}, fmt.Errorf("cUrl: %w", err)
		}
	}
	if item.Hash, err = s.hashOf(n, e); err != nil {
		return Item{}, err
	}
	if modified := e.values[entryModified]; modified != "" {
		t, odd, err := content.ParseTime(modified)
		if err != nil || odd {
			s.odd("item %d (%.200s): modified is %.64q", n, item.CURL, modified)
		}
		item.Modified = t
	}
	return item, nil
}

// hashOf takes the hash of an item by either name.
func (s *sitemapReader) hashOf(n int, e entry) (string, error) {
	var hash string
	for _, field := range []int{entryETag, entryContentHash} {
		h := e.values[field]
		if h == "" || h == hash {
			continue
		}
		if !isHash(h) {
			clean, _ := CleanETag(h)
			if !isHash(clean) {
				return "", fmt.Errorf("contentHash is %.100q", h)
			}
			s.odd("item %d: contentHash is %.100q", n, h)
			h = clean
		}
		if hash != "" && h != hash {
			return "", errors.New("contentHash and etag differ")
		}
		hash = h
	}
	if hash == "" {
		return "", errors.New("no contentHash")
	}
	return hash, nil
}

func (s *sitemapReader) child(n int, raw jsontext.Value) error {
	e, err := readEntry(raw)
	if err == nil && (e.values[entryURL] == "" || len(e.values[entryURL]) > content.MaxURL) {
		err = errors.New("no url")
	}
	switch {
	case err != nil:
		// A sitemap that cannot be found is a part of the list that is missing.
		return fmt.Errorf("%w: entry %d of the index: %w", ErrSitemap, n, err)
	case s.visit.Child == nil:
		return nil
	}
	c := Child{URL: e.values[entryURL]}
	c.ETag, _ = CleanETag(`"` + e.values[entryETag] + `"`)
	return s.visit.Child(c)
}
