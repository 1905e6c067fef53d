package identity

import (
	"fmt"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

const spiffeScheme = "spiffe://"

// ParseName accepts a SPIFFE ID that may stand in a certificate: a lower-case
// trust domain without port or trailing dot, and a path of one or more
// segments, none of them empty, "." or "..". At most 255 octets.
func ParseName(s string) (envelope.Name, error) {
	n, err := envelope.ParseName(s)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(s, spiffeScheme)
	if !ok {
		return "", fmt.Errorf("identity %.80q: not a SPIFFE ID", s)
	}
	domain, path, ok := strings.Cut(rest, "/")
	if !ok {
		return "", fmt.Errorf("identity %.80q: a trust domain without a path", s)
	}
	if strings.Contains(domain, ":") {
		return "", fmt.Errorf("identity %.80q: a trust domain has no port", s)
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" {
			return "", fmt.Errorf("identity %.80q: a trust domain has no empty label and no trailing dot", s)
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.Contains(segment, ":") {
			return "", fmt.Errorf("identity %.80q: path segment %q", s, segment)
		}
	}
	return n, nil
}
