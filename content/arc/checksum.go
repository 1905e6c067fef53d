package arc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/html/charset"
)

const checksumPrefix = "sha256:"

// Checksum is the ai_checksum of a page's HTML (E.10).
func Checksum(html []byte) string { return FormatChecksum(sha256.Sum256(html)) }

// FormatChecksum writes a sum as ai_checksum does.
func FormatChecksum(sum [32]byte) string { return checksumPrefix + hex.EncodeToString(sum[:]) }

// ParseChecksum accepts exactly what FormatChecksum returns.
func ParseChecksum(s string) (sum [32]byte, ok bool) {
	digits, ok := strings.CutPrefix(s, checksumPrefix)
	if !ok || len(digits) != 2*len(sum) || strings.ToLower(digits) != digits {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return sum, err == nil
}

// holds reports whether a sum is that of a page: of its octets, or, as the text's
// own generator hashes a string, of what they are in UTF-8.
func holds(sum [32]byte, html []byte, contentType string) bool {
	if sha256.Sum256(html) == sum {
		return true
	}
	enc, name, _ := charset.DetermineEncoding(html[:min(len(html), 1024)], contentType)
	if name == "utf-8" {
		return sha256.Sum256(bytes.TrimPrefix(html, []byte("\uFEFF"))) == sum
	}
	decoded, err := enc.NewDecoder().Bytes(html)
	return err == nil && sha256.Sum256(decoded) == sum
}

// sorted yields members by name.
func sorted(m map[string]jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}
