package envelope

import (
	"fmt"
	"strings"
)

// maxName is the length limit of a Name, in octets.
const maxName = 255

// A Name is a SPIFFE ID or a URN in ASCII: who issued, signs, is addressed, or
// is spoken of. Names are compared octet for octet and never normalised.
type Name string

// ParseName accepts [a-z0-9][a-z0-9:._/-]{0,254} that is a SPIFFE ID (a trust
// domain, and path segments that are neither empty nor dots alone; no port, no
// slash at the end) or a URN of RFC 8141 (urn:, a namespace of 2 to 32
// characters, and what it names).
func ParseName(s string) (Name, error) {
	if len(s) == 0 || len(s) > maxName {
		return "", fmt.Errorf("malformed name %.80q: 1 to %d characters", s, maxName)
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == ':' || c == '.' || c == '_' || c == '/' || c == '-'):
		default:
			return "", fmt.Errorf("malformed name %.80q: character %d", s, i+1)
		}
	}
	if path, ok := strings.CutPrefix(s, scheme); ok {
		if !isSPIFFE(path) {
			return "", fmt.Errorf("malformed name %.80q: no SPIFFE ID", s)
		}
		return Name(s), nil
	}
	urn, ok := strings.CutPrefix(s, "urn:")
	space, rest, _ := strings.Cut(urn, ":")
	if !ok || len(space) < 2 || len(space) > 32 || strings.ContainsAny(space, "._/") ||
		space[0] == '-' || space[len(space)-1] == '-' || rest == "" || rest[0] == '/' {
		return "", fmt.Errorf("malformed name %.80q: neither a SPIFFE ID nor a URN", s)
	}
	return Name(s), nil
}

const scheme = "spiffe://"

// isSPIFFE reports whether s, in the characters of a Name, is the trust domain
// and path of a SPIFFE ID.
func isSPIFFE(s string) bool {
	domain, _, _ := strings.Cut(s, "/")
	if strings.HasPrefix(domain, ".") || strings.HasSuffix(domain, ".") || strings.Contains(s, ":") {
		return false
	}
	for segment := range strings.SplitSeq(s, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// Authority is the trust domain of a SPIFFE ID ("spiffe://example.com" of
// "spiffe://example.com/publisher"), and a URN itself.
func (n Name) Authority() Name {
	path, ok := strings.CutPrefix(string(n), scheme)
	if !ok {
		return n
	}
	domain, _, _ := strings.Cut(path, "/")
	return scheme + Name(domain)
}

// AppendText appends the name itself.
func (n Name) AppendText(b []byte) ([]byte, error) { return append(b, n...), nil }

// MarshalText gives the name itself.
func (n Name) MarshalText() ([]byte, error) { return []byte(n), nil }

// UnmarshalText is ParseName.
func (n *Name) UnmarshalText(b []byte) error {
	v, err := ParseName(string(b))
	if err != nil {
		return err
	}
	*n = v
	return nil
}
