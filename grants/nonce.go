package grants

import (
	"encoding/base64"
	"errors"
	"fmt"
)

// A Nonce is 16 random octets, which keep the hash of an object or scope from
// being guessed. It is written in base64url without padding. The zero Nonce is
// one that was never drawn, and is refused.
type Nonce [16]byte

// IsZero reports whether n was never drawn.
func (n Nonce) IsZero() bool { return n == Nonce{} }

// MarshalText writes 22 characters of base64url.
func (n Nonce) MarshalText() ([]byte, error) { return encode64(n[:]), nil }

// UnmarshalText accepts exactly what MarshalText writes.
func (n *Nonce) UnmarshalText(text []byte) error { return decode64(n[:], text) }

// A Binding is 32 octets that tie an announcement to one session: the TLS
// exporter's, or the nonce of the indexer's Welcome.
type Binding [32]byte

// IsZero reports whether b was never set.
func (b Binding) IsZero() bool { return b == Binding{} }

// MarshalText writes 43 characters of base64url.
func (b Binding) MarshalText() ([]byte, error) { return encode64(b[:]), nil }

// UnmarshalText accepts exactly what MarshalText writes.
func (b *Binding) UnmarshalText(text []byte) error { return decode64(b[:], text) }

func encode64(b []byte) []byte { return base64.RawURLEncoding.AppendEncode(nil, b) }

// decode64 fills dst from its one base64url form. The decoder alone accepts
// line feeds and stray trailing bits, so the result is printed and compared.
func decode64(dst, text []byte) error {
	if len(text) != base64.RawURLEncoding.EncodedLen(len(dst)) {
		return fmt.Errorf("%d characters of base64url, want %d", len(text), base64.RawURLEncoding.EncodedLen(len(dst)))
	}
	b, err := base64.RawURLEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != len(dst) || string(encode64(b)) != string(text) {
		return errors.New("not canonical base64url")
	}
	copy(dst, b)
	return nil
}

// Bounds of names, in octets.
const (
	maxCollection = 64
	maxSeries     = 128
)

// checkName accepts lower-case letters and digits, and behind the first
// character also "-", "_" and ".": what can be a file's name everywhere.
func checkName(s string, limit int) error {
	if len(s) == 0 || len(s) > limit {
		return fmt.Errorf("name %.80q: 1 to %d characters", s, limit)
	}
	for i := range len(s) {
		if c := s[i]; !isLowerOrDigit(c) && (i == 0 || c != '-' && c != '_' && c != '.') {
			return fmt.Errorf("name %.80q: lower-case letters, digits, and - _ . behind the first character", s)
		}
	}
	return nil
}
