package tct

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// A listing is what the sitemaps of a site hold.
type listing struct {
	url    string // as it was asked for
	held   Held   // of the sitemap, or of the index
	items  []Item
	policy string // by a Link of the sitemap, or ""
}

// list fetches and reads the sitemap, and those that an index names.
func (r *Run) list(ctx context.Context) (*listing, error) {
	sitemap, policy := r.agent.config.Sitemap, ""
	if sitemap == "" {
		d, err := r.agent.Discover(ctx, r.agent.config.Site)
		if err != nil {
			return nil, err
		}
		sitemap, policy = d.Sitemap, d.Policy
	}
	r.sitemap = sitemap
	held, _ := r.memory.Lookup(sitemap)
	l := &listing{url: sitemap, policy: policy}
	children, err := r.readSitemap(ctx, l, sitemap, fetch.Conditions{
		ETag: held.ETag, LastModified: held.Modified, Accept: "application/json",
	})
	if err != nil {
		return nil, err
	}
	for _, c := range children {
		if err := r.mayFetch(c.URL); err != nil {
			return nil, fmt.Errorf("sitemap %.200q of the index: %w", c.URL, err)
		}
		more, err := r.readSitemap(ctx, l, c.URL, fetch.Conditions{Accept: "application/json"})
		if err != nil {
			return nil, err
		}
		if len(more) > 0 {
			return nil, fmt.Errorf("%w: %.200q is an index inside an index", ErrSitemap, c.URL)
		}
	}
	r.Stats.Listed = len(l.items)
	return l, nil
}

// readSitemap reads one sitemap into l.
func (r *Run) readSitemap(ctx context.Context, l *listing, url string, cond fetch.Conditions) (children []Child, err error) {
	response, err := r.agent.client().Get(ctx, url, cond)
	if err != nil {
		return nil, fmt.Errorf("sitemap: %w", err)
	}
	defer response.Body.Close()
	if response.NotModified {
		r.Stats.SitemapUnchanged = true
		return nil, content.ErrUnchanged
	}
	if url == l.url {
		l.held = Held{ETag: response.ETag, Modified: lastModified(response)}
		if p := linkOf(fetch.ParseLinks(response.Header.Values("Link"), response.URL), "describedby", "application/json"); p != "" {
			l.policy = p
		}
	}
	limits := r.agent.config.Limits.complete()
	limits.MaxItems -= len(l.items)
	_, err = ReadSitemap(response.Body, limits, Visitor{
		Item: func(item Item) error {
			l.items = append(l.items, item)
			return nil
		},
		Child: func(c Child) error {
			children = append(children, c)
			return nil
		},
		Skip: func(n int, mURL string, reason error) error {
			r.warn("item %d of %.200s is skipped: %v", n, url, reason)
			r.Stats.Skipped++
			r.failed = true
			r.skip(content.Skipped{Location: mURL, Reason: reason.Error(), Err: fmt.Errorf("item %d of %.200s: %w", n, url, reason)})
			return nil
		},
		Odd: func(s string) { r.warn("%.200s: %s", url, s) },
	})
	wire, _ := response.Body.Size()
	r.Stats.Octets += wire
	if err != nil {
		return nil, fmt.Errorf("sitemap %.200q: %w", url, err)
	}
	return children, nil
}

func lastModified(r *fetch.Response) time.Time {
	t, err := http.ParseTime(r.Header.Get("Last-Modified"))
	if err != nil {
		return time.Time{}
	}
	return t
}

// admit reads robots.txt and the policy, and decides whether pages may be read.
func (r *Run) admit(ctx context.Context, l *listing) error {
	config := r.agent.config
	if !config.IgnoreRobots {
		robots, err := r.agent.client().Robots(ctx, l.url, config.Product)
		if err != nil {
			return fmt.Errorf("robots.txt, without which nothing may be read: %w", err)
		}
		r.robots = robots
		if err := r.readUses(l, robots); err != nil {
			return err
		}
	}
	if l.policy == "" {
		return nil
	}
	if err := r.readPolicy(ctx, l); err != nil {
		return err
	}
	for _, purpose := range config.Purposes {
		if answer, by := r.Preferences.About(purpose); answer == content.No {
			return fmt.Errorf("%w: %v", ErrNotAllowed, by)
		}
	}
	return nil
}

// readUses reads what robots.txt says about the use of all pages. What cannot be
// read ends the run: what it denies is not known.
func (r *Run) readUses(l *listing, robots *fetch.Robots) error {
	origin, err := fetch.Origin(l.url)
	if err != nil {
		return err
	}
	s, err := preferences.ReadRobots(robots.Uses, "robots.txt of "+origin)
	if err != nil {
		return err
	}
	for _, line := range s.Ignored {
		r.warn("%s", line)
	}
	r.Preferences.Join(s.Preferences)
	return nil
}

// readPolicy fetches the policy descriptor and heeds its rate hints. One that
// is announced and cannot be read ends the run: what it denies is not known.
func (r *Run) readPolicy(ctx context.Context, l *listing) error {
	if err := r.mayFetch(l.policy); err != nil {
		r.warn("policy descriptor: %v", err)
		return nil
	}
	response, err := r.agent.client().Get(ctx, l.policy, fetch.Conditions{Accept: "application/json"})
	if err != nil {
		return fmt.Errorf("policy descriptor: %w", err)
	}
	defer response.Body.Close()
	policy, odd, err := ReadPolicy(response.Body)
	if err != nil {
		return fmt.Errorf("policy descriptor %.200q: %w", l.policy, err)
	}
	for _, o := range odd {
		r.warn("policy descriptor %.200q: %s", l.policy, o)
	}
	r.Policy, r.PolicyURL = policy, l.policy
	r.Preferences.Join(policy.Preferences(l.policy))
	origin, err := fetch.Origin(l.url)
	if err != nil {
		return err
	}
	if policy.MaxRequestsPerDay > 0 {
		r.budget = int(min(policy.MaxRequestsPerDay, 1e9))
	}
	return r.agent.client().Slow(origin, policy.MaxRequestsPerSecond)
}

// errBudget keeps a page for the next run.
var errBudget = errors.New("the requests that the site's policy allows in a day are used up")
