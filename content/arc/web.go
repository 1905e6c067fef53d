package arc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// MaxPage is the greatest size of a page's HTML, in octets.
const MaxPage = 32 << 20

// errNotModified says that the server answered 304.
var errNotModified = errors.New("not modified")

// mayBeAbout checks that a page is one that the sitemap may speak for.
func (v *view) mayBeAbout(pageURL string) error {
	beginning := v.s.config.BaseURL
	if beginning == "" {
		at := v.home
		if !isURL(at) {
			at = v.root
		}
		origin, err := fetch.Origin(at)
		if err != nil {
			return err
		}
		beginning = origin + "/"
	}
	if !strings.HasPrefix(pageURL, beginning) {
		return fmt.Errorf("page %.200q does not lie below %s", pageURL, beginning)
	}
	return nil
}

// mayFetch checks that a URL is one that may be fetched from: of the sitemap's
// origin or of one that the operator named, and not disallowed there.
func (v *view) mayFetch(ctx context.Context, u string) error {
	home, err := fetch.Origin(v.home)
	if err != nil {
		return err
	}
	origin, err := fetch.Origin(u)
	if err != nil {
		return err
	}
	if origin != home && !slices.Contains(v.s.config.Origins, origin) {
		return fmt.Errorf("it has no snapshot, and %s is none of the origins that may be fetched from", origin)
	}
	robots, err := v.robotsOf(ctx, origin)
	if err != nil {
		return fmt.Errorf("robots.txt, without which nothing may be read: %w", err)
	}
	if robots != nil && !robots.Allowed(u) {
		return &notOffered{"robots.txt disallows the page"}
	}
	return nil
}

// robotsOf returns what an origin's robots.txt says, which is asked for once a
// view; nil if it is passed over.
func (v *view) robotsOf(ctx context.Context, origin string) (*fetch.Robots, error) {
	if v.s.config.IgnoreRobots {
		return nil, nil
	}
	if r := v.robots[origin]; r != nil {
		return r, nil
	}
	r, err := v.s.config.Client.Robots(ctx, origin+"/", v.s.config.Product)
	if err != nil {
		return nil, err
	}
	v.robots[origin] = r
	return r, nil
}

// fetch reads the HTML of a page: from its server or, of a source that is a
// file, from beside the sitemap. With through, caches on the way are asked to
// revalidate.
func (v *view) fetch(ctx context.Context, e *Entry, cond validators, through bool) (*body, error) {
	if !isURL(v.s.config.Location) {
		return v.beside(e.URL)
	}
	if err := v.mayFetch(ctx, e.URL); err != nil {
		return nil, err
	}
	response, err := v.s.config.Client.Get(ctx, e.URL, fetch.Conditions{
		ETag: cond.ETag, LastModified: cond.Modified, NoCache: through, Accept: "text/html, application/xhtml+xml;q=0.9",
	})
	var status *fetch.StatusError
	if errors.As(err, &status) && status.Code == http.StatusGone {
		return nil, &notOffered{"the server answers 410 Gone"}
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.NotModified {
		return nil, errNotModified
	}
	return v.bodyOf(ctx, e, response)
}

// bodyOf reads an answer.
func (v *view) bodyOf(ctx context.Context, e *Entry, response *fetch.Response) (*body, error) {
	b := &body{media: response.Header.Get("Content-Type"), held: validatorsOf(response)}
	b.modified = b.held.Modified
	for _, r := range response.Redirects {
		b.warnings = append(b.warnings, fmt.Sprintf("its URL redirects by %d to %.200q; the sitemap should list that", r.Code, r.To))
	}
	if len(response.Redirects) > 0 {
		if err := v.mayFetch(ctx, response.URL); err != nil {
			return nil, fmt.Errorf("redirected: %w", err)
		}
	}
	if media := fetch.MediaType(response.Header); media != "text/html" && media != "application/xhtml+xml" {
		return nil, fmt.Errorf("it is of type %.60q", media)
	}
	for _, value := range response.Header.Values("X-Robots-Tag") {
		if forbids(value) {
			return nil, &notOffered{"its X-Robots-Tag says noindex"}
		}
	}
	var broken []string
	b.stated, broken = preferences.OfResponse(response.Header, "the answer's header")
	b.warnings = append(b.warnings, broken...)
	var err error
	b.html, err = response.Body.ReadAll(MaxPage)
	return b, err
}

func validatorsOf(r *fetch.Response) validators {
	t, err := http.ParseTime(r.Header.Get("Last-Modified"))
	if err != nil {
		t = time.Time{}
	}
	return validators{r.ETag, t}
}

// readUses reads what robots.txt of an origin says about the use of all pages.
// What cannot be read ends the reading: what it denies is not known.
func (v *view) readUses(ctx context.Context, origin string) error {
	robots, err := v.robotsOf(ctx, origin)
	if err != nil {
		return fmt.Errorf("robots.txt, without which nothing may be read: %w", err)
	}
	if robots == nil {
		return nil
	}
	s, err := preferences.ReadRobots(robots.Uses, "robots.txt of "+origin)
	if err != nil {
		return err
	}
	v.told.Warnings = append(v.told.Warnings, s.Ignored...)
	v.told.Preferences.Join(s.Preferences)
	if !robots.Allowed(v.home) {
		return fmt.Errorf("%w: robots.txt of %s disallows the sitemap", ErrNotOffered, origin)
	}
	return nil
}

// PolicyPath is where a site's policy stands.
const PolicyPath = "/.well-known/arc-policy.json"

// readPolicy fetches the policy of an origin, if there is one, and follows the
// rate that it suggests. One that cannot be read ends the reading.
func (v *view) readPolicy(ctx context.Context, origin string) error {
	at := origin + PolicyPath
	response, err := v.s.config.Client.Get(ctx, at, fetch.Conditions{Accept: "application/json"})
	var status *fetch.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusGone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	defer response.Body.Close()
	if fetch.MediaType(response.Header) == "text/html" {
		return nil // a server that answers everything with a page of its own
	}
	p, odd, err := ReadPolicy(response.Body, at)
	if err != nil {
		return fmt.Errorf("policy %s: %w", at, err)
	}
	v.heed(p, odd)
	return v.slow(origin, p.Rate)
}

// heed takes over what a policy says.
func (v *view) heed(p Policy, odd []string) {
	for _, o := range odd {
		v.told.Warnings = append(v.told.Warnings, "policy: "+o)
	}
	v.told.Warnings = append(v.told.Warnings, p.Says()...)
	v.told.Preferences.Join(p.Uses.Preferences)
}

// slow follows a rate that a site suggests.
func (v *view) slow(origin string, rate float64) error {
	if rate <= 0 || v.s.config.Client == nil || !isURL(v.s.config.Location) {
		return nil
	}
	return v.s.config.Client.Slow(origin, rate)
}

// canonicalHome is the URL of a sitemap as it is remembered.
func canonicalHome(u string) string {
	if c, err := content.CanonicalURL(u); err == nil {
		return c
	}
	return u
}
