package site

import (
	"crypto/sha256"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// FromHTML makes the page of one document as a server hands it out, by the same
// rules as those of a folder; nil stands for DefaultRules. pageURL is canonical.
// The error wraps ErrNotOffered if the document asks not to be indexed.
func FromHTML(src []byte, pageURL string, modified time.Time, rules *Rules) (content.Page, error) {
	s := &Site{Rules: rules}
	page := content.Page{URL: pageURL, Location: pageURL + ".html", SourceHash: sha256.Sum256(src), Modified: modified.UTC().Truncate(time.Second)}
	page, err := s.reader(nil, nil).page(page, kindOf(page.Location), src)
	page.Location = pageURL
	return page, err
}
