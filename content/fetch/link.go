package fetch

import (
	"net/url"
	"strings"
)

// A Link is one link of a Link header field (RFC 8288).
type Link struct {
	Target string // absolute
	Rel    []string
	Type   string // media type, in lower case
}

// Is reports whether the link is of a relation.
func (l Link) Is(rel string) bool {
	for _, r := range l.Rel {
		if r == rel {
			return true
		}
	}
	return false
}

// maxLinks is how many links of one header are read.
const maxLinks = 128

// ParseLinks reads Link header fields. Targets are resolved against base;
// those that are no http or https URL are left out, and so is what cannot be
// read. A link with an anchor speaks of something else than the response, and
// is left out as well.
func ParseLinks(fields []string, base string) []Link {
	from, err := url.Parse(base)
	if err != nil {
		return nil
	}
	var links []Link
	for _, field := range fields {
		for rest := field; len(links) < maxLinks; {
			var l Link
			var ok, anchored bool
			l, anchored, rest, ok = parseLink(rest)
			if !ok {
				break
			}
			target, err := from.Parse(l.Target)
			if err != nil || anchored || target.Scheme != "http" && target.Scheme != "https" || target.User != nil {
				continue
			}
			l.Target = target.String()
			links = append(links, l)
		}
	}
	return links
}

// parseLink reads the first link of s, and returns what follows it.
func parseLink(s string) (l Link, anchored bool, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t,")
	target, rest, ok := strings.Cut(strings.TrimPrefix(s, "<"), ">")
	if !ok || s == "" || s[0] != '<' {
		return Link{}, false, "", false
	}
	l.Target = strings.TrimSpace(target)
	for {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" || rest[0] != ';' {
			return l, anchored, rest, true
		}
		var name, value string
		name, value, rest = parseParameter(rest[1:])
		switch name {
		case "rel":
			if l.Rel == nil { // the first counts (RFC 8288, 3.3)
				l.Rel = strings.Fields(strings.ToLower(value))
			}
		case "type":
			media, _, _ := strings.Cut(value, ";")
			l.Type = strings.ToLower(strings.TrimSpace(media))
		case "anchor":
			anchored = true
		}
	}
}

// parseParameter reads a name, and a value that may be quoted.
func parseParameter(s string) (name, value, rest string) {
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		return strings.ToLower(strings.TrimSpace(s)), "", ""
	}
	name, rest = strings.ToLower(strings.TrimSpace(s[:end])), s[end:]
	if rest[0] != '=' {
		return name, "", rest
	}
	rest = strings.TrimLeft(rest[1:], " \t")
	if rest == "" || rest[0] != '"' {
		end := strings.IndexAny(rest, ";,")
		if end < 0 {
			end = len(rest)
		}
		return name, strings.TrimSpace(rest[:end]), rest[end:]
	}
	var b strings.Builder
	for i := 1; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			return name, b.String(), rest[i+1:]
		case c == '\\' && i+1 < len(rest):
			i++
			b.WriteByte(rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return name, b.String(), ""
}
