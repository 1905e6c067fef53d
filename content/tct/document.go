package tct

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// Profile is the value of the profile member that Encode writes.
const Profile = "tct-1"

// MaxPayload is the greatest size of a payload, in octets.
const MaxPayload = content.MaxPayload

// A Document is what a payload says about one page.
type Document struct {
	URL      string // canonical_url
	Title    string
	Content  string // plain text
	Language string // a BCP 47 tag; left out of the payload where empty

	// Hash is the hash member as Decode found it, made by whichever method its
	// publisher uses. Encode pays it no heed.
	Hash string
}

// Encode appends the payload of d to dst. The fingerprint is the Method A
// hash. What is no UTF-8 in d becomes U+FFFD.
func Encode(dst []byte, d Document) (payload []byte, fingerprint [32]byte) {
	return encode(dst, d, d.Content)
}

// EncodeWords is Encode of a document whose content is words, of which there may be
// too many for a second copy.
func EncodeWords(dst []byte, d Document, words []byte) (payload []byte, fingerprint [32]byte) {
	return encode(dst, d, words)
}

func encode[T string | []byte](dst []byte, d Document, words T) (payload []byte, fingerprint [32]byte) {
	start := len(dst)
	dst = append(dst, `{"canonical_url":`...)
	dst = appendString(dst, d.URL)
	dst = append(dst, `,"content":`...)
	dst = appendString(dst, words)
	hashAt := len(dst)
	dst = append(dst, `,"hash":"`...)
	dst = append(dst, hashPrefix...)
	dst = append(dst, make([]byte, 2*sha256.Size)...)
	dst = append(dst, '"')
	restAt := len(dst)
	if d.Language != "" {
		dst = append(dst, `,"language":`...)
		dst = appendString(dst, d.Language)
	}
	dst = append(dst, `,"profile":"`+Profile+`","title":`...)
	dst = appendString(dst, d.Title)
	dst = append(dst, '}')

	h := sha256.New()
	h.Write(dst[start:hashAt])
	h.Write(dst[restAt:])
	h.Sum(fingerprint[:0])
	hex.Encode(dst[restAt-1-2*sha256.Size:], fingerprint[:])
	return dst, fingerprint
}

// hashPrefix starts every hash value; 64 lower-case hexadecimal digits follow.
const hashPrefix = "sha256-"

func isHash(s string) bool {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	if !ok || len(digits) != 2*sha256.Size {
		return false
	}
	// By a set of digits, not by ranges: whether the next digit of a hash is a
	// letter is a coin's toss, and a branch on it costs a processor dearly.
	return strings.TrimLeft(digits, "0123456789abcdef") == ""
}

// appendString appends s as RFC 8785, 3.2.2.2 writes it: only what JSON
// requires is escaped, in the shortest way.
func appendString[T string | []byte](dst []byte, s T) []byte {
	if !valid(s) {
		s = T(strings.ToValidUTF8(string(s), "\uFFFD"))
	}
	dst = append(dst, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + 1
		if short := shortEscape(c); short != 0 {
			dst = append(dst, '\\', short)
		} else {
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"')
}

func valid[T string | []byte](s T) bool {
	if b, ok := any(s).([]byte); ok {
		return utf8.Valid(b)
	}
	return utf8.ValidString(string(s))
}

// shortEscape returns the letter that stands for c behind a backslash, or 0.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\b':
		return 'b'
	case '\t':
		return 't'
	case '\n':
		return 'n'
	case '\f':
		return 'f'
	case '\r':
		return 'r'
	}
	return 0
}
