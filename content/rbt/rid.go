package rbt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxRID is the greatest length of an RID, in octets.
const maxRID = 2 << 10

// An RID names a resource by its content, or, which is no name for ever, a
// collection by its place in a manifest (section 7). The zero RID names nothing.
// RIDs may be compared with ==.
type RID struct {
	sum        [sha256.Size]byte
	collection string // what stands behind "urn:rabit:collection:"; then sum is zero
	set        bool
}

const (
	ridPrefix        = "urn:rabit:sha256:"
	collectionPrefix = "urn:rabit:collection:"
	shortRID         = 16 // digits of a manifest's RID in those of its collections
)

// FileRID is the RID of a resource of these octets (7.3.1).
func FileRID(data []byte) RID { return SumRID(sha256.Sum256(data)) }

// SumRID is the RID of a resource whose SHA-256 this is.
func SumRID(sum [sha256.Size]byte) RID { return RID{sum: sum, set: true} }

// CollectionRID is the synthetic RID of a collection in a manifest (7.3.3).
// Octets of its id that a URN cannot hold are percent-encoded.
func CollectionRID(manifest RID, id string) RID {
	digits := hex.EncodeToString(manifest.sum[:])[:shortRID]
	return RID{collection: digits + ":" + escapeNSS(id), set: true}
}

// ParseRID accepts exactly the forms that String prints.
func ParseRID(s string) (RID, error) {
	bad := fmt.Errorf("%.100q is no RID", s)
	if len(s) > maxRID {
		return RID{}, fmt.Errorf("an RID of %d octets, at most %d", len(s), maxRID)
	}
	if rest, ok := strings.CutPrefix(s, collectionPrefix); ok {
		short, id, ok := strings.Cut(rest, ":")
		if !ok || len(short) != shortRID || !isLowerHex(short) || id == "" || !isNSS(id) {
			return RID{}, bad
		}
		return RID{collection: rest, set: true}, nil
	}
	digits, ok := strings.CutPrefix(s, ridPrefix)
	if !ok {
		return RID{}, bad
	}
	sum, ok := parseDigest(digits)
	if !ok {
		return RID{}, bad
	}
	return SumRID(sum), nil
}

// String returns the URN; "" for the zero RID.
func (r RID) String() string {
	switch {
	case !r.set:
		return ""
	case r.collection != "":
		return collectionPrefix + r.collection
	}
	return ridPrefix + hex.EncodeToString(r.sum[:])
}

// IsZero reports whether the RID names nothing.
func (r RID) IsZero() bool { return !r.set }

// IsCollection reports whether the RID is a synthetic one, which says nothing
// about any octets, and is another after each edit of its manifest.
func (r RID) IsCollection() bool { return r.collection != "" }

// Sum returns the SHA-256 that the RID holds; ok is false if it holds none.
func (r RID) Sum() (sum [sha256.Size]byte, ok bool) { return r.sum, r.set && r.collection == "" }

// CollectionOf returns the digits of the manifest that a synthetic RID is
// bound to, and the collection's id.
func (r RID) CollectionOf() (short, id string) {
	short, id, _ = strings.Cut(r.collection, ":")
	return short, unescapeNSS(id)
}

// parseDigest reads a SHA-256 in 64 lower-case hexadecimal digits.
func parseDigest(digits string) (sum [sha256.Size]byte, ok bool) {
	if len(digits) != 2*sha256.Size || !isLowerHex(digits) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return sum, err == nil
}

func isLowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// isPlain reports whether an octet may stand in a URN as it is: the pchar of
// RFC 3986 without the percent sign, and the slash (RFC 8141, 2).
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/", c) >= 0
}

func isNSS(s string) bool {
	for i := 0; i < len(s); i++ {
		switch {
		case isPlain(s[i]):
		case s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		default:
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func escapeNSS(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if isPlain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// unescapeNSS undoes escapeNSS; s is a valid namespace-specific string.
func unescapeNSS(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if v, err := hex.DecodeString(s[i+1 : i+3]); err == nil {
				b.WriteByte(v[0])
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
