package content

import (
	"strings"

	"golang.org/x/net/idna"
)

// CanonicalURL returns the canonical form of a URL that a source holds, or a
// *URLError where it has none. It lower-cases scheme and host, writes the host
// in ASCII (IDNA), drops the scheme's own port and the fragment, resolves dot
// segments, decodes unreserved octets, and percent-encodes, in upper case, what
// may not stand plain.
//
// Nothing that could change which resource is meant is repaired: user
// information, backslashes, empty segments, control octets, and addresses in
// another form than plain dotted IPv4 are errors.
func CanonicalURL(raw string) (string, error) {
	u, rule := canonical(raw)
	if rule == "" {
		rule = broken(u)
	}
	if rule != "" {
		return "", &URLError{raw, rule}
	}
	return u, nil
}

func canonical(raw string) (string, URLRule) {
	if len(raw) > MaxURL {
		return "", RuleLength
	}
	for i := range len(raw) {
		if isControl(raw[i]) {
			return "", RuleControl
		}
	}
	raw, _, _ = strings.Cut(raw, "#")
	scheme, rest, ok := strings.Cut(raw, "://")
	if scheme = strings.ToLower(scheme); !ok || scheme != "http" && scheme != "https" {
		return "", RuleScheme
	}
	end := strings.IndexAny(rest, `/?\`)
	if end < 0 {
		end = len(rest)
	}
	authority, rule := canonicalAuthority(scheme, rest[:end])
	if rule != "" {
		return "", rule
	}
	path, query, _ := strings.Cut(rest[end:], "?")
	if strings.IndexByte(path, '\\') >= 0 {
		return "", RuleBackslash
	}
	b := make([]byte, 0, len(raw)+16)
	if b, rule = appendOctets(b, path, inPath); rule != "" {
		return "", rule
	}
	u := scheme + "://" + authority + withoutDotSegments(string(b))
	if query == "" {
		return u, ""
	}
	if b, rule = appendOctets(b[:0], query, inQuery); rule != "" {
		return "", rule
	}
	return u + "?" + string(b), ""
}

func canonicalAuthority(scheme, authority string) (string, URLRule) {
	if strings.IndexByte(authority, '@') >= 0 {
		return "", RuleUserinfo
	}
	if strings.HasPrefix(authority, "[") {
		return "", RuleAddress
	}
	host, port, _ := strings.Cut(authority, ":")
	if host == "" {
		return "", RuleNoHost
	}
	if isASCII(host) {
		host = strings.ToLower(host)
	} else {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", RuleHost
		}
		host = ascii
	}
	if port == "" {
		return host, ""
	}
	if port = strings.TrimLeft(port, "0"); !isPort(port) {
		return "", RulePort
	}
	if port == defaultPort(scheme) {
		return host, ""
	}
	return host + ":" + port, ""
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// appendOctets appends s with each octet in the form that brokenOctets wants.
func appendOctets(b []byte, s string, where octets) ([]byte, URLRule) {
	const digits = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c, plain := s[i], octetClass[s[i]]&where != 0
		if c == '%' {
			v, ok := escaped(s[i:])
			if !ok {
				return nil, RuleEscape
			}
			i += 2
			c, plain = v, octetClass[v]&unreserved != 0
		}
		if plain {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b, ""
}

// withoutDotSegments resolves "." and ".." as RFC 3986, 5.2.4 does, for a path
// that is empty or starts with a slash; it returns at least "/".
func withoutDotSegments(path string) string {
	if path == "" {
		return "/"
	}
	segments := strings.Split(path[1:], "/")
	kept := segments[:0]
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".", "..":
			if s == ".." && len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}
