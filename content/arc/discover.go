package arc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// ErrNoSitemap says that a site tells of no sitemap.
var ErrNoSitemap = errors.New("the site tells of no ARC sitemap")

// isSitemapURL reports whether a URL is one of a document, by its ending.
func isSitemapURL(u string) bool {
	path, _, _ := strings.Cut(strings.ToLower(u), "?")
	return slices.ContainsFunc([]string{".json", ".jsonld", ".yaml", ".yml"}, func(ending string) bool { return strings.HasSuffix(path, ending) })
}

// discover looks for the sitemap of the site that a page belongs to: a Sitemap
// line of robots.txt that names one, the two well-known places, and JSON-LD in the
// page.
func (v *view) discover(ctx context.Context, pageURL string) (string, error) {
	origin, err := fetch.Origin(pageURL)
	if err != nil {
		return "", err
	}
	robots, err := v.robotsOf(ctx, origin)
	if err != nil {
		return "", err
	}
	if robots != nil {
		for _, s := range robots.Sitemaps {
			if strings.Contains(s, "arc-sitemap") && isSitemapURL(s) {
				return s, nil
			}
		}
	}
	for _, place := range []string{"/" + SitemapFile, "/.well-known/" + SitemapFile} {
		there, err := v.isThere(ctx, origin+place)
		if err != nil || there {
			return origin + place, err
		}
	}
	found, err := v.describes(ctx, pageURL)
	if errors.Is(err, ErrDescriptor) {
		return "", fmt.Errorf("%s: %w", pageURL, ErrNoSitemap)
	}
	return found, err
}

// isThere asks whether a document is there.
func (v *view) isThere(ctx context.Context, u string) (bool, error) {
	response, err := v.s.config.Client.Get(ctx, u, fetch.Conditions{Accept: "application/json"})
	var status *fetch.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	return fetch.MediaType(response.Header) != "text/html", nil
}

// describes reads a document that may describe where the sitemap is.
func (v *view) describes(ctx context.Context, u string) (string, error) {
	response, err := v.s.config.Client.Get(ctx, u, fetch.Conditions{Accept: "text/html, application/ld+json"})
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	document, err := response.Body.ReadAll(MaxDescriptor)
	if err != nil {
		return "", err
	}
	return ReadDescriptor(document, response.URL)
}
