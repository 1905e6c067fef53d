package tct

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// ErrParity says that a page's hash, ETag and payload do not agree.
var ErrParity = errors.New("ETag and payload do not agree about the hash")

// ErrCanonical says that an M-URL does not say that it is about the page that
// it was to be about.
var ErrCanonical = errors.New("the M-URL does not name the page as canonical")

// page returns the page of an item, and what is then held of it. The ETag that
// is sent is always that of the body that is held, and never the sitemap's: to
// that, the server would answer "not modified", and the old body would be filed
// under the new hash.
func (r *Run) page(ctx context.Context, item Item) (content.Page, Held, error) {
	if err := r.mayBeAbout(item.CURL); err != nil {
		return content.Page{}, Held{}, err
	}
	if err := r.mayFetch(item.MURL); err != nil {
		return content.Page{}, Held{}, err
	}
	held, _ := r.memory.Lookup(item.MURL)
	heldHash, _ := CleanETag(held.ETag)
	if heldHash == item.Hash {
		r.Stats.Spared++
		return unchanged(item, heldHash), Held{}, nil
	}
	var warnings []string
	f, err := r.fetchPage(ctx, item, held, false)
	if err == nil && f.hash != item.Hash {
		// Either the sitemap lags behind, or something on the way still serves
		// what was. Only an answer from the far end tells, and it then counts.
		warnings = append(warnings, fmt.Sprintf("the sitemap says %s, and the server %s", item.Hash, f.hash))
		f, err = r.fetchPage(ctx, item, held, true)
		r.failed = r.failed || err == nil && f.hash != item.Hash
	}
	if err != nil {
		return content.Page{}, Held{}, err
	}
	if f.notModified {
		r.Stats.NotModified++
		p := unchanged(item, f.hash)
		p.Warnings = append(warnings, f.warnings...)
		return p, Held{}, nil
	}
	r.Stats.Fetched++
	page := pageOf(item.MURL, f, item.Modified, r.agent.config.Now())
	page.Warnings = append(warnings, page.Warnings...)
	return page, f.held, nil
}

// unchanged is a page of which hash is held.
func unchanged(item Item, hash string) content.Page {
	p := content.Page{URL: item.CURL, Location: item.MURL, Unchanged: true}
	p.SourceHash, _ = ParseHash(hash)
	return p
}

// A fetched is the answer of an M-URL that has passed all checks.
type fetched struct {
	notModified bool
	url         string // of the page
	hash        string // of the body that is held now
	held        Held
	payload     []byte
	document    Document
	warnings    []string
	stated      preferences.Statement // by the answer's header
}

func (f *fetched) warn(format string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
}

// fetchPage fetches the M-URL of an item. With through, caches on the way are
// asked to revalidate.
func (r *Run) fetchPage(ctx context.Context, item Item, held Held, through bool) (*fetched, error) {
	if r.budget == 0 {
		return nil, errBudget
	}
	if r.budget > 0 {
		r.budget--
	}
	response, err := r.agent.client().Get(ctx, item.MURL, fetch.Conditions{ETag: held.ETag, Accept: "application/json", NoCache: through})
	var status *fetch.StatusError
	if errors.As(err, &status) && status.Code == http.StatusGone {
		return nil, &notOffered{"the server answers 410 Gone"}
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	f := &fetched{held: held}
	if err := r.mayFetch(response.URL); err != nil {
		return nil, fmt.Errorf("redirected: %w", err)
	}
	for _, redirect := range response.Redirects {
		f.warn("the M-URL redirects by %d to %.200q; the sitemap should list that", redirect.Code, redirect.To)
	}
	if response.NotModified {
		f.notModified = true
		f.hash, _ = CleanETag(held.ETag)
		return f, nil
	}
	for _, value := range response.Header.Values("X-Robots-Tag") {
		if NoIndex(robotsTag(value)) {
			return nil, &notOffered{"its X-Robots-Tag says noindex"}
		}
	}
	f.heed(response.Header)
	if err := f.checkCanonical(response, item.CURL); err != nil {
		return nil, err
	}
	if err := f.read(response); err != nil {
		return nil, err
	}
	wire, _ := response.Body.Size()
	r.Stats.Octets += wire
	return f, nil
}

// heed reads what the answer's header says about the use of the page.
func (f *fetched) heed(h http.Header) {
	var broken []string
	f.stated, broken = preferences.OfResponse(h, "the answer's header")
	f.warnings = append(f.warnings, broken...)
	for _, d := range f.stated.Preferences.Denied() {
		f.warn("it is not offered under a grant of %s: %s", d.Purpose, d.Origin)
	}
}

// checkCanonical checks that the header names the page; any page, if pageURL is
// empty.
func (f *fetched) checkCanonical(response *fetch.Response, pageURL string) error {
	link := linkOf(fetch.ParseLinks(response.Header.Values("Link"), response.URL), "canonical", "")
	if link == "" {
		return fmt.Errorf("%w: it has no such link", ErrCanonical)
	}
	got, err := content.CanonicalURL(link)
	if err != nil || pageURL != "" && got != pageURL {
		return fmt.Errorf("%w: it names %.200q, not %.200q", ErrCanonical, link, pageURL)
	}
	f.url = got
	return nil
}

// read reads the body, and checks that ETag and payload agree.
func (f *fetched) read(response *fetch.Response) error {
	if !isJSON(response.Header) {
		return fmt.Errorf("the answer is of type %.80q, not application/json", response.Header.Get("Content-Type"))
	}
	payload, err := response.Body.ReadAll(content.MaxSource)
	if err != nil {
		return err
	}
	if f.document, err = Decode(payload); err != nil {
		return err
	}
	if got, err := content.CanonicalURL(f.document.URL); err != nil || got != f.url {
		return fmt.Errorf("%w: its payload is about %.200q", ErrCanonical, f.document.URL)
	}
	hash, odd := CleanETag(response.ETag)
	if odd != "" && response.ETag != "" {
		f.warn("ETag %.100s: %s", response.ETag, odd)
	}
	// String equality, and nothing else: how a hash was made is its publisher's
	// affair.
	if hash != f.document.Hash {
		return fmt.Errorf("%w: ETag %.100s, payload %.100s", ErrParity, response.ETag, f.document.Hash)
	}
	f.payload, f.hash = payload, hash
	f.held = Held{ETag: response.ETag, Modified: lastModified(response)}
	return nil
}

// pageOf makes a page of a payload that has been checked. What is in our form
// already stays octet for octet; all else is written anew in it, by Method A.
func pageOf(location string, f *fetched, modified, now time.Time) content.Page {
	d, pageURL := f.document, f.url
	p := content.Page{URL: pageURL, Location: location, Format: content.FormatTCT, Warnings: f.warnings, Preferences: f.stated.Preferences}
	p.SourceHash, _ = ParseHash(f.hash)
	warn := func(format string, args ...any) { p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...)) }
	if p.Title = strings.TrimSpace(d.Title); p.Title == "" {
		p.Title = content.LastSegment(pageURL)
		d.Title = p.Title
		warn("no title: %q, of its URL, stands in", p.Title)
	}
	var ok bool
	if p.Language, ok = content.Language(d.Language); !ok {
		warn("%.40q is no language", d.Language)
	}
	if p.Modified = modified; modified.After(now) {
		// A time that lies ahead would be the newest for ever.
		p.Modified = now.UTC().Truncate(time.Second)
		warn("modified is %s, which has not come yet", modified.Format(time.RFC3339))
	}
	var err error
	p.Fingerprint, err = MethodA(f.payload, pageURL)
	if err == nil && FormatHash(p.Fingerprint) == d.Hash && d.Title == f.document.Title {
		p.Payload = f.payload
	} else {
		if err == nil && FormatHash(p.Fingerprint) != d.Hash {
			warn("its hash is not by Method A; the payload is written anew")
		}
		d.URL, d.Language = pageURL, p.Language
		p.Payload, p.Fingerprint = Encode(nil, d)
	}
	p.Digest = sha256.Sum256(p.Payload)
	return p
}
