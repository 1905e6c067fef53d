package tct

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content/serve"
)

// FormatHash returns a hash as payloads and sitemaps hold it. Quoted, it is
// the strong ETag of the draft.
func FormatHash(sum [32]byte) string { return hashPrefix + hex.EncodeToString(sum[:]) }

// ParseHash accepts exactly what FormatHash returns.
func ParseHash(s string) (sum [32]byte, err error) {
	if !isHash(s) {
		return sum, fmt.Errorf("%.100q is no hash of the form sha256- and 64 lower-case hexadecimal digits", s)
	}
	_, err = hex.Decode(sum[:], []byte(s[len(hashPrefix):]))
	return sum, err
}

// CleanETag takes the quotes off an ETag, for comparing it with a sitemap's
// contentHash or a payload's hash, which is done octet for octet. Servers in
// the wild mark theirs as weak, and those that compress append "-gzip" or the
// like; both are taken off as well, and odd then says what was found.
func CleanETag(etag string) (hash, odd string) {
	hash = strings.TrimSpace(etag)
	if weak, ok := strings.CutPrefix(hash, "W/"); ok {
		hash, odd = weak, "it is marked as weak"
	}
	if len(hash) >= 2 && hash[0] == '"' && hash[len(hash)-1] == '"' {
		hash = hash[1 : len(hash)-1]
	} else {
		odd = "it has no quotes"
	}
	for _, suffix := range serve.CodingSuffixes() {
		if bare, ok := strings.CutSuffix(hash, suffix); ok && isHash(bare) {
			return bare, fmt.Sprintf("it ends in %s", suffix)
		}
	}
	return hash, odd
}

// MethodA returns the Method A hash of a payload that Check accepts for url,
// whatever its hash member says.
func MethodA(payload []byte, url string) (sum [32]byte, err error) {
	const name = `,"hash":`
	var from, to int64
	err = read(payload, true, func(member string, raw jsontext.Value, end int64) error {
		if member == "hash" {
			from, to = end-int64(len(raw)+len(name)), end
		}
		return checkURL(member, raw, url)
	})
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	h.Write(payload[:from])
	h.Write(payload[to:])
	h.Sum(sum[:0])
	return sum, nil
}
