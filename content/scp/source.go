package scp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/internal/inorder"
)

// SourceVersion changes whenever the same collection may give other pages than
// before.
const SourceVersion = "scp/1"

// A SourceConfig says where collections are, and how they are followed. What
// is zero but Location, Dir and Now has a default.
type SourceConfig struct {
	// Location is a sitemap, a collection file, or a folder of those; or the
	// http or https URL of a sitemap or a collection. What a file is, its
	// octets tell.
	Location string

	// Dir is a folder of the source's own, for what it holds.
	Dir string

	// Client fetches URLs; without one, only files are read.
	Client *fetch.Client

	Now func() time.Time

	// Section limits the source to one section; empty takes all.
	Section string

	// Hosts are the hosts whose pages are taken. Empty stands for the host of
	// Location, if it is a URL, and for any otherwise.
	Hosts []string

	// Origins are those that collections may be fetched from. Empty takes any,
	// with a warning where it is not the sitemap's own.
	Origins []string

	// Limits bound each collection, and Quota all that the mirror holds, in
	// octets (0: 20 GB).
	Limits Limits
	Quota  int64

	// Skew is how far in the future a collection may claim to be made (0: 5
	// minutes). MaxAge is how old one that is fetched may be (0: 400 days).
	Skew, MaxAge time.Duration

	// Every is after how long a snapshot is taken although the deltas are whole
	// (0: 7 days): only it shows deletions.
	Every time.Duration

	// FallbackPages bounds how many web pages are read in place of a broken
	// collection (0: 1000).
	FallbackPages int

	// Product is our name in a site's robots.txt, which says what web pages may
	// be read; empty goes by what it says to all.
	Product string

	// Rules say what of a web page is navigation; nil stands for the defaults.
	Rules *site.Rules
}

// A Source gives the pages of collections as they stand when all that is
// listed has been applied. Its methods may be called from several goroutines.
type Source struct {
	config SourceConfig
	host   map[string]bool // nil takes any

	refreshMu sync.Mutex
	mirror    *mirror // owned by who holds refreshMu

	currentMu sync.Mutex
	current   []*layer // each with a reference; nil before the first reading
}

// NewSource makes a source. It reads nothing yet.
func NewSource(c SourceConfig) (*Source, error) {
	switch {
	case c.Location == "" || c.Dir == "":
		return nil, errors.New("a source of collections needs a location, and a folder of its own")
	case c.Now == nil:
		return nil, errors.New("a source of collections needs a clock")
	case isURL(c.Location) && c.Client == nil:
		return nil, fmt.Errorf("source %s: no client to fetch it with", c.Location)
	}
	setDefault(&c.Quota, 20_000_000_000)
	setDefault(&c.Skew, 5*time.Minute)
	setDefault(&c.MaxAge, 400*24*time.Hour)
	setDefault(&c.Every, 7*24*time.Hour)
	setDefault(&c.FallbackPages, 1000)
	s := &Source{config: c}
	hosts := c.Hosts
	if u, err := url.Parse(c.Location); isURL(c.Location) && err == nil && len(hosts) == 0 {
		hosts = []string{u.Host}
	}
	if len(hosts) > 0 {
		s.host = make(map[string]bool)
		for _, h := range hosts {
			s.host[strings.ToLower(h)] = true
		}
	}
	return s, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// Extraction names SourceVersion with the settings that pages depend on.
func (s *Source) Extraction() string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", s.config.Location, s.config.Section, s.config.Hosts))
	return fmt.Sprintf("%s %x", SourceVersion, h[:8])
}

// Check returns an error if a local location is not there. It asks no server.
func (s *Source) Check() error {
	if isURL(s.config.Location) {
		if _, err := content.CanonicalURL(s.config.Location); err != nil {
			return fmt.Errorf("source of collections: %w", err)
		}
		return nil
	}
	if _, err := os.Stat(s.config.Location); err != nil {
		return fmt.Errorf("source of collections: %w", err)
	}
	return nil
}

// Close lets go of the mirror's files.
func (s *Source) Close() error {
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	s.publish(nil)
	if s.mirror != nil {
		s.mirror.close()
		s.mirror = nil
	}
	return nil
}

// publish makes layers those that readers get from now on.
func (s *Source) publish(layers []*layer) {
	for _, l := range layers {
		l.refs.Add(1)
	}
	s.currentMu.Lock()
	old := s.current
	s.current = layers
	s.currentMu.Unlock()
	for _, l := range old {
		l.release()
	}
}

// hold returns the layers that count, and how to let go of them.
func (s *Source) hold() ([]*layer, func()) {
	s.currentMu.Lock()
	defer s.currentMu.Unlock()
	layers := s.current
	for _, l := range layers {
		l.refs.Add(1)
	}
	return layers, func() {
		for _, l := range layers {
			l.release()
		}
	}
}

// Pages brings the mirror up to date, and then yields its pages in ascending
// byte order of location, which is their URL. Small pages are read on all cores:
// it holds two of them more than there are cores, or one that is large, and, of each
// layer, one entry of the index. known is called by several goroutines.
//
// If what is listed cannot be read at all, the error is all that is yielded. A
// collection that is rejected changes nothing of what its section had before;
// it goes to skip, with its error. known, if not nil, is asked for the SHA-256
// of a location's line; where that is still true, the page is yielded as
// Unchanged.
func (s *Source) Pages(
	ctx context.Context, known func(location string) (source [32]byte, ok bool), skip func(content.Skipped),
) iter.Seq2[content.Page, error] {
	if skip == nil {
		skip = func(content.Skipped) {}
	}
	return func(yield func(content.Page, error) bool) {
		if err := s.refresh(ctx, skip); err != nil {
			yield(content.Page{}, err)
			return
		}
		layers, release := s.hold()
		defer release()
		read := func(f found) (taken, error) {
			if err := ctx.Err(); err != nil || f.length > sharedPage {
				return taken{found: f}, err
			}
			page, err := f.page(known)
			return taken{f, page, true}, err
		}
		for t, err := range inorder.Map(fold(layers), runtime.GOMAXPROCS(0), read) {
			if err == nil && !t.read {
				t.page, err = t.found.page(known)
			}
			if !yield(t.page, err) || err != nil {
				return
			}
		}
	}
}

// sharedPage is the size up to which pages are read side by side.
const sharedPage = 1 << 20

// A taken is a page on its way through Pages.
type taken struct {
	found found
	page  content.Page
	read  bool
}

// page reads the page, unless the caller knows its octets.
func (f *found) page(known func(string) ([32]byte, bool)) (content.Page, error) {
	if known != nil {
		if h, ok := known(f.url); ok && h == f.digest {
			return content.Page{URL: f.url, Location: f.url, SourceHash: f.digest, Unchanged: true}, nil
		}
	}
	p, err := f.layer.read(&f.entry)
	if err != nil {
		return content.Page{}, err
	}
	c := p.contentOf(f.digest, f.fingerprint)
	c.Location, c.SourceHash = f.url, f.digest
	c.Modified = f.modified.Truncate(time.Second)
	if f.conflict {
		c.Warnings = append(slices.Clip(c.Warnings), "another page claims the same time; the one that was first stays")
	}
	return c, nil
}

// Fetch reads the one page at a location that Pages gave, again, out of the
// mirror as it stands. An error wraps fs.ErrNotExist if the page is gone.
func (s *Source) Fetch(ctx context.Context, location string) (content.Page, error) {
	if err := ctx.Err(); err != nil {
		return content.Page{}, err
	}
	if err := s.ready(); err != nil {
		return content.Page{}, err
	}
	layers, release := s.hold()
	defer release()
	f, ok, err := find(layers, location)
	if err != nil {
		return content.Page{}, err
	}
	if !ok {
		return content.Page{}, &fs.PathError{Op: "fetch", Path: location, Err: fs.ErrNotExist}
	}
	return f.page(nil)
}

// ready opens the mirror, if that has not been done.
func (s *Source) ready() error {
	s.currentMu.Lock()
	opened := s.current != nil
	s.currentMu.Unlock()
	if opened {
		return nil
	}
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
	return s.openLocked()
}

func (s *Source) openLocked() error {
	if s.mirror != nil {
		return nil
	}
	m, err := openMirror(s.config.Dir)
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	s.mirror = m
	s.publish(append(make([]*layer, 0, len(m.open)), m.layers()...))
	return nil
}
