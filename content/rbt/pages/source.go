package pages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/walk"
	"github.com/uzpif-oi/uzpif-oi/content/site"
)

// Version names how resources become pages. Whenever the same octets may give
// another page, or other preferences, than before it changes, and everything is
// to be read anew.
const Version = "rbt/1"

// ErrIncomplete says that a part of the burrow could not be read: what was not
// seen may still be there.
var ErrIncomplete = errors.New("the burrow could not be read whole")

// Config says where a source is.
type Config struct {
	// Walk says where the burrow is, and how it may be reached. State, Known and
	// Wants are the source's own.
	Walk walk.Config
	// Dir is a folder of the source's own. All of it can be had anew.
	Dir string
	// Site holds the settings by which HTML and Markdown become pages; its Dir
	// does not count. BaseURL is the URL of the burrow's root; empty stands for
	// the first HTTPS root, or where the burrow was read from.
	Site site.Site
}

// A Source reads the pages of one burrow. It is for one goroutine at a time.
type Source struct {
	config Config
	told   content.Told // by the last run
	report rbt.Report
}

// New makes a source. It touches neither disk nor network.
func New(c Config) (*Source, error) {
	if c.Dir == "" {
		return nil, errors.New("a burrow's source needs a folder of its own")
	}
	if c.Site.BaseURL != "" {
		if _, err := c.Site.Maker(); err != nil {
			return nil, err
		}
	}
	if c.Walk.Now == nil {
		c.Walk.Now = time.Now
	}
	return &Source{config: c}, nil
}

// Extraction names Version with all settings that a page depends on.
func (s *Source) Extraction() string { return Version + " " + s.config.Site.Extraction() }

// Check returns an error if a local folder cannot be read. It asks nothing over
// the network.
func (s *Source) Check() error {
	l := s.config.Walk.Start.Local
	if l == nil {
		return nil
	}
	info, err := os.Stat(l.Dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", l.Dir)
	}
	if err != nil {
		return fmt.Errorf("burrow: %w", err)
	}
	return nil
}

// Told returns what the last run of Pages warned of, and what the burrow says
// about purposes.
func (s *Source) Told() content.Told { return s.told }

// Report returns the traversal's report of the last run.
func (s *Source) Report() *rbt.Report { return &s.report }

// Pages yields the pages by ascending location: a path below the burrow's root,
// or a URL. A resource that is known, or held, is not fetched. What gives no
// page goes to skip. Nothing is yielded before the whole burrow was read; if a
// document of it cannot be, the error wraps ErrIncomplete and is all that comes.
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

func (s *Source) pages(
	ctx context.Context, known func(string) ([32]byte, bool), skip func(content.Skipped), yield func(content.Page, error) bool,
) error {
	h, err := openHold(filepath.Join(s.config.Dir, "held"))
	if err != nil {
		return err
	}
	l, err := s.list(ctx, h)
	if err != nil {
		return err
	}
	for _, k := range l.skipped {
		skip(k)
	}
	m, err := l.maker(s.config.Site, s.config.Walk.Now())
	if err != nil {
		return err
	}
	for _, row := range l.rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := s.page(h, m, row, known)
		switch {
		case errors.Is(err, site.ErrNotOffered):
			skip(content.Skipped{Location: row.Location, Reason: "it asks not to be indexed"})
			continue
		case err != nil:
			skip(content.Skipped{Location: row.Location, Reason: err.Error(), Err: err})
			continue
		}
		if !yield(page, nil) {
			return nil
		}
	}
	return h.keep(l.rows)
}

// page makes one page, or says that it is as it was.
func (s *Source) page(h *hold, m *maker, row row, known func(string) ([32]byte, bool)) (content.Page, error) {
	if old, ok := known(row.Location); ok && old == row.Sum {
		url, err := m.url(h, row)
		return content.Page{URL: url, Location: row.Location, SourceHash: row.Sum, Unchanged: true}, err
	}
	data, err := h.read(row.Sum)
	if err != nil {
		return content.Page{}, fmt.Errorf("its octets are not held: %w", err)
	}
	return m.page(row, data)
}

// Fetch reads the one page at a location that Pages gave, again: as the last
// run of Pages found it, if its octets are held still, and else by another. An
// error wraps fs.ErrNotExist if there is no such page any more.
func (s *Source) Fetch(ctx context.Context, location string) (content.Page, error) {
	h, l, err := s.listed(ctx, location)
	if err != nil {
		return content.Page{}, err
	}
	row, ok := l.lookup(location)
	if !ok {
		return content.Page{}, &fs.PathError{Op: "fetch", Path: location, Err: fs.ErrNotExist}
	}
	m, err := l.maker(s.config.Site, s.config.Walk.Now())
	if err != nil {
		return content.Page{}, err
	}
	return s.page(h, m, row, func(string) ([32]byte, bool) { return [32]byte{}, false })
}

// Original returns the octets of a resource that Pages gave a page for, and its
// media type.
func (s *Source) Original(ctx context.Context, location string) (src []byte, mediaType string, err error) {
	h, l, err := s.listed(ctx, location)
	if err != nil {
		return nil, "", err
	}
	row, ok := l.lookup(location)
	if !ok || strings.Contains(location, "://") {
		return nil, "", &fs.PathError{Op: "read", Path: location, Err: fs.ErrNotExist}
	}
	src, err = h.read(row.Sum)
	return src, row.Type, err
}

// listed returns what the last run found, or walks the burrow again where that
// is not there or does not hold the location's octets.
func (s *Source) listed(ctx context.Context, location string) (*hold, *list, error) {
	h, err := openHold(filepath.Join(s.config.Dir, "held"))
	if err != nil {
		return nil, nil, err
	}
	if l, err := h.list(); err == nil {
		if row, ok := l.lookup(location); ok && h.has(row.Sum) {
			return h, l, nil
		}
	}
	l, err := s.list(ctx, h)
	return h, l, err
}
