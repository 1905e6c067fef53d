package serve

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// evaluate evaluates the preconditions of RFC 9110, 13.2.2: 0 goes on.
func evaluate(h http.Header, p *Representation) (status int) {
	if ifMatch := h.Values("If-Match"); len(ifMatch) > 0 {
		if !matches(ifMatch, p.ETag, false) {
			return http.StatusPreconditionFailed
		}
	} else if t, ok := date(h, "If-Unmodified-Since"); ok && p.Modified.Truncate(time.Second).After(t) {
		return http.StatusPreconditionFailed
	}
	// Where there is an If-None-Match, If-Modified-Since counts for nothing: to
	// evaluate it after a mismatch would answer 304 to who holds something else.
	if ifNoneMatch := h.Values("If-None-Match"); len(ifNoneMatch) > 0 {
		if matches(ifNoneMatch, p.ETag, true) {
			return http.StatusNotModified
		}
	} else if t, ok := date(h, "If-Modified-Since"); ok && !p.Modified.IsZero() && !p.Modified.Truncate(time.Second).After(t) {
		return http.StatusNotModified
	}
	return 0
}

func date(h http.Header, field string) (time.Time, bool) {
	t, err := http.ParseTime(h.Get(field))
	return t, err == nil
}

// matches reports whether a list of ETags has one that is etag. In a weak
// comparison, tags that are marked as weak or as those of a compressed body
// match as well.
func matches(fields []string, etag string, weak bool) bool {
	rest := strings.Join(fields, ",")
	for {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return false
		}
		if rest[0] == '*' {
			return true
		}
		tag, isWeak := strings.CutPrefix(rest, "W/")
		if tag == "" || tag[0] != '"' {
			return false
		}
		end := strings.IndexByte(tag[1:], '"')
		if end < 0 {
			return false
		}
		tag, rest = tag[:end+2], tag[end+2:]
		if tag == `"`+etag+`"` && (weak || !isWeak) || weak && isCoded(tag, etag) {
			return true
		}
	}
}

// CodingSuffixes are what servers append to the ETag of a compressed body.
func CodingSuffixes() []string { return []string{"-gzip", "--gzip", ";gzip", "-br", "-zstd", "-df"} }

// isCoded reports whether a tag, in quotes, is that of a compressed body.
func isCoded(tag, etag string) bool {
	suffix, ok := strings.CutPrefix(tag[1:len(tag)-1], etag)
	return ok && slices.Contains(CodingSuffixes(), suffix)
}
