package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

const hashPrefix = "sha256:"

// A Hash names something by SHA-256: an object, a key, a scope, a root.
// It is written "sha256:" and 64 lower-case hex digits, and no other way.
// The zero Hash names no object and no key; as a root it may be that of an
// empty tree.
type Hash [sha256.Size]byte

// ParseHash accepts exactly the form that String prints.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != len(hashPrefix)+2*len(h) || s[:len(hashPrefix)] != hashPrefix {
		return Hash{}, fmt.Errorf("malformed hash %.80q", s)
	}
	for i := range h {
		hi, lo := digit(s[len(hashPrefix)+2*i]), digit(s[len(hashPrefix)+2*i+1])
		if hi > 15 || lo > 15 {
			return Hash{}, fmt.Errorf("malformed hash %.80q", s)
		}
		h[i] = hi<<4 | lo
	}
	return h, nil
}

// digit is the value of a lower-case hex digit, more than 15 for any other.
func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

func (h Hash) String() string { return hashPrefix + hex.EncodeToString(h[:]) }

// IsZero reports whether h is the zero Hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// AppendText appends String.
func (h Hash) AppendText(b []byte) ([]byte, error) {
	return hex.AppendEncode(append(b, hashPrefix...), h[:]), nil
}

// MarshalText is String.
func (h Hash) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText is ParseHash.
func (h *Hash) UnmarshalText(b []byte) error {
	v, err := ParseHash(string(b))
	if err != nil {
		return err
	}
	*h = v
	return nil
}

// TaggedHash is SHA-256(tag 00 parts…). The tag keeps hashes that serve
// different ends apart; callers keep the parts apart by fixed lengths or by
// canonical form.
func TaggedHash(tag string, parts ...[]byte) Hash {
	d := sha256.New()
	d.Write([]byte(tag))
	d.Write([]byte{0})
	for _, p := range parts {
		d.Write(p)
	}
	var h Hash
	d.Sum(h[:0])
	return h
}
