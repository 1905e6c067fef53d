package arc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// Version is the arc_sitemap_version that is written. Every 2.x is read.
const Version = "2.1"

// A Head is what a sitemap says of itself.
type Head struct {
	Version   string
	Site      string // canonical
	Generated time.Time
	// Rate is crawl_rate in requests a second; 0 where absent.
	Rate    float64
	Contact string // ai-crawl-contact
	// Since is delta_since, from which state on a delta counts; zero where it
	// does not say, and in a sitemap.
	Since time.Time
}

// Limits bound what is read of a sitemap.
type Limits struct {
	MaxSize    int64 // octets; 0: 100 MiB. Of YAML no more than 4 MiB are read.
	MaxEntries int   // 0: 100,000
}

func (l Limits) complete() Limits {
	if l.MaxSize == 0 {
		l.MaxSize = 100 << 20
	}
	if l.MaxEntries == 0 {
		l.MaxEntries = 100_000
	}
	return l
}

// maxMembers bounds the members of a sitemap beside its pages.
const maxMembers = 1000

// A Visitor takes what a sitemap holds, in its order. A nil function passes it
// over. An error that one returns ends the reading.
type Visitor struct {
	Entry func(Entry) error
	// Skip takes an entry that cannot be used; url is empty if not even that
	// could be read.
	Skip func(n int, url string, reason error) error
	// Odd takes what an operator should know, and is no reason to stop.
	Odd func(string)
}

// A Summary is what a sitemap says of itself, and how many entries it has, those
// skipped included.
type Summary struct {
	Head
	Entries int
}

// ReadSitemap reads a sitemap or a delta, in JSON or in YAML. Of JSON it holds
// one entry in memory. Entries that the schema refuses are skipped; one that is
// no JSON, has a member twice, is beyond a limit, or lacks what its head must
// say, is an error, which wraps ErrMalformed.
func ReadSitemap(r io.Reader, l Limits, v Visitor) (Summary, error) {
	l = l.complete()
	in := bufio.NewReaderSize(r, 4096)
	begins, err := firstOctet(in)
	if err != nil {
		return Summary{}, err
	}
	var source io.Reader = in
	switch begins {
	case '{':
	case '<':
		return Summary{}, malformed("%w: it begins with markup", ErrDescriptor)
	default:
		text, err := jsonOfYAML(in)
		if err != nil {
			return Summary{}, err
		}
		source = bytes.NewReader(text)
	}
	span := &spanReader{r: source, total: l.MaxSize, left: MaxEntry}
	s := sitemapReader{limits: l, visit: v, span: span, dec: jsontext.NewDecoder(span), head: make(map[string]jsontext.Value)}
	err = s.read()
	var own *visitorError
	if errors.As(err, &own) {
		return s.summary, own.error
	}
	if err != nil && !errors.Is(err, ErrMalformed) {
		err = malformed("%w", err)
	}
	return s.summary, err
}

// firstOctet passes a byte order mark and white space over.
func firstOctet(in *bufio.Reader) (byte, error) {
	if mark, err := in.Peek(3); err == nil && string(mark) == "\uFEFF" {
		in.Discard(3)
	}
	for range 4096 {
		c, err := in.ReadByte()
		switch {
		case err == io.EOF:
			return 0, malformed("it is empty")
		case err != nil:
			return 0, err
		case strings.IndexByte(" \t\r\n", c) < 0:
			return c, in.UnreadByte()
		}
	}
	return 0, malformed("it begins with white space alone")
}

// A visitorError is an error of the caller's.
type visitorError struct{ error }

type sitemapReader struct {
	limits  Limits
	visit   Visitor
	span    *spanReader
	dec     *jsontext.Decoder
	head    map[string]jsontext.Value // members beside pages
	summary Summary
}

func (s *sitemapReader) odd(format string, args ...any) {
	if s.visit.Odd != nil {
		s.visit.Odd(fmt.Sprintf(format, args...))
	}
}

// value reads one whole value of at most MaxEntry octets.
func (s *sitemapReader) value() (jsontext.Value, error) {
	s.span.left = MaxEntry
	return s.dec.ReadValue()
}

func (s *sitemapReader) token() (jsontext.Token, error) {
	s.span.left = MaxEntry
	return s.dec.ReadToken()
}

func (s *sitemapReader) read() error {
	if _, err := s.token(); err != nil { // the bracket that ReadSitemap has seen
		return err
	}
	paged := false
	for s.dec.PeekKind() != '}' {
		token, err := s.token()
		if err != nil {
			return err
		}
		name := token.String()
		if name == "pages" {
			paged = true
			err = s.pages()
		} else {
			err = s.member(name)
		}
		if err != nil {
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
	return s.finish(paged)
}

func (s *sitemapReader) member(name string) error {
	v, err := s.value()
	if err != nil {
		return err
	}
	if len(s.head) >= maxMembers {
		return limit("more than %d members", maxMembers)
	}
	const long = 64 << 10
	if len(v) <= long { // what is longer is none of ours
		s.head[name] = v.Clone()
	}
	return checkDepth(v, maxDepth)
}

func (s *sitemapReader) pages() error {
	if _, err := s.token(); err != nil {
		return err
	}
	if s.dec.StackDepth() != 2 {
		return errors.New("pages is no array")
	}
	if kind, _ := s.dec.StackIndex(2); kind != '[' {
		return errors.New("pages is no array")
	}
	for s.dec.PeekKind() != ']' {
		raw, err := s.value()
		if err != nil {
			return err
		}
		if s.summary.Entries++; s.summary.Entries > s.limits.MaxEntries {
			return limit("more than %d entries", s.limits.MaxEntries)
		}
		if err := s.entry(s.summary.Entries-1, raw); err != nil {
			return &visitorError{err}
		}
	}
	_, err := s.token()
	return err
}

func (s *sitemapReader) entry(n int, raw jsontext.Value) error {
	e, err := ParseEntry(raw)
	for _, o := range e.Odd {
		s.odd("entry %d (%.200s): %s", n, e.URL, o)
	}
	switch {
	case err != nil && s.visit.Skip != nil:
		return s.visit.Skip(n, urlOf(raw), err)
	case err == nil && s.visit.Entry != nil:
		return s.visit.Entry(e)
	}
	return nil
}

// urlOf is the URL of an entry that cannot be used, as far as it has one.
func urlOf(raw jsontext.Value) string {
	m, err := shallow(raw)
	if err != nil {
		return ""
	}
	u, err := content.CanonicalURL(stringOf(m["url"]))
	if err != nil {
		return ""
	}
	return u
}

// finish reads the head, once all of it is there.
func (s *sitemapReader) finish(paged bool) error {
	if len(s.head["@type"])+len(s.head["@context"]) > 0 && !paged {
		return malformed("%w", ErrDescriptor)
	}
	head := make(map[string]any)
	for name, v := range s.head {
		if v.Kind() == 'n' {
			s.odd("%.60q is null, and counts as missing", name)
			continue
		}
		head[name] = v
	}
	if paged {
		head["pages"] = []any{}
	}
	line, err := canonicalObject(head)
	if err != nil {
		return err
	}
	set, err := compiled()
	if err != nil {
		return err
	}
	found, err := violations(set.sitemap, line)
	if err != nil {
		return err
	}
	for _, v := range found {
		if !v.form {
			return fmt.Errorf("by the schema: %s", v)
		}
		s.odd("%s", v)
	}
	return s.fill()
}

// fill takes the members that the schema has passed.
func (s *sitemapReader) fill() (err error) {
	h := &s.summary.Head
	h.Version, h.Contact = stringOf(s.head["arc_sitemap_version"]), stringOf(s.head["ai-crawl-contact"])
	switch major, _, _ := strings.Cut(h.Version, "."); {
	case major != "2":
		return fmt.Errorf("%w: %.40q, and 2.x is read here", ErrVersion, h.Version)
	case h.Version != Version:
		s.odd("arc_sitemap_version is %.40q, not %s", h.Version, Version)
	}
	if h.Site, err = content.CanonicalURL(stringOf(s.head["site"])); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	if h.Generated, _, err = content.ParseTime(stringOf(s.head["generated_at"])); err != nil {
		return fmt.Errorf("generated_at: %w", err)
	}
	if since := stringOf(s.head["delta_since"]); since != "" {
		if h.Since, _, err = content.ParseTime(since); err != nil {
			return fmt.Errorf("delta_since: %w", err)
		}
	}
	if rate := stringOf(s.head["crawl_rate"]); rate != "" {
		if h.Rate, err = ParseRate(rate); err != nil {
			s.odd("%v", err)
		}
	}
	return nil
}

// ParseRate reads a crawl_rate: a number, a slash, and a time such as s, 10s, m,
// h or d. It returns requests a second, more than zero.
func ParseRate(s string) (float64, error) {
	number, per, ok := strings.Cut(s, "/")
	unit := map[byte]float64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}
	if !ok || per == "" || len(s) > 40 || unit[per[len(per)-1]] == 0 || strings.Trim(number, "0123456789.") != "" {
		return 0, fmt.Errorf("crawl_rate %.40q is no number of requests in a time, such as 1/s or 30/m", s)
	}
	n, err := strconv.ParseFloat(number, 64)
	span := 1.0
	if digits := per[:len(per)-1]; err == nil && digits != "" {
		var whole uint64
		whole, err = strconv.ParseUint(digits, 10, 32)
		span = float64(whole)
	}
	rate := n / (span * unit[per[len(per)-1]])
	if err != nil || !(rate > 0) || math.IsInf(rate, 0) {
		return 0, fmt.Errorf("crawl_rate %.40q is no rate above zero", s)
	}
	return rate, nil
}

// A spanReader bounds how much is read, in all and without a token or value
// having been taken out of it.
type spanReader struct {
	r           io.Reader
	total, left int64
}

func (s *spanReader) Read(p []byte) (int, error) {
	switch {
	case s.total <= 0:
		// One octet more than allowed tells an end from a surplus.
		var one [1]byte
		if n, err := s.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, limit("larger than allowed")
	case s.left <= 0:
		return 0, limit("a value of more than %d octets", MaxEntry)
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.total, s.left)])
	s.total -= int64(n)
	s.left -= int64(n)
	return n, err
}
