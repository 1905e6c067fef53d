package arc

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// Check returns nil for a payload that may stand for the page at url: an entry in
// the form of RFC 8785 with nothing left to repair, about that page, and one that
// may be offered.
func Check(payload []byte, url string) error {
	e, err := ParseEntry(payload)
	switch {
	case err != nil:
		return fmt.Errorf("ARC entry: %w", err)
	case !bytes.Equal(payload, e.Line):
		return errors.New("ARC entry: not in canonical form")
	case e.URL != url:
		return fmt.Errorf("ARC entry: it is about %.200q, not %.200q", e.URL, url)
	case e.Snapshot == nil:
		return errors.New("ARC entry: no ai_snapshot, and so nothing of the page")
	}
	if why := e.Withdrawn(); why != "" {
		return fmt.Errorf("ARC entry: %s", why)
	}
	return nil
}

// page makes the page of an entry that has a snapshot. SourceHash is the
// caller's.
func (e *Entry) page(now time.Time) (content.Page, error) {
	p := content.Page{
		URL: e.URL, Location: e.URL, Format: content.FormatARC, Payload: e.Line, Digest: sha256.Sum256(e.Line),
		Description: strings.TrimSpace(e.Summary), Warnings: e.Odd,
	}
	var err error
	if p.Fingerprint, err = e.Fingerprint(); err != nil {
		return p, err
	}
	p.HTMLChecksum, _ = ParseChecksum(e.Checksum)
	title, lang, _ := said(e.Snapshot)
	if p.Title = title; title == "" {
		p.Title = content.LastSegment(e.URL)
	}
	var ok bool
	if p.Language, ok = content.Language(lang); !ok {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%.40q is no language", lang))
	}
	if p.Modified = e.Modified; p.Modified.IsZero() || p.Modified.After(now) {
		if p.Modified.After(now) { // it would be the newest for ever
			p.Warnings = append(p.Warnings, fmt.Sprintf("lastmod is %s, which has not come yet", formatTime(p.Modified)))
		}
		p.Modified = now.UTC().Truncate(time.Second)
	}
	var stated preferences.Statement
	if e.Robots != "" {
		if err := stated.Field("robots", e.Robots, "its entry"); err != nil {
			return p, err
		}
	}
	p.Preferences.Join(stated.Preferences)
	return p, nil
}

// A body is the HTML of a page as it was read.
type body struct {
	html     []byte
	media    string // its Content-Type; empty for a file
	stated   preferences.Statement
	warnings []string
	held     validators
	modified time.Time // zero if it is not known
}

// check holds a body against the checksum of the entry, if that is one that can
// be computed.
func (e *Entry) check(b *body) error {
	sum, ok := ParseChecksum(e.Checksum)
	if !ok || holds(sum, b.html, b.media) {
		return nil
	}
	return fmt.Errorf("%w: it is %s, and the entry says %s", ErrChecksum, Checksum(b.html), e.Checksum)
}

// pageOf makes the page of an entry without a snapshot, out of its HTML: what
// that says in words and by data-ai- attributes becomes the snapshot. What the
// entry says itself stays.
func (e *Entry) pageOf(b *body, now time.Time, rules *site.Rules) (content.Page, error) {
	read, err := site.FromHTML(b.html, e.URL, now, rules)
	if errors.Is(err, site.ErrNotOffered) {
		return content.Page{}, &notOffered{"its HTML asks not to be indexed"}
	}
	if err != nil {
		return content.Page{}, err
	}
	m := readMarkup(b.html)
	if m.Closed {
		return content.Page{}, &notOffered{"its HTML says data-ai-indexable false"}
	}
	d, err := tct.Decode(read.Payload)
	if err != nil {
		return content.Page{}, err
	}
	if len(d.Content) > MaxEntry/2 {
		return content.Page{}, limit("%d octets of words in one page, at most %d", len(d.Content), MaxEntry/2)
	}
	full, err := e.with(&read, d.Content, &m)
	if err != nil {
		return content.Page{}, err
	}
	if why := full.Withdrawn(); why != "" {
		return content.Page{}, &notOffered{why}
	}
	p, err := full.page(now)
	p.Warnings = append(append(p.Warnings, read.Warnings...), b.warnings...)
	if m.Truncated {
		p.Warnings = append(p.Warnings, "it has more data-ai- attributes than are read")
	}
	if full.Modified.IsZero() && !b.modified.IsZero() && b.modified.Before(now) {
		p.Modified = b.modified.UTC().Truncate(time.Second)
	}
	p.Preferences.Join(read.Preferences)
	p.Preferences.Join(b.stated.Preferences)
	return p, err
}

// with is the entry with a snapshot of a page.
func (e *Entry) with(read *content.Page, words string, m *markup) (Entry, error) {
	members, err := shallow(e.Line)
	if err != nil {
		return Entry{}, err
	}
	all := make(map[string]any)
	for name, v := range members {
		all[name] = v
	}
	all["ai_snapshot"] = snapshot{
		Page: content.LastSegment(e.URL), Title: read.Title, Language: read.Language, Content: words, Elements: m.Elements,
	}
	summary := m.Summary
	if summary == "" {
		summary = read.Description
	}
	if _, has := all["ai_summary"]; !has && summary != "" {
		all["ai_summary"] = summary
	}
	if _, has := all["ai_tags"]; !has && len(m.Tags) > 0 {
		all["ai_tags"] = m.Tags
	}
	line, err := canonicalObject(all)
	if err != nil {
		return Entry{}, err
	}
	full, err := ParseEntry(line)
	full.Odd = e.Odd
	return full, err
}

// A notOffered page is one that is to be withdrawn.
type notOffered struct{ reason string }

func (e *notOffered) Error() string { return e.reason }
func (e *notOffered) Unwrap() error { return ErrNotOffered }
