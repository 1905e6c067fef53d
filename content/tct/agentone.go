package tct

import (
	"context"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// ErrNoMURL says that a page tells of no M-URL.
var ErrNoMURL = errors.New("the page tells of no M-URL")

// ErrNotOffered says that a page asks not to be read, or is gone for good.
var ErrNotOffered = errors.New("the page is not offered")

// Page reads one page without a sitemap: it finds the M-URL by a Link header or
// in the head of the page's HTML, and fetches that. If the M-URL names another
// page of the same origin as canonical, it is that page, with a warning for the
// operator; one of another origin is refused.
func (a *Agent) Page(ctx context.Context, pageURL string) (content.Page, error) {
	pageURL, err := content.CanonicalURL(pageURL)
	if err != nil {
		return content.Page{}, err
	}
	run, err := a.runFor(ctx, pageURL)
	if err != nil {
		return content.Page{}, err
	}
	if err := run.mayBeAbout(pageURL); err != nil {
		return content.Page{}, offered(err)
	}
	head, at, err := a.head(ctx, pageURL)
	switch {
	case err != nil:
		return content.Page{}, err
	case NoIndex(head.Robots):
		return content.Page{}, fmt.Errorf("%.200q: %w: its robots directives say noindex", pageURL, ErrNotOffered)
	case head.Alternate == "":
		return content.Page{}, fmt.Errorf("%.200q: %w", at, ErrNoMURL)
	}
	page, err := run.fetchOne(ctx, head.Alternate)
	if err == nil && page.URL != pageURL {
		page.Warnings = append(page.Warnings, fmt.Sprintf("%s links to %s, which says that it is %s; look into it", pageURL, head.Alternate, page.URL))
	}
	return page, err
}

// Fetch reads the page that an M-URL stands for, again. Caches on the way are
// asked to revalidate. The error wraps ErrNotOffered if the page is withdrawn.
func (a *Agent) Fetch(ctx context.Context, mURL string) (content.Page, error) {
	run, err := a.runFor(ctx, mURL)
	if err != nil {
		return content.Page{}, err
	}
	return run.fetchOne(ctx, mURL)
}

// runFor makes a run that remembers nothing. Its home is that of the sitemap, or
// of the page.
func (a *Agent) runFor(ctx context.Context, u string) (*Run, error) {
	run := a.Sync(nil, nil)
	run.sitemap = a.config.Sitemap
	if run.sitemap == "" {
		run.sitemap = a.config.Site
	}
	if a.config.IgnoreRobots {
		return run, nil
	}
	var err error
	if run.robots, err = a.client().Robots(ctx, u, a.config.Product); err != nil {
		return nil, fmt.Errorf("robots.txt, without which nothing may be read: %w", err)
	}
	return run, nil
}

func (r *Run) fetchOne(ctx context.Context, mURL string) (content.Page, error) {
	if err := r.mayFetch(mURL); err != nil {
		return content.Page{}, offered(err)
	}
	f, err := r.fetchPage(ctx, Item{MURL: mURL}, Held{}, true)
	if err != nil {
		return content.Page{}, offered(err)
	}
	if err := r.mayBeAbout(f.url); err != nil {
		return content.Page{}, offered(err)
	}
	return pageOf(mURL, f, f.held.Modified, r.agent.config.Now()), nil
}

// offered gives a page that is withdrawn its exported error.
func offered(err error) error {
	var gone *notOffered
	var status *fetch.StatusError
	if errors.As(err, &gone) && !errors.As(err, &status) {
		return fmt.Errorf("%w: %s", ErrNotOffered, gone.reason)
	}
	return err
}
