package content

import (
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"
)

// A Told is what a source says about itself as a whole.
type Told struct {
	Preferences Preferences
	Warnings    []string // for the operator
}

// LastSegment returns the last segment of a canonical URL's path, decoded where
// that gives text, or the host of a root: it stands in for a title.
func LastSegment(u string) string {
	u, _, _ = strings.Cut(u, "?")
	segment := path.Base(strings.TrimSuffix(u, "/"))
	if s, err := url.PathUnescape(segment); err == nil && utf8.ValidString(s) {
		return s
	}
	return segment
}

// Language returns a BCP 47 tag in its canonical form; ok is false if s is none,
// and not empty either.
func Language(s string) (tag string, ok bool) {
	if s == "" {
		return "", true
	}
	t, err := language.Parse(s)
	if err != nil || t == language.Und {
		return "", false
	}
	return t.String(), true
}
