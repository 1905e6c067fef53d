package pages

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// A maker makes pages of resources.
type maker struct {
	base string
	head head
	site *site.Maker
	now  time.Time
}

// maker returns one for what a walk found.
func (l *list) maker(settings site.Site, now time.Time) (*maker, error) {
	if settings.BaseURL == "" {
		settings.BaseURL = l.head.Base
	}
	if settings.BaseURL == "" {
		return nil, errors.New("the burrow names no HTTPS root; say by a base URL where its pages are")
	}
	base, err := content.CanonicalURL(settings.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	settings.BaseURL = base
	m, err := settings.Maker()
	if err != nil {
		return nil, err
	}
	return &maker{strings.TrimSuffix(base, "/") + "/", l.head, m, now}, nil
}

// url is the URL of a row's page: what its payload says, or where it lies.
func (m *maker) url(h *hold, r row) (string, error) {
	if r.Type == "application/json" {
		data, err := h.read(r.Sum)
		if err != nil {
			return "", err
		}
		d, err := tct.Decode(data)
		if err != nil {
			return "", err
		}
		return d.URL, nil
	}
	return m.place(r)
}

// place is the URL of what lies at a location.
func (m *maker) place(r row) (string, error) {
	if strings.Contains(r.Location, "://") {
		return content.CanonicalURL(r.Location)
	}
	return m.site.URL(r.Location)
}

// page makes the page. Its URL lies below the base, whatever a payload says: a
// burrow does not speak for others.
func (m *maker) page(r row, data []byte) (content.Page, error) {
	page, err := m.make(r, data)
	if err != nil {
		return content.Page{}, err
	}
	if !strings.HasPrefix(page.URL, m.base) {
		return content.Page{}, fmt.Errorf("its page %.200q is not below %s", page.URL, m.base)
	}
	page.SourceHash = r.Sum
	return page, nil
}

func (m *maker) make(r row, data []byte) (content.Page, error) {
	modified := r.Modified
	if modified.IsZero() {
		modified = m.head.Time
	}
	if modified.After(m.now) { // it would be the newest for ever
		modified = m.now
	}
	if r.Type == "application/json" {
		return tct.PageOf(r.Location, data, modified.UTC().Truncate(time.Second), m.now)
	}
	url, err := m.place(r)
	if err != nil {
		return content.Page{}, err
	}
	if r.Type == "text/plain" {
		if !utf8.Valid(data) {
			return content.Page{}, errors.New("plain text that is not UTF-8")
		}
		data = fmt.Appendf(nil, "<title>%s</title><pre>%s</pre>", html.EscapeString(r.Title), html.EscapeString(string(data)))
	}
	page, err := m.site.Page(r.Location, url, r.Type, data, modified)
	if r.Type == "text/plain" {
		page.HTMLChecksum = [sha256.Size]byte{}
	}
	return page, err
}
