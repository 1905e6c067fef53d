package envelope

import "fmt"

// maxName is the length limit of a Name, in octets.
const maxName = 255

// A Name is a SPIFFE ID or a URN in ASCII: who issued, signs, is addressed, or
// is spoken of. Names are compared octet for octet and never normalised.
type Name string

// ParseName accepts [a-z0-9][a-z0-9:._/-]{0,254} that begins with spiffe:// or
// urn: and has something behind it.
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
	const spiffe, urn = "spiffe://", "urn:"
	if (len(s) > len(spiffe) && s[:len(spiffe)] == spiffe && s[len(spiffe)] != '/') || (len(s) > len(urn) && s[:len(urn)] == urn) {
		return Name(s), nil
	}
	return "", fmt.Errorf("malformed name %.80q: neither spiffe:// nor urn:", s)
}

// Authority is the trust domain of a SPIFFE ID ("spiffe://example.com" of
// "spiffe://example.com/publisher"), and a URN itself.
func (n Name) Authority() Name {
	const scheme = "spiffe://"
	if len(n) <= len(scheme) || n[:len(scheme)] != scheme {
		return n
	}
	for i := len(scheme); i < len(n); i++ {
		if n[i] == '/' {
			return n[:i]
		}
	}
	return n
}

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
