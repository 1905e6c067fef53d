package tct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// Version names how payloads become pages. Whenever the same source may give
// another page, or other preferences, than before it changes, and everything is
// to be read anew.
const Version = "tct/2"

// SourceConfig says where a source is.
type SourceConfig struct {
	// Location is a sitemap's file, the folder of an export, or an http or https
	// URL: of a sitemap, if its path ends in .json, or else of a page of a site.
	Location string

	// BaseURL is, for a folder, the URL of that folder; it may be empty, and is
	// then found by the first item whose file is there. For a URL it is the
	// beginning of all pages' URLs; empty stands for the sitemap's own origin.
	BaseURL string

	// Agent is for a source at a URL: its client, and what else it may do. The
	// location takes the place of Sitemap and Site.
	Agent AgentConfig

	// Memory keeps the sitemap's validators of a source at a URL; nil keeps
	// none. Pages are not kept in it: what known says of them counts. A caller
	// that has forgotten pages must make it forget as well.
	Memory Memory

	Now func() time.Time // nil: time.Now
}

// A Source reads the pages of one TCT site.
type Source struct {
	config SourceConfig
	agent  *Agent // nil for a folder
	run    *Run   // the last one
}

// NewSource makes a source. It touches neither disk nor network.
func NewSource(c SourceConfig) (*Source, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.BaseURL != "" {
		if !strings.HasSuffix(c.BaseURL, "/") {
			c.BaseURL += "/"
		}
		if err := (Mapping{Base: c.BaseURL}).Check(); err != nil {
			return nil, err
		}
	}
	s := &Source{config: c}
	if !isURL(c.Location) {
		if c.Location == "" {
			return nil, errors.New("a TCT source needs a file, a folder or a URL")
		}
		return s, nil
	}
	if _, err := fetch.Origin(c.Location); err != nil {
		return nil, err
	}
	a := c.Agent
	a.Sitemap, a.Site, a.Now = c.Location, "", c.Now
	if path, _, _ := strings.Cut(c.Location, "?"); !strings.HasSuffix(path, ".json") {
		a.Sitemap, a.Site = "", c.Location
	}
	if c.BaseURL != "" {
		a.PageURLs = append(slices.Clone(a.PageURLs), c.BaseURL)
	}
	var err error
	s.agent, err = NewAgent(a)
	return s, err
}

func isURL(location string) bool {
	scheme, _, ok := strings.Cut(location, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Extraction names Version with all settings that a page depends on.
func (s *Source) Extraction() string { return fmt.Sprintf("%s %q", Version, s.config.BaseURL) }

// Check returns an error if a folder or file cannot be read. It asks nothing
// over the network.
func (s *Source) Check() error {
	if s.agent != nil {
		return nil
	}
	root, _, err := s.open()
	if err != nil {
		return err
	}
	return root.Close()
}

// Run returns the last run that Pages began, with its warnings and what the
// site says about purposes; nil before. Counts it has of a source at a URL only.
func (s *Source) Run() *Run { return s.run }

// Told is what that run found the site to say.
func (s *Source) Told() content.Told {
	if s.run == nil {
		return content.Told{}
	}
	return content.Told{Preferences: s.run.Preferences, Warnings: s.run.Warnings}
}

// Pages yields the pages by ascending location: the M-URL, or the path below
// the folder. A page whose hash is the one that known returns is yielded as
// Unchanged, and neither fetched nor read. What the sitemap lists and gives no
// page goes to skip. The error is all that is yielded if the sitemaps cannot be
// read whole; it is content.ErrUnchanged if the server says that the sitemap is
// the one that Memory holds.
func (s *Source) Pages(
	ctx context.Context, known func(location string) ([32]byte, bool), skip func(content.Skipped),
) iter.Seq2[content.Page, error] {
	if known == nil {
		known = func(string) ([32]byte, bool) { return [32]byte{}, false }
	}
	if skip == nil {
		skip = func(content.Skipped) {}
	}
	if s.agent != nil {
		s.run = s.agent.Sync(sourceMemory{s.config.Memory, s.agent.config, known}, skip)
		return s.run.Pages(ctx)
	}
	s.run = new(Run)
	return func(yield func(content.Page, error) bool) {
		if err := s.files(ctx, known, skip, yield); err != nil {
			yield(content.Page{}, err)
		}
	}
}

// Fetch reads the one page at a location that Pages gave, again. The error
// wraps fs.ErrNotExist or ErrNotOffered if there is no such page any more.
func (s *Source) Fetch(ctx context.Context, location string) (content.Page, error) {
	if s.agent != nil {
		return s.agent.Fetch(ctx, location)
	}
	root, _, err := s.open()
	if err != nil {
		return content.Page{}, err
	}
	defer root.Close()
	if !fs.ValidPath(location) {
		return content.Page{}, &fs.PathError{Op: "fetch", Path: location, Err: fs.ErrNotExist}
	}
	return s.file(ctx, root, location, Item{})
}

// sourceMemory answers for pages from what the caller knows, and for the
// sitemap from the caller's Memory.
type sourceMemory struct {
	inner Memory
	agent AgentConfig
	known func(string) ([32]byte, bool)
}

func (m sourceMemory) isSitemap(url string) bool { return m.agent.Sitemap == url }

func (m sourceMemory) Lookup(url string) (Held, bool) {
	if m.inner != nil && m.isSitemap(url) {
		return m.inner.Lookup(url)
	}
	sum, ok := m.known(url)
	if !ok {
		return Held{}, false
	}
	return Held{ETag: `"` + FormatHash(sum) + `"`}, true
}

func (m sourceMemory) Keep(url string, h Held) error {
	if m.inner == nil || !m.isSitemap(url) {
		return nil
	}
	return m.inner.Keep(url, h)
}

func (m sourceMemory) Forget(url string) error {
	if m.inner == nil || !m.isSitemap(url) {
		return nil
	}
	return m.inner.Forget(url)
}

// open opens the folder, and names the sitemap in it.
func (s *Source) open() (root *os.Root, sitemap string, err error) {
	dir, sitemap := s.config.Location, SitemapFile
	if info, err := os.Stat(dir); err != nil {
		return nil, "", fmt.Errorf("TCT source: %w", err)
	} else if !info.IsDir() {
		dir, sitemap = filepath.Split(dir)
		dir = filepath.Clean(dir)
	}
	if root, err = os.OpenRoot(dir); err != nil {
		return nil, "", fmt.Errorf("TCT source: %w", err)
	}
	info, err := root.Stat(sitemap)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", sitemap)
	}
	if err != nil {
		root.Close()
		return nil, "", fmt.Errorf("TCT source: %w", err)
	}
	return root, sitemap, nil
}

// A located is an item with the path of its file.
type located struct {
	Item
	location string
}

// files yields the pages of a folder.
func (s *Source) files(
	ctx context.Context, known func(string) ([32]byte, bool), skip func(content.Skipped), yield func(content.Page, error) bool,
) error {
	root, sitemap, err := s.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if err := s.readPolicy(root); err != nil {
		return err
	}
	items, err := s.located(root, sitemap, skip)
	if err != nil {
		return err
	}
	for _, item := range items {
		hash, err := ParseHash(item.Hash)
		if err != nil {
			return err
		}
		var page content.Page
		if old, ok := known(item.location); ok && old == hash {
			page = unchanged(Item{CURL: item.CURL, MURL: item.location}, item.Hash)
		} else if page, err = s.file(ctx, root, item.location, item.Item); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			skip(content.Skipped{Location: item.location, Reason: "its payload cannot be used", Err: err})
			continue
		}
		if !yield(page, nil) {
			return nil
		}
	}
	return nil
}

// readPolicy reads the policy that lies in the folder, if there is one. One that
// cannot be read ends the run: what it denies is not known.
func (s *Source) readPolicy(root *os.Root) error {
	file, err := root.Open(PolicyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("policy descriptor: %w", err)
	}
	defer file.Close()
	policy, odd, err := ReadPolicy(file)
	if err != nil {
		return fmt.Errorf("policy descriptor %s: %w", PolicyFile, err)
	}
	for _, o := range odd {
		s.run.warn("policy descriptor %s: %s", PolicyFile, o)
	}
	s.run.Policy, s.run.PolicyURL = policy, s.config.BaseURL+PolicyFile
	s.run.Preferences.Join(policy.Preferences(s.run.PolicyURL))
	return nil
}

// located lists the items of a folder's sitemaps by ascending location.
func (s *Source) located(root *os.Root, sitemap string, skip func(content.Skipped)) ([]located, error) {
	var items []Item
	m := Mapping{Base: s.config.BaseURL}
	open := func(name string) (io.ReadCloser, error) { return root.Open(name) }
	err := readTree(open, sitemap, m, func(item Item) error {
		items = append(items, item)
		return nil
	}, func(n int, mURL string, reason error) error {
		name, _ := m.File(mURL)
		skip(content.Skipped{Location: name, Reason: reason.Error(), Err: fmt.Errorf("item %d of %s: %w", n, sitemap, reason)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.Base == "" {
		m.Base = baseOf(root, items)
	}
	var all []located
	double := func(item Item, of string) {
		err := fmt.Errorf("page %.200q is listed by %.200q already", item.CURL, of)
		skip(content.Skipped{Location: item.MURL, Reason: err.Error(), Err: err})
	}
	for _, item := range distinct(items, double) {
		location, ok := m.File(item.MURL)
		if !ok {
			err := fmt.Errorf("M-URL %.200q has no file below %q", item.MURL, m.Base)
			skip(content.Skipped{Location: item.MURL, Reason: err.Error(), Err: err})
			continue
		}
		all = append(all, located{item, location})
	}
	slices.SortFunc(all, func(a, b located) int { return cmp.Compare(a.location, b.location) })
	return all, nil
}

// baseOf finds the URL of a folder: the shortest beginning of an M-URL below
// which its file is there. It looks at the first few items.
func baseOf(root *os.Root, items []Item) string {
	for _, item := range items[:min(len(items), 100)] {
		scheme, rest, _ := strings.Cut(item.MURL, "://")
		for at, c := range rest {
			base := scheme + "://" + rest[:at+1]
			if c != '/' {
				continue
			}
			if name, ok := (Mapping{Base: base}).File(item.MURL); ok {
				if info, err := root.Stat(name); err == nil && info.Mode().IsRegular() {
					return base
				}
			}
		}
	}
	return ""
}

// file reads one payload. With an item, all must agree: its page, its hash, and
// what the payload says.
func (s *Source) file(ctx context.Context, root *os.Root, location string, item Item) (content.Page, error) {
	if err := ctx.Err(); err != nil {
		return content.Page{}, err
	}
	if strings.HasPrefix(path.Base(location), ".") {
		return content.Page{}, &fs.PathError{Op: "fetch", Path: location, Err: fs.ErrNotExist}
	}
	file, err := root.Open(location)
	if err != nil {
		return content.Page{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return content.Page{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > content.MaxSource {
		return content.Page{}, fmt.Errorf("%s is no regular file of at most %d octets", location, content.MaxSource)
	}
	payload, err := io.ReadAll(io.LimitReader(file, content.MaxSource+1))
	if err != nil {
		return content.Page{}, err
	}
	f := &fetched{payload: payload}
	if f.document, err = Decode(payload); err != nil {
		return content.Page{}, err
	}
	f.hash = f.document.Hash
	if f.url, err = content.CanonicalURL(f.document.URL); err != nil {
		return content.Page{}, err
	}
	switch {
	case item.CURL != "" && f.url != item.CURL:
		return content.Page{}, fmt.Errorf("%w: its payload is about %.200q, not %.200q", ErrCanonical, f.url, item.CURL)
	case item.Hash != "" && f.hash != item.Hash:
		return content.Page{}, fmt.Errorf("%w: sitemap %s, payload %.100s", ErrParity, item.Hash, f.hash)
	}
	modified := item.Modified
	if modified.IsZero() {
		modified = info.ModTime().UTC().Truncate(time.Second)
	}
	return pageOf(location, f, modified, s.config.Now()), nil
}

// PageOf makes the page of a payload that came by another way than a sitemap:
// what is in our form already stays octet for octet. now bounds modified.
func PageOf(location string, payload []byte, modified, now time.Time) (content.Page, error) {
	f := &fetched{payload: payload}
	var err error
	if f.document, err = Decode(payload); err != nil {
		return content.Page{}, err
	}
	f.hash = f.document.Hash
	if f.url, err = content.CanonicalURL(f.document.URL); err != nil {
		return content.Page{}, err
	}
	return pageOf(location, f, modified, now), nil
}
