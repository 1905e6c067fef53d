package arc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

// SourceVersion names how entries become pages. Whenever the same source may give
// another page than before it changes, and everything is to be read anew.
const SourceVersion = "arc/1"

// SourceConfig says where a source is. What is zero but Location and Dir has a
// default.
type SourceConfig struct {
	// Location is a sitemap's file, in JSON or YAML, or a folder with one; or an
	// http or https URL: of a sitemap or of a descriptor, if its path ends in
	// .json, .jsonld, .yaml or .yml, or else of a page of a site.
	Location string

	// Dir is a folder of the source's own, for what it holds.
	Dir string

	// BaseURL is the beginning of all pages' URLs; empty stands for the sitemap's
	// own origin or, of a file, for that of its member site. Of a folder it is also
	// the URL that the pages' HTML beside the sitemap is found by.
	BaseURL string

	// Client fetches URLs; without one, only files are read. Origins are those,
	// besides the sitemap's own, that pages may be fetched from.
	Client  *fetch.Client
	Origins []string

	// Product is the name that robots.txt calls us by; IgnoreRobots passes
	// robots.txt over, for sites of one's own.
	Product      string
	IgnoreRobots bool

	// Sample is how many pages of one reading, of those whose snapshot is new or
	// has changed, are fetched after all and held against it. What a snapshot has
	// wrong is told as a warning: it stays the page. 0: none.
	Sample int

	Limits Limits
	Rules  *site.Rules      // say what of a web page is navigation
	Now    func() time.Time // nil: time.Now
}

// recheck is after how long a sitemap is asked for as a whole although deltas say
// that all of it is held.
const recheck = 24 * time.Hour

// A Source gives the pages that a sitemap lists. Its methods may be called from
// several goroutines.
type Source struct {
	config SourceConfig

	// refreshMu lets one reading of the sitemap go on at a time; who holds it
	// owns mirror.
	refreshMu sync.Mutex
	mirror    *mirror

	currentMu sync.Mutex
	current   *listing // with a reference; nil before the first reading
	cache     *pageCache
	home      string // URL of the sitemap that current was read from
	root      string // member site of it
	told      content.Told
}

// NewSource makes a source. It touches neither disk nor network.
func NewSource(c SourceConfig) (*Source, error) {
	switch {
	case c.Location == "" || c.Dir == "":
		return nil, errors.New("an ARC source needs a location, and a folder of its own")
	case isURL(c.Location) && c.Client == nil:
		return nil, fmt.Errorf("source %s: no client to fetch it with", c.Location)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Product == "" {
		c.Product = "uzpif-oi"
	}
	if c.BaseURL != "" {
		if !strings.HasSuffix(c.BaseURL, "/") {
			c.BaseURL += "/"
		}
		if err := content.IsCanonical(c.BaseURL); err != nil || strings.IndexByte(c.BaseURL, '?') >= 0 {
			return nil, fmt.Errorf("base URL %.200q: want a canonical URL without a query", c.BaseURL)
		}
	}
	if isURL(c.Location) {
		if _, err := content.CanonicalURL(c.Location); err != nil {
			return nil, err
		}
	}
	return &Source{config: c}, nil
}

func isURL(location string) bool {
	scheme, _, ok := strings.Cut(location, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Extraction names SourceVersion with the settings that pages depend on.
func (s *Source) Extraction() string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q", s.config.BaseURL, (&site.Site{Rules: s.config.Rules}).Extraction()))
	return fmt.Sprintf("%s %x", SourceVersion, h[:8])
}

// Check returns an error if a file cannot be read. It asks nothing over the
// network.
func (s *Source) Check() error {
	if isURL(s.config.Location) {
		return nil
	}
	path, err := s.sitemapFile()
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("ARC source: %w", err)
	}
	return f.Close()
}

// Told is what the last reading found the source to say.
func (s *Source) Told() content.Told {
	s.currentMu.Lock()
	defer s.currentMu.Unlock()
	return s.told
}

// Close lets go of the mirror's file.
func (s *Source) Close() error {
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	s.currentMu.Lock()
	defer s.currentMu.Unlock()
	s.current.release()
	s.current, s.mirror = nil, nil
	return nil
}

// publish makes l the listing that readers get from now on.
func (s *Source) publish(l *listing) {
	s.currentMu.Lock()
	defer s.currentMu.Unlock()
	s.current.release()
	s.current, s.home, s.root = l, s.mirror.state.Sitemap, s.mirror.state.Head.Site
}

// A view is what one reader works on.
type view struct {
	*listing
	s          *Source
	cache      *pageCache
	home, root string
	robots     map[string]*fetch.Robots // by origin
	sample     sample
	told       *content.Told // where warnings about the whole go
	inARow     int           // failures of pages, one after the other
}

// hold returns a view of what counts, or nil if nothing does; it is to be released.
func (s *Source) hold() *view {
	s.currentMu.Lock()
	defer s.currentMu.Unlock()
	if s.current == nil {
		return nil
	}
	s.current.refs.Add(1)
	return &view{listing: s.current, s: s, cache: s.cache, home: s.home, root: s.root, robots: make(map[string]*fetch.Robots),
		sample: sample{most: s.config.Sample}}
}

// Pages brings the mirror up to date, and then yields the pages by ascending
// location, which is their URL. A page of which neither entry nor body has changed
// is yielded as Unchanged; which that is, known tells by its SourceHash. It holds
// one page, and a row for each entry.
//
// If the sitemap cannot be read whole, the error is all that is yielded, and what
// was held stays as it was. An entry that gives no page goes to skip.
func (s *Source) Pages(
	ctx context.Context, known func(location string) ([32]byte, bool), skip func(content.Skipped),
) iter.Seq2[content.Page, error] {
	if known == nil {
		known = func(string) ([32]byte, bool) { return [32]byte{}, false }
	}
	if skip == nil {
		skip = func(content.Skipped) {}
	}
	return func(yield func(content.Page, error) bool) {
		if err := s.pages(ctx, known, skip, yield); err != nil {
			yield(content.Page{}, err)
		}
	}
}

// maxInARow is how many pages in a row may fail before a reading is given up.
const maxInARow = 20

func (s *Source) pages(
	ctx context.Context, known func(string) ([32]byte, bool), skip func(content.Skipped), yield func(content.Page, error) bool,
) error {
	if err := s.refresh(ctx, skip); err != nil {
		return err
	}
	v := s.hold()
	if v == nil {
		return errors.New("ARC source: closed while it was read")
	}
	defer v.release()
	for _, r := range v.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := v.next(ctx, r, known)
		if err != nil {
			if err := v.failed(ctx, r.url, err, skip); err != nil {
				return err
			}
			continue
		}
		if !page.Unchanged {
			v.inARow = 0
		}
		if !yield(page, nil) {
			return nil
		}
	}
	if err := v.holdSample(ctx); err != nil {
		return err
	}
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	if s.mirror == nil {
		return nil
	}
	return v.cache.save(s.mirror, v.listing)
}

// failed reports an entry that gave no page. It returns the error if that is about
// more than one page.
func (v *view) failed(ctx context.Context, url string, err error, skip func(content.Skipped)) error {
	var gone *notOffered
	if errors.As(err, &gone) {
		skip(skipped(url, gone.reason, nil))
		return nil
	}
	var status *fetch.StatusError
	if ctx.Err() != nil || errors.As(err, &status) && status.RetryAfter > 0 {
		return err
	}
	var unfit *unusable
	if !errors.As(err, &unfit) {
		if v.inARow++; v.inARow > maxInARow {
			return fmt.Errorf("more than %d pages in a row failed, the last by: %w", maxInARow, err)
		}
	}
	skip(skipped(url, err.Error(), err))
	return nil
}

// An unusable entry is one that the sitemap's reading has found so.
type unusable struct{ reason string }

func (e *unusable) Error() string { return "its entry cannot be used: " + e.reason }

// next makes the page of a row, or finds that it is unchanged.
func (v *view) next(ctx context.Context, r row, known func(string) ([32]byte, bool)) (content.Page, error) {
	e, why, err := v.entry(r)
	if err == nil && why != "" {
		err = &unusable{why}
	}
	if err != nil {
		return content.Page{}, err
	}
	if why := e.Withdrawn(); why != "" {
		return content.Page{}, &notOffered{why}
	}
	if err := v.mayBeAbout(e.URL); err != nil {
		return content.Page{}, &unusable{err.Error()}
	}
	print, err := e.Fingerprint()
	if err != nil {
		return content.Page{}, err
	}
	old, held := known(r.url)
	unchanged := content.Page{URL: e.URL, Location: e.URL, SourceHash: old, Unchanged: true}
	now := v.s.config.Now()
	if e.Snapshot != nil || e.Checksum != "" {
		hash := sourceHash("entry", print, "")
		if held && old == hash {
			return unchanged, nil
		}
		page, err := v.read(ctx, &e, now)
		page.SourceHash = hash
		if err == nil && e.Snapshot != nil {
			v.sample.offer(r, hash)
		}
		return page, err
	}
	return v.unchecked(ctx, &e, print, unchanged, held)
}

// sourceHash tells one reading of a page from another.
func sourceHash(by string, print [32]byte, body string) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s %x %s", by, print, body))
}

// read makes a page of an entry, which is fetched if it has no snapshot.
func (v *view) read(ctx context.Context, e *Entry, now time.Time) (content.Page, error) {
	if e.Snapshot != nil {
		return e.page(now)
	}
	b, err := v.fetch(ctx, e, validators{}, false)
	if err == nil {
		if err = e.check(b); errors.Is(err, ErrChecksum) && isURL(v.s.config.Location) {
			// Something on the way may still serve what was.
			if b, err = v.fetch(ctx, e, validators{}, true); err == nil {
				err = e.check(b)
			}
		}
	}
	if err != nil {
		return content.Page{}, err
	}
	return e.pageOf(b, now, v.s.config.Rules)
}

// unchecked makes the page of an entry that has neither snapshot nor checksum. It
// asks the server unless lastmod says that nothing has changed, and then with what
// the server said of the body that is held: only if known has the page of that
// very body.
func (v *view) unchecked(ctx context.Context, e *Entry, print [32]byte, unchanged content.Page, held bool) (content.Page, error) {
	now := v.s.config.Now()
	var cond validators
	cached, ok := v.cache.lookup(e.URL)
	if ok && held && unchanged.SourceHash == sourceHash("body", print, cached.Sum) {
		if !e.Modified.IsZero() && e.Modified.Equal(cached.LastMod) && !e.Modified.After(now) {
			return unchanged, nil
		}
		cond = cached.validators
	}
	b, err := v.fetch(ctx, e, cond, false)
	if err == errNotModified {
		cached.LastMod = e.Modified
		v.cache.keep(e.URL, cached)
		return unchanged, nil
	}
	if err != nil {
		return content.Page{}, err
	}
	sum := sha256.Sum256(b.html)
	cached = heldPage{b.held, hex.EncodeToString(sum[:]), e.Modified}
	v.cache.keep(e.URL, cached)
	hash := sourceHash("body", print, cached.Sum)
	if held && unchanged.SourceHash == hash {
		return unchanged, nil
	}
	page, err := e.pageOf(b, now, v.s.config.Rules)
	page.SourceHash = hash
	return page, err
}

// Fetch reads the one page at a location that Pages gave, again, by the sitemap
// as it was last read. The error wraps fs.ErrNotExist or ErrNotOffered if there is
// no such page any more.
func (s *Source) Fetch(ctx context.Context, location string) (content.Page, error) {
	if err := s.ready(); err != nil {
		return content.Page{}, err
	}
	v := s.hold()
	if v == nil {
		return content.Page{}, gone(location)
	}
	defer v.release()
	r, ok := v.find(location)
	if !ok {
		return content.Page{}, gone(location)
	}
	return v.next(ctx, r, func(string) ([32]byte, bool) { return [32]byte{}, false })
}

// ready opens the mirror, if that has not been done.
func (s *Source) ready() error {
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	return s.openLocked()
}

func (s *Source) openLocked() error {
	if s.mirror != nil {
		return nil
	}
	m, l, err := openMirror(s.config.Dir)
	if err != nil {
		l.release()
		return fmt.Errorf("mirror: %w", err)
	}
	s.mirror = m
	s.currentMu.Lock()
	s.cache = m.openCache()
	s.currentMu.Unlock()
	if l != nil {
		s.publish(l)
	}
	return nil
}
