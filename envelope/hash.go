package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

const hashPrefix = "sha256:"

// hashText is how many characters a Hash is written in.
const hashText = len(hashPrefix) + 2*sha256.Size

// A Hash names something by SHA-256: an object, a key, a scope, a root.
// It is written "sha256:" and 64 lower-case hex digits, and no other way.
// The zero Hash names no object and no key; as a root it may be that of an
// empty tree.
type Hash [sha256.Size]byte

// ParseHash accepts exactly the form that String prints.
func ParseHash(s string) (Hash, error) {
	h, ok := readHash(s)
	if !ok {
		return Hash{}, fmt.Errorf("malformed hash %.80q", s)
	}
	return h, nil
}

// readHash is ParseHash for those who have octets, and need no reason.
func readHash[T string | []byte](s T) (h Hash, ok bool) {
	if len(s) != hashText || string(s[:len(hashPrefix)]) != hashPrefix {
		return Hash{}, false
	}
	for i := range h {
		hi, lo := digits[s[len(hashPrefix)+2*i]], digits[s[len(hashPrefix)+2*i+1]]
		if hi == 0 || lo == 0 {
			return Hash{}, false
		}
		h[i] = (hi-1)<<4 | (lo - 1)
	}
	return h, true
}

// digits are the values of the lower-case hex digits, each one more than it is;
// 0 stands for any other character.
var digits = [256]byte{
	'0': 1, '1': 2, '2': 3, '3': 4, '4': 5, '5': 6, '6': 7, '7': 8,
	'8': 9, '9': 10, 'a': 11, 'b': 12, 'c': 13, 'd': 14, 'e': 15, 'f': 16,
}

func (h Hash) String() string {
	b, _ := h.AppendText(make([]byte, 0, hashText))
	return string(b)
}

// IsZero reports whether h is the zero Hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// AppendText appends String. A log entry holds a dozen of them.
func (h Hash) AppendText(b []byte) ([]byte, error) {
	b = append(b, hashPrefix...)
	var text [2 * len(h)]byte
	for i, c := range h {
		text[2*i], text[2*i+1] = pairs[c][0], pairs[c][1]
	}
	return append(b, text[:]...), nil
}

// pairs are the two digits of each octet.
var pairs = func() (p [256][2]byte) {
	for i := range p {
		hex.Encode(p[i][:], []byte{byte(i)})
	}
	return p
}()

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
