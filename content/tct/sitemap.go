package tct

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrSitemap is wrapped by every error about a sitemap that cannot be read to
// its end. What it listed until then is no list: a page that is missing from it
// must not be taken for gone.
var ErrSitemap = errors.New("malformed TCT sitemap")

// An Item is one page in a sitemap.
type Item struct {
	CURL     string    // of the page; canonical when read
	MURL     string    // of its payload
	Modified time.Time // zero where absent
	Hash     string    // contentHash, as FormatHash prints it
}

// A Child is one sitemap in an index.
type Child struct {
	URL  string
	ETag string // without quotes; may be empty
}

// Limits bound what is read of a sitemap.
type Limits struct {
	MaxSize  int64 // octets; 0: 100 MiB
	MaxItems int   // items or children; 0: 1,000,000
}

// maxEntry is the greatest size of an item, a string or another single value
// in a sitemap, in octets. No more than twice that is in memory at once.
const maxEntry = 64 << 10

func (l Limits) complete() Limits {
	if l.MaxSize == 0 {
		l.MaxSize = 100 << 20
	}
	if l.MaxItems == 0 {
		l.MaxItems = 1_000_000
	}
	return l
}

// A Visitor takes what a sitemap holds, in its order. A nil function passes it
// over. An error that one returns ends the reading.
type Visitor struct {
	Item  func(Item) error
	Child func(Child) error
	// Skip takes an entry that is not well formed. mURL is empty if not even
	// that could be read.
	Skip func(n int, mURL string, reason error) error
	// Odd takes what an operator should know, and is no reason to stop.
	Odd func(string)
}

// A Summary is what a sitemap says about itself.
type Summary struct {
	Version  int64
	Profile  string
	Items    int // entries of items, those skipped included
	Children int // entries of an index
}

// ReadSitemap reads a sitemap or an index of sitemaps token by token. Entries
// that are not well formed are skipped, and members that are not known passed
// over, as the draft asks; JSON that is broken, or beyond a limit, is an error.
func ReadSitemap(r io.Reader, l Limits, v Visitor) (Summary, error) {
	l = l.complete()
	span := &spanReader{r: r, total: l.MaxSize, left: maxEntry}
	s := sitemapReader{
		limits: l, visit: v, span: span,
		// Our own count of members replaces the decoder's, which would keep
		// every name that a hostile object makes up.
		dec: jsontext.NewDecoder(span, jsontext.AllowDuplicateNames(true)),
	}
	if err := s.read(); err != nil {
		var own *visitorError
		if errors.As(err, &own) {
			return s.summary, own.error
		}
		return s.summary, fmt.Errorf("%w: %w", ErrSitemap, err)
	}
	return s.summary, nil
}

// A visitorError is an error of the caller's.
type visitorError struct{ error }

type sitemapReader struct {
	limits  Limits
	visit   Visitor
	span    *spanReader
	dec     *jsontext.Decoder
	summary Summary
}

func (s *sitemapReader) odd(format string, args ...any) {
	if s.visit.Odd != nil {
		s.visit.Odd(fmt.Sprintf(format, args...))
	}
}

func (s *sitemapReader) read() error {
	if k := s.dec.PeekKind(); k != '{' {
		if _, err := s.token(); err != nil {
			return err
		}
		return errors.New("no JSON object")
	}
	if _, err := s.token(); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for s.dec.PeekKind() != '}' {
		token, err := s.token()
		if err != nil {
			return err
		}
		name := token.String()
		switch name {
		case "version", "profile", "items", "sitemaps":
			if seen[name] {
				return fmt.Errorf("member %s stands twice", name)
			}
			seen[name] = true
		}
		if err := s.member(name); err != nil {
			return err
		}
	}
	if _, err := s.token(); err != nil {
		return err
	}
	if _, err := s.dec.ReadToken(); err != io.EOF {
		if err == nil {
			err = errors.New("something follows the object")
		}
		return err
	}
	switch {
	case !seen["items"] && !seen["sitemaps"]:
		return errors.New("neither items nor sitemaps")
	case s.summary.Version != 1:
		s.odd("version is %d, not 1", s.summary.Version)
	case s.summary.Profile != "" && s.summary.Profile != Profile:
		s.odd("profile is %.40q, not %s", s.summary.Profile, Profile)
	}
	return nil
}

// token reads one token; the next may be as long again.
func (s *sitemapReader) token() (jsontext.Token, error) {
	t, err := s.dec.ReadToken()
	s.span.left = maxEntry
	return t, err
}

func (s *sitemapReader) member(name string) error {
	switch name {
	case "version":
		raw, err := s.value()
		if err != nil {
			return err
		}
		if s.summary.Version, err = strconv.ParseInt(string(raw), 10, 64); err != nil {
			s.odd("version is %.40s, no integer", raw)
		}
		return nil
	case "profile":
		raw, err := s.value()
		if err == nil && raw.Kind() == '"' {
			var b []byte
			b, err = jsontext.AppendUnquote(nil, raw)
			s.summary.Profile = string(b)
		}
		return err
	case "items":
		return s.list(name, &s.summary.Items, s.item)
	case "sitemaps":
		return s.list(name, &s.summary.Children, s.child)
	}
	return s.pass()
}

// value reads one whole value of at most maxEntry octets.
func (s *sitemapReader) value() (jsontext.Value, error) {
	v, err := s.dec.ReadValue()
	s.span.left = maxEntry
	return v, err
}

// pass reads over a value of any size, holding one token of it.
func (s *sitemapReader) pass() error {
	for depth := s.dec.StackDepth(); ; {
		if _, err := s.token(); err != nil {
			return err
		}
		if s.dec.StackDepth() <= depth {
			return nil
		}
	}
}

// list reads an array, one entry at a time.
func (s *sitemapReader) list(name string, count *int, entry func(n int, raw jsontext.Value) error) error {
	if s.dec.PeekKind() != '[' {
		if err := s.pass(); err != nil {
			return err
		}
		return fmt.Errorf("%s is no array", name)
	}
	if _, err := s.token(); err != nil {
		return err
	}
	for s.dec.PeekKind() != ']' {
		raw, err := s.value()
		if err != nil {
			return err
		}
		if *count++; *count > s.limits.MaxItems {
			return fmt.Errorf("more than %d entries", s.limits.MaxItems)
		}
		if err := entry(*count-1, raw); err != nil {
			return &visitorError{err}
		}
	}
	_, err := s.token()
	return err
}

// A spanReader bounds how much is read, in all and without any token having
// been taken out of it.
type spanReader struct {
	r           io.Reader
	total, left int64
}

// errSpan and errTotal end the reading.
func (s *spanReader) Read(p []byte) (int, error) {
	switch {
	case s.total <= 0:
		// One octet more than allowed tells an end from a surplus.
		var one [1]byte
		if n, err := s.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errors.New("larger than allowed")
	case s.left <= 0:
		return 0, fmt.Errorf("a value of more than %d octets", maxEntry)
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.total, s.left)])
	s.total -= int64(n)
	s.left -= int64(n)
	return n, err
}
