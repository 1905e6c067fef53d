package tct

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// DefaultSlug is the word by which a Mapping marks machine URLs where it names
// none.
const DefaultSlug = "llm"

// A Mapping gives each page its machine URL (M-URL), always the same:
// https://h/a/ has https://h/a/llm.json, and https://h/b has
// https://h/b.llm.json. A page whose URL is no plain path below Base, or whose
// name no file could have, goes by the hash of its URL:
// https://h/llm/u-HEX.json. So every M-URL is also the path of a file, and no
// two pages share one: TestNoTwoPagesShareAnMURL.
type Mapping struct {
	// Base is the URL of the folder that the M-URLs lie in, with a slash at its
	// end, in canonical form.
	Base string
	// Slug is DefaultSlug where empty.
	Slug string
}

// Check returns an error if the mapping makes no sense.
func (m Mapping) Check() error {
	if err := content.IsCanonical(m.Base); err != nil {
		return fmt.Errorf("base URL: %w", err)
	}
	if !strings.HasSuffix(m.Base, "/") || strings.IndexByte(m.Base, '?') >= 0 {
		return fmt.Errorf("base URL %q must end in a slash, and have no query", m.Base)
	}
	if strings.Trim(m.slug(), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(m.Slug) > maxSlug {
		return fmt.Errorf("a slug consists of at most %d lower-case letters, digits and hyphens", maxSlug)
	}
	return nil
}

func (m Mapping) slug() string {
	if m.Slug == "" {
		return DefaultSlug
	}
	return m.Slug
}

// MURL returns the M-URL of a page, whose URL is in canonical form.
func (m Mapping) MURL(pageURL string) string {
	path, below := strings.CutPrefix(pageURL, m.Base)
	if _, ok := fileName(path, maxName); !below || !ok {
		sum := sha256.Sum256([]byte(pageURL))
		return m.Base + m.slug() + "/u-" + hex.EncodeToString(sum[:]) + ".json"
	}
	if path == "" || strings.HasSuffix(path, "/") {
		return m.Base + path + m.slug() + ".json"
	}
	return m.Base + path + "." + m.slug() + ".json"
}

// File returns the path of the file that stands for a URL below Base, relative
// to the folder of Base; false if there is none.
func (m Mapping) File(u string) (string, bool) {
	path, below := strings.CutPrefix(u, m.Base)
	if !below || path == "" || strings.HasSuffix(path, "/") {
		return "", false
	}
	return fileName(path, maxName+len("..json")+len(m.slug()))
}

// isOurs reports whether a file may be one that the mapping names.
func (m Mapping) isOurs(file string) bool {
	_, name, _ := cutLast(file, "/")
	return name == m.slug()+".json" || strings.HasSuffix(name, "."+m.slug()+".json") ||
		strings.HasPrefix(file, m.slug()+"/u-") && strings.HasSuffix(file, ".json")
}

// cutLast cuts s around the last sep; what is in front is empty if there is none.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// maxName and maxPath bound a file's name, without the endings that an M-URL
// and a temporary file add to it, and its path; maxSlug bounds the slug.
const (
	maxName = 180
	maxPath = 1024
	maxSlug = 32
)

// fileName decodes a canonical path without its first slash into the path of a
// file, with names of at most maxName octets. It refuses a path that another
// one would share a file with, or that means something else to a file system.
func fileName(path string, maxName int) (string, bool) {
	if strings.IndexByte(path, '?') >= 0 || len(path) > maxPath {
		return "", false
	}
	for i := range len(path) {
		// What could as well stand plain is another URL, and the same file.
		if path[i] == '%' && i+2 < len(path) && strings.Contains("%21%24%26%27%28%29%2A%2B%2C%3A%3B%3D%40%2F%5C%3F", path[i:i+3]) {
			return "", false
		}
	}
	name, err := url.PathUnescape(path)
	if err != nil || !utf8.ValidString(name) {
		return "", false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if len(segment) > maxName || segment == "." || segment == ".." {
			return "", false
		}
	}
	return name, true
}
