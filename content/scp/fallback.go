package scp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// hostOf is the host, with its port, of a canonical URL.
func hostOf(u string) string {
	p, err := url.Parse(u)
	if err != nil {
		return ""
	}
	return p.Host
}

// takeDirect takes in the collection that the location itself is. What claims
// to be older than what is held is a replay.
func (r *refresh) takeDirect(location string, body *bufio.Reader, response *fetch.Response) error {
	err := r.verify(body, "", offer{Listing: Listing{URL: location}})
	switch {
	case errors.Is(err, ErrRejected) && len(r.m.state.Layers) > 0:
		r.reject(location, err)
		return nil
	case err != nil:
		return err
	}
	r.seen[location] = validatorsOf(response, r.now)
	return nil
}

// fallBack reads the web pages that the sitemap lists, in place of the
// sections that are broken, and makes them a layer. It takes one page after
// the other, at the pace of the client.
func (r *refresh) fallBack(ctx context.Context, pages []SitemapURL, broken []string) error {
	where := r.s.config.Location
	switch {
	case r.s.config.Client == nil || len(pages) == 0:
		r.warn(where, fmt.Sprintf("sections %q are broken, and no web pages are known to read in their place", broken))
		return nil
	case len(pages) > r.s.config.FallbackPages:
		r.warn(where, fmt.Sprintf("%d web pages stand for broken sections; the first %d are read", len(pages), r.s.config.FallbackPages))
		pages = pages[:r.s.config.FallbackPages]
	}
	d, err := r.m.draft()
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	d.writer.keep, d.writer.generated = r.keep, r.now
	robots := make(map[string]*fetch.Robots)
	for _, u := range pages {
		err := r.webPage(ctx, d, robots, u)
		if ctx.Err() != nil {
			d.discard()
			return ctx.Err()
		}
		var failed *sinkError
		if errors.As(err, &failed) {
			d.discard()
			return fmt.Errorf("mirror: %w", failed.err)
		}
		if err != nil {
			r.skip(content.Skipped{Location: u.Loc, Reason: "its web page cannot be read: " + err.Error(), Err: err})
		}
	}
	if d.writer.pages == 0 {
		d.discard()
		return nil
	}
	state, err := d.finish(layerState{Type: fallback, Generated: r.now, URL: where})
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	r.m.adopt(state, r.now)
	return nil
}

// dropFallback lets the web pages go once no collection is broken.
func (r *refresh) dropFallback() {
	if len(r.m.state.Rejected) == 0 {
		r.m.state.Layers = slices.DeleteFunc(r.m.state.Layers, func(l layerState) bool { return l.Type == fallback })
	}
}

// webPage reads one web page into the draft.
func (r *refresh) webPage(ctx context.Context, d *draft, robots map[string]*fetch.Robots, u SitemapURL) error {
	loc, err := content.CanonicalURL(u.Loc)
	if err != nil {
		return err
	}
	if !r.keep(&Page{URL: loc}) {
		return nil
	}
	if err := r.mayRead(ctx, robots, loc); err != nil {
		return err
	}
	response, err := r.s.config.Client.Get(ctx, loc, fetch.Conditions{Accept: "text/html"})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if media := fetch.MediaType(response.Header); media != "text/html" && media != "application/xhtml+xml" {
		return fmt.Errorf("it is of type %.60q", media)
	}
	for _, value := range response.Header.Values("X-Robots-Tag") {
		if v := strings.ToLower(value); strings.Contains(v, "noindex") || strings.Contains(v, "none") {
			return nil
		}
	}
	page, blocks, err := FromHTML(response.Body, loc, response.Header.Get("Content-Type"), r.modified(u, response.Header), r.s.config.Rules)
	if errors.Is(err, ErrNotOffered) {
		return nil
	}
	if err != nil {
		return err
	}
	line, err := AppendPage(nil, &page, blocks)
	if err != nil {
		return err
	}
	walk, c := newWalker(), checked{line: line}
	switch c.read(walk, new(builder), 1); {
	case c.err != nil:
		return fmt.Errorf("SCP page: %w", c.err)
	case c.skip != "":
		return fmt.Errorf("SCP page: %s", c.skip)
	}
	d.writer.prepare(&c, walk)
	if err := d.writer.page(&c); err != nil {
		return &sinkError{err}
	}
	return nil
}

// mayRead asks the robots.txt of a page's origin, once for each.
func (r *refresh) mayRead(ctx context.Context, robots map[string]*fetch.Robots, loc string) error {
	origin, err := fetch.Origin(loc)
	if err != nil {
		return err
	}
	if robots[origin] == nil {
		if robots[origin], err = r.s.config.Client.Robots(ctx, loc, r.s.config.Product); err != nil {
			return err
		}
	}
	if !robots[origin].Allowed(loc) {
		return errors.New("its robots.txt does not allow it")
	}
	return nil
}

// modified is the best that is known of when a web page changed.
func (r *refresh) modified(u SitemapURL, h http.Header) time.Time {
	t := u.LastMod
	if t.IsZero() {
		t, _ = http.ParseTime(h.Get("Last-Modified"))
	}
	if t.IsZero() || t.After(r.now) {
		t = r.now
	}
	return t.UTC().Truncate(time.Second)
}
