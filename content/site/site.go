// Package site reads a folder of web pages: HTML, and Markdown rendered to it.
//
// A page's URL follows from its place in the folder, its payload (package tct)
// from its words. Words on two sides of a block or a line break never join,
// tags inside a line never split a word, and scripts, styles, comments and
// navigation are left out. TestExtractionAgreesWithATree and, on 4,424 pages
// that others wrote, TestExtractionAgreesWithATreeOnCppreference hold the words
// against those that a parser of another origin finds by the same rules.
//
// Nothing outside the folder is ever read: paths are resolved below one open
// directory, and symbolic links and names that start with a dot are passed
// over; TestNothingOutsideTheFolderIsRead. What is wrong with one file is
// reported and touches no other; what makes the folder's listing doubtful is an
// error before the first page, so that a caller can take a page that is not
// listed for one that is gone: TestADoubtfulListingYieldsNoPage.
package site

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// Version names the extraction. Whenever the same bytes may give another
// payload, or other preferences, than before it changes, and everything is to
// be read anew.
const Version = "site/3"

// DefaultMaxPage is the greatest size of a source file, in octets, where Site
// names none.
const DefaultMaxPage = content.MaxSource

// A Site is a folder of pages. It must not be changed while it is in use; its
// methods may be called from several goroutines.
type Site struct {
	// Dir is the folder.
	Dir string

	// BaseURL is the URL of the folder; what it lacks of a slash at its end is
	// added. It must be canonical otherwise, and without a query.
	BaseURL string

	// StripExt leaves the ending of file names out of URLs.
	StripExt bool

	// Rules say what is navigation; nil stands for DefaultRules.
	Rules *Rules

	// MaxPage is the greatest size of a source file, in octets; a greater one
	// is skipped. Zero stands for DefaultMaxPage.
	MaxPage int64
}

// Extraction names Version together with all settings that a page's URL or
// payload depends on. When it changes, what a caller knows is of no use any
// more, and everything is to be read anew.
func (s *Site) Extraction() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %v", s.BaseURL, s.StripExt)
	r := s.rules()
	for _, names := range [][]string{r.Classes, r.IDs, r.Roles, r.Lines} {
		names = slices.Clone(names)
		slices.Sort(names)
		fmt.Fprintf(h, " %q", slices.Compact(names))
	}
	return fmt.Sprintf("%s %x", Version, h.Sum(nil)[:8])
}

func (s *Site) rules() Rules {
	if s.Rules == nil {
		return DefaultRules()
	}
	return *s.Rules
}

// Check returns an error if the settings make no sense or Dir is no folder
// that can be read.
func (s *Site) Check() error {
	if s.MaxPage < 0 {
		return errors.New("the greatest size of a page is negative")
	}
	if _, err := s.base(); err != nil {
		return err
	}
	root, err := s.openListed()
	if err != nil {
		return err
	}
	return root.Close()
}

func (s *Site) base() (string, error) {
	base := s.BaseURL
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	if err := content.IsCanonical(base); err != nil {
		return "", fmt.Errorf("base URL: %w", err)
	}
	if strings.IndexByte(base, '?') >= 0 {
		return "", fmt.Errorf("base URL %q has a query", s.BaseURL)
	}
	return base, nil
}

// open opens the folder.
func (s *Site) open() (*os.Root, error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, fmt.Errorf("site folder: %w", err)
	}
	return root, nil
}

// openListed opens the folder and makes sure that it can be listed.
func (s *Site) openListed() (*os.Root, error) {
	root, err := s.open()
	if err != nil {
		return nil, err
	}
	dir, err := root.Open(".")
	if err == nil {
		defer dir.Close()
		if _, err = dir.Readdirnames(1); err == nil || isEOF(err) {
			return root, nil
		}
	}
	root.Close()
	return nil, fmt.Errorf("site folder: %w", err)
}

// Fetch reads the one page at a location that Pages gave, again. An error
// wraps fs.ErrNotExist if the page is gone, and ErrNotOffered if it now asks
// not to be offered. Of several files that now stand for one URL it knows
// nothing: only Pages sees all.
func (s *Site) Fetch(ctx context.Context, location string) (content.Page, error) {
	if err := ctx.Err(); err != nil {
		return content.Page{}, err
	}
	base, err := s.base()
	if err != nil {
		return content.Page{}, err
	}
	root, err := s.open()
	if err != nil {
		return content.Page{}, err
	}
	defer root.Close()
	if err := checkLocation(root, location); err != nil {
		return content.Page{}, err
	}
	u, err := s.pageURL(base, location)
	if err != nil {
		return content.Page{}, err
	}
	r := s.borrow(root)
	defer r.giveBack()
	return r.read(entry{location: location, url: u})
}

// checkLocation refuses what a walk would not have found.
func checkLocation(root *os.Root, location string) error {
	bad := &fs.PathError{Op: "fetch", Path: location, Err: fs.ErrNotExist}
	if !fs.ValidPath(location) || kindOf(location) == noPage {
		return bad
	}
	for i := range len(location) + 1 {
		if i < len(location) && location[i] != '/' {
			continue
		}
		part := location[:i]
		if strings.HasPrefix(part[strings.LastIndexByte(part, '/')+1:], ".") {
			return bad
		}
		if i == len(location) {
			break // whether it is a regular file, whoever reads it finds out
		}
		info, err := root.Lstat(part)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return bad
		}
	}
	return nil
}

// A Maker makes pages of octets that did not come out of a folder, as Pages
// makes them of its files. It is for one goroutine.
type Maker struct {
	site *Site
	base string
	r    *reader
}

// Maker returns one for the site's settings, of which Dir does not count.
func (s *Site) Maker() (*Maker, error) {
	base, err := s.base()
	if err != nil {
		return nil, err
	}
	return &Maker{s, base, s.reader(nil, nil)}, nil
}

// URL is the URL of the page at a location.
func (m *Maker) URL(location string) (string, error) { return m.site.pageURL(m.base, location) }

// Page makes a page of src, which is HTML or, if its media type says so,
// Markdown. An error wraps ErrNotOffered if the page asks not to be indexed.
func (m *Maker) Page(location, url, mediaType string, src []byte, modified time.Time) (content.Page, error) {
	defer m.r.shrink()
	page := content.Page{URL: url, Location: location, SourceHash: sha256.Sum256(src)}
	if int64(len(src)) > m.r.maxPage {
		return content.Page{}, &unfit{location, fmt.Sprintf("larger than %d octets", m.r.maxPage)}
	}
	kind := htmlPage
	if mediaType == "text/markdown" {
		kind = markdownPage
	}
	page.Modified = modified.UTC().Truncate(time.Second)
	return m.r.page(page, kind, src)
}

// Original returns the octets of the file at a location that Pages gave, and
// its media type.
func (s *Site) Original(ctx context.Context, location string) (src []byte, mediaType string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	root, err := s.open()
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	if err := checkLocation(root, location); err != nil {
		return nil, "", err
	}
	src, _, _, err = s.reader(root, nil).load(location)
	return src, mediaTypeOf(location), err
}
