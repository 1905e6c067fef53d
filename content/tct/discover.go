package tct

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// ErrNoSitemap says that a site tells of no sitemap.
var ErrNoSitemap = errors.New("the site tells of no TCT sitemap")

// A Discovery is where a site's documents are.
type Discovery struct {
	Sitemap string
	Policy  string // empty if no link tells of one
	// By says where the sitemap was found, for the operator.
	By string
}

// Discover looks for the sitemap of the site that a page belongs to: a Link
// header of the page, then a link in its head, then WellKnown, then the Sitemap
// lines of robots.txt, of which one for JSON is preferred. No path is guessed.
// The error is ErrNoSitemap if there is none.
func (a *Agent) Discover(ctx context.Context, siteURL string) (Discovery, error) {
	var d Discovery
	head, _, err := a.head(ctx, siteURL)
	if err == nil {
		d.Policy, d.Sitemap, d.By = head.Policy, head.Index, "a link of "+siteURL
		if d.Sitemap != "" {
			return d, nil
		}
	}
	origin, originErr := fetch.Origin(siteURL)
	if originErr != nil {
		return Discovery{}, originErr
	}
	if ctx.Err() != nil {
		return Discovery{}, ctx.Err()
	}
	if d.Sitemap, d.By, err = a.wellKnown(ctx, origin); d.Sitemap != "" {
		return d, nil
	}
	robots, robotsErr := a.client().Robots(ctx, origin, a.product())
	for _, sitemap := range robots.Sitemaps {
		path, _, _ := strings.Cut(sitemap, "?")
		if strings.HasSuffix(strings.ToLower(path), ".json") {
			d.Sitemap, d.By = sitemap, "robots.txt of "+origin
			return d, nil
		}
	}
	return Discovery{}, fmt.Errorf("%s: %w", siteURL, errors.Join(ErrNoSitemap, err, robotsErr))
}

// wellKnown looks whether something stands at the well-known path.
func (a *Agent) wellKnown(ctx context.Context, origin string) (sitemap, by string, err error) {
	r, err := a.client().Get(ctx, origin+WellKnown, fetch.Conditions{Accept: "application/json"})
	var status *fetch.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusGone) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	defer r.Body.Close()
	if !isJSON(r.Header) {
		return "", "", nil
	}
	return r.URL, origin + WellKnown, nil
}

// head fetches a page and reads the links of its header and its head; those of
// the header win. url is that of the page behind all redirects.
func (a *Agent) head(ctx context.Context, pageURL string) (h Head, url string, err error) {
	r, err := a.client().Get(ctx, pageURL, fetch.Conditions{Accept: "text/html, application/xhtml+xml, */*;q=0.1"})
	if err != nil {
		return Head{}, "", err
	}
	defer r.Body.Close()
	if media := fetch.MediaType(r.Header); media == "text/html" || media == "application/xhtml+xml" {
		if h, err = ReadHead(r.Body, r.URL); err != nil {
			return Head{}, "", err
		}
	}
	links := fetch.ParseLinks(r.Header.Values("Link"), r.URL)
	for _, l := range []struct {
		rel, media string
		to         *string
	}{
		{"alternate", "application/json", &h.Alternate}, {"index", "application/json", &h.Index},
		{"describedby", "application/json", &h.Policy}, {"canonical", "", &h.Canonical},
	} {
		if found := linkOf(links, l.rel, l.media); found != "" {
			*l.to = found
		}
	}
	for _, value := range r.Header.Values("X-Robots-Tag") {
		h.Robots = append(h.Robots, robotsTag(value)...)
	}
	return h, r.URL, nil
}

// linkOf returns the target of the first link of a relation, of a media type
// if one is named.
func linkOf(links []fetch.Link, rel, media string) string {
	for _, l := range links {
		if l.Is(rel) && (media == "" || l.Type == media) {
			return l.Target
		}
	}
	return ""
}

// robotsTag reads the directives of an X-Robots-Tag field. Those for a crawler
// that is named are read as if they were for all: who is asked to leave a page
// alone is asked with reason.
func robotsTag(value string) []string {
	var words []string
	for word := range strings.SplitSeq(strings.ToLower(value), ",") {
		if _, behind, named := strings.Cut(word, ":"); named {
			word = behind
		}
		words = append(words, strings.TrimSpace(word))
	}
	return words
}

func isJSON(h http.Header) bool { return fetch.MediaType(h) == "application/json" }
