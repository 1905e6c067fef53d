package tct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// ErrNotAllowed says that the site's policy denies the purpose that an agent
// reads for. Nothing of the site has then been read.
var ErrNotAllowed = errors.New("the site's policy denies the purpose")

// Held is what an agent remembers of one body that it holds.
type Held struct {
	ETag     string    // as it was sent, with its quotes; may be empty
	Modified time.Time // Last-Modified; zero if unknown
}

// A Memory keeps what an agent holds between two runs, by the URL that it was
// asked for. It is private to whoever the credentials belong to.
//
// Keep is called for a page after the caller has taken it and come back for the
// next one, and for the sitemap when all is done. A memory that writes to disk
// must not let this become durable before the pages are: then an interruption
// makes an agent fetch once more, and never pass something over.
type Memory interface {
	Lookup(url string) (Held, bool)
	Keep(url string, h Held) error
	Forget(url string) error
}

// AgentConfig is what an agent is made from.
type AgentConfig struct {
	Client *fetch.Client
	// Sitemap is the URL of a sitemap or index; Site, if Sitemap is empty, that
	// of a page of the site, from which the sitemap is found.
	Sitemap, Site string

	// Origins are those, besides the sitemap's own, that M-URLs may lie at, and
	// PageURLs the beginnings that the URLs of pages may have; if there are
	// none, pages lie at the sitemap's origin. All else is skipped: a sitemap
	// is no reason to fetch from elsewhere, or to speak for somebody else.
	Origins, PageURLs []string

	// Product is the name that robots.txt calls this agent by; IgnoreRobots
	// passes robots.txt over, for sites of the agent's own operator.
	Product      string
	IgnoreRobots bool

	// Purposes are what the pages are read for, as grants spell them. A policy
	// that denies one ends a run with ErrNotAllowed before anything is read.
	Purposes []string

	Limits Limits           // of each sitemap
	Now    func() time.Time // nil: time.Now
}

// An Agent reads a site by its sitemap. It fetches the sitemap if that has
// changed, and those pages whose hash has; the rest costs no request. A page is
// taken over only if its header names it as the sitemap does, and its hash is
// its ETag: TestAPageIsTakenOnlyIfAllAgree.
type Agent struct{ config AgentConfig }

// NewAgent makes an agent.
func NewAgent(c AgentConfig) (*Agent, error) {
	if c.Client == nil || c.Sitemap == "" && c.Site == "" {
		return nil, errors.New("an agent needs a client, and a sitemap or a site")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Product == "" {
		c.Product = "uzpif-oi"
	}
	for _, p := range c.PageURLs {
		if got, err := content.CanonicalURL(p); err != nil || got != p {
			return nil, fmt.Errorf("the beginning of page URLs %.200q is not in canonical form", p)
		}
	}
	return &Agent{c}, nil
}

func (a *Agent) client() *fetch.Client { return a.config.Client }
func (a *Agent) product() string       { return a.config.Product }

// Stats count what a run did.
type Stats struct {
	SitemapUnchanged bool // and nothing else was asked for
	Listed           int  // items of the sitemaps
	Spared           int  // pages whose hash is held: no request
	NotModified      int  // pages for which the server answered 304
	Fetched          int  // pages whose body came
	Skipped          int
	Octets           int64 // over the wire, bodies alone
}

// A Run is one synchronisation. Its fields are filled in as its pages are
// read, and belong to who reads them.
type Run struct {
	Stats       Stats
	Preferences content.Preferences
	Policy      Policy // zero if there is none
	PolicyURL   string
	// Warnings are about the site as a whole, at most maxWarnings.
	Warnings []string

	agent  *Agent
	memory Memory
	skip   func(content.Skipped)

	sitemap string // its URL
	robots  *fetch.Robots
	budget  int  // requests that the policy leaves; negative: no limit
	failed  bool // something was skipped, or in doubt, that may be right the next time
	inARow  int  // failures of pages, one after the other
}

const maxWarnings = 1000

func (r *Run) warn(format string, args ...any) {
	if len(r.Warnings) < maxWarnings {
		r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
	}
}

// Sync begins a run. skip, if not nil, is called from the caller's goroutine
// for every item that gives no page.
func (a *Agent) Sync(memory Memory, skip func(content.Skipped)) *Run {
	if skip == nil {
		skip = func(content.Skipped) {}
	}
	return &Run{agent: a, memory: memory, skip: skip, budget: -1}
}

// Pages yields the site's pages by ascending M-URL, which is their Location.
// One whose body is held already is yielded as Unchanged. The sitemaps are read
// to their end first, so that the error is all that is yielded if they cannot
// be; it is content.ErrUnchanged if the sitemap is the one that is held. It holds a
// row for each item in memory, and one body.
func (r *Run) Pages(ctx context.Context) iter.Seq2[content.Page, error] {
	return func(yield func(content.Page, error) bool) {
		if err := r.pages(ctx, yield); err != nil {
			yield(content.Page{}, err)
		}
	}
}

func (r *Run) pages(ctx context.Context, yield func(content.Page, error) bool) error {
	listing, err := r.list(ctx)
	if err != nil {
		return err
	}
	if err := r.admit(ctx, listing); err != nil {
		return err
	}
	for _, item := range distinct(listing.items, func(double Item, of string) {
		r.warn("page %.200q is listed by %.200q already; its item with %.200q is passed over", double.CURL, of, double.MURL)
	}) {
		page, keep, err := r.page(ctx, item)
		if err != nil {
			if err := r.skipped(ctx, item.MURL, err); err != nil {
				return err
			}
			continue
		}
		r.inARow = 0
		if !yield(page, nil) {
			return nil
		}
		if keep.ETag != "" {
			if err := r.memory.Keep(item.MURL, keep); err != nil {
				return err
			}
		}
	}
	if r.failed {
		// The next run has to look at this very sitemap again.
		return r.memory.Forget(listing.url)
	}
	return r.memory.Keep(listing.url, listing.held)
}

// distinct sorts items by M-URL, and takes out those whose page or M-URL is
// listed already.
func distinct(items []Item, double func(item Item, of string)) []Item {
	slices.SortFunc(items, func(a, b Item) int { return cmp.Or(cmp.Compare(a.CURL, b.CURL), cmp.Compare(a.MURL, b.MURL)) })
	items = compact(items, func(i Item) string { return i.CURL }, double)
	slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(a.MURL, b.MURL) })
	return compact(items, func(i Item) string { return i.MURL }, double)
}

// compact keeps the first of neighbours that are alike.
func compact(items []Item, by func(Item) string, double func(item Item, of string)) []Item {
	kept := items[:0]
	for _, item := range items {
		if n := len(kept); n > 0 && by(kept[n-1]) == by(item) {
			double(item, kept[n-1].MURL)
			continue
		}
		kept = append(kept, item)
	}
	return kept
}

// A notOffered page is one that is to be withdrawn.
type notOffered struct{ reason string }

func (e *notOffered) Error() string { return e.reason }

// maxInARow is how many pages in a row may fail before a run is given up.
const maxInARow = 20

// skipped reports an item that gave no page. It returns the error if that is
// about more than one page.
func (r *Run) skipped(ctx context.Context, mURL string, err error) error {
	var gone *notOffered
	if errors.As(err, &gone) {
		r.Stats.Skipped++
		r.skip(content.Skipped{Location: mURL, Reason: gone.reason})
		return nil
	}
	var status *fetch.StatusError
	if ctx.Err() != nil || errors.As(err, &status) && status.RetryAfter > 0 {
		return err
	}
	if r.inARow++; r.inARow > maxInARow {
		return fmt.Errorf("more than %d pages in a row failed, the last by: %w", maxInARow, err)
	}
	r.Stats.Skipped++
	r.failed = true
	r.skip(content.Skipped{Location: mURL, Reason: err.Error(), Err: err})
	return nil
}

// mayFetch checks that an M-URL lies where M-URLs may.
func (r *Run) mayFetch(mURL string) error {
	home, err := fetch.Origin(r.sitemap)
	if err != nil {
		return err
	}
	origin, err := fetch.Origin(mURL)
	if err != nil {
		return fmt.Errorf("M-URL: %w", err)
	}
	if origin != home && !slices.Contains(r.agent.config.Origins, origin) {
		return fmt.Errorf("M-URL lies at %s, and not at %s", origin, home)
	}
	if r.robots != nil && origin == home && !r.robots.Allowed(mURL) {
		return &notOffered{"robots.txt disallows its M-URL"}
	}
	return nil
}

// mayBeAbout checks that a page is one that the sitemap may speak for.
func (r *Run) mayBeAbout(pageURL string) error {
	home, err := fetch.Origin(r.sitemap)
	if err != nil {
		return err
	}
	prefixes := r.agent.config.PageURLs
	if len(prefixes) == 0 {
		prefixes = []string{home + "/"}
	}
	if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(pageURL, p) }) {
		return fmt.Errorf("page %.200q does not lie below %q", pageURL, prefixes)
	}
	if r.robots != nil && strings.HasPrefix(pageURL, home+"/") && !r.robots.Allowed(pageURL) {
		return &notOffered{"robots.txt disallows the page"}
	}
	return nil
}
