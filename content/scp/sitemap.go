package scp

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Namespace is that of the sitemap's extension.
const Namespace = "https://scp-protocol.org/schemas/sitemap/1.0"

const sitemapNamespace = "http://www.sitemaps.org/schemas/sitemap/0.9"

// Limits of a sitemap: size and number of pages are those of sitemaps.org.
const (
	MaxSitemap     = 50 << 20 // octets, decompressed
	MaxSitemapURLs = 50_000
	maxListings    = 10_000 // sections, snapshots and deltas together
	maxXMLDepth    = 8
	maxField       = 4096    // octets of a text or an attribute
	maxGap         = 1 << 20 // octets from one "<" to the next
)

// ErrSitemap is wrapped by every error that says: this is no sitemap to read.
var ErrSitemap = errors.New("sitemap rejected")

// A Sitemap is what a sitemap.xml offers.
type Sitemap struct {
	Version     string
	Compression []string // names, as "zstd"
	Sections    []Section
	Listings    []Listing
	URLs        []SitemapURL
	Children    []string // of a sitemap index
	Warnings    []string
}

// A Section is one scp:section.
type Section struct {
	Name       string
	UpdateFreq string // hourly, daily, weekly or monthly
	Pages      string // a number, with "~" in front where it is an estimate
}

// A Listing is one scp:collection, of type Snapshot, or scp:delta.
type Listing struct {
	Type                      Type
	Section, Period, URL      string // Period is a delta's
	Generated, Expires, Since time.Time
	Pages, Size               int64
}

// Expired reports whether the listing says that its URL is not valid any more.
func (l *Listing) Expired(now time.Time) bool {
	return !l.Expires.IsZero() && now.After(l.Expires)
}

// A SitemapURL is one url of sitemaps.org.
type SitemapURL struct {
	Loc     string
	LastMod time.Time // zero if it names none
}

// ReadSitemap reads a sitemap or a sitemap index, packed by gzip or not. It
// streams, and holds what it returns. There are no document types, no entities
// but XML's five, and nothing outside is ever looked up: a declaration of any
// is ErrSitemap. Elements count by their namespace, whatever its prefix.
func ReadSitemap(r io.Reader) (*Sitemap, error) {
	u, err := unpack(r, Limits{Packed: MaxSitemap, Plain: MaxSitemap})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSitemap, err)
	}
	defer u.close()
	s := &sitemapReader{xml: xml.NewDecoder(&gapReader{r: u})}
	if err := s.run(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrSitemap, s.line(), err)
	}
	return &s.Sitemap, nil
}

type sitemapReader struct {
	Sitemap
	xml   *xml.Decoder
	depth int
	root  string
	url   SitemapURL
	text  []byte // of the element that is open
}

func (s *sitemapReader) line() int {
	line, _ := s.xml.InputPos()
	return line
}

func (s *sitemapReader) warn(format string, args ...any) {
	if len(s.Warnings) < maxWarnings {
		s.Warnings = append(s.Warnings, fmt.Sprintf("line %d: ", s.line())+fmt.Sprintf(format, args...))
	}
}

func (s *sitemapReader) run() error {
	for {
		t, err := s.xml.Token()
		if err == io.EOF {
			if s.root == "" {
				return errors.New("no element")
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.Directive:
			return errors.New("a document type declaration")
		case xml.StartElement:
			err = s.start(t)
		case xml.EndElement:
			s.end(t)
		case xml.CharData:
			if s.depth > 1 && len(s.text) < maxField {
				s.text = append(s.text, t[:min(len(t), maxField)]...)
			}
		}
		if err != nil {
			return err
		}
	}
}

func (s *sitemapReader) start(t xml.StartElement) error {
	s.text = s.text[:0]
	if s.depth++; s.depth > maxXMLDepth {
		return limit("more than %d elements deep", maxXMLDepth)
	}
	if s.depth == 1 {
		s.root = t.Name.Local
		if t.Name.Space != sitemapNamespace || s.root != "urlset" && s.root != "sitemapindex" {
			return fmt.Errorf("the root is %.100s %.40s, not urlset or sitemapindex of sitemaps.org", t.Name.Space, s.root)
		}
		return nil
	}
	if t.Name.Space == Namespace && s.depth == 2 {
		if len(s.Sections)+len(s.Listings) >= maxListings {
			return limit("more than %d sections and collections", maxListings)
		}
		return s.extension(t)
	}
	return nil
}

// extension reads an element of SCP that is all attributes.
func (s *sitemapReader) extension(t xml.StartElement) error {
	a := make(map[string]string, len(t.Attr))
	for _, attr := range t.Attr {
		if attr.Name.Space == "" && len(attr.Value) <= maxField {
			a[attr.Name.Local] = attr.Value
		}
	}
	switch t.Name.Local {
	case "version", "compression": // text, read at their end
	case "section":
		if a["name"] == "" {
			s.warn("a section without a name")
			return nil
		}
		s.Sections = append(s.Sections, Section{a["name"], a["updateFreq"], a["pages"]})
	case "collection", "delta":
		s.listing(t.Name.Local, a)
	default:
		s.warn("unknown element %.40s", t.Name.Local)
	}
	return nil
}

// listing notes a collection, unless it lacks what one cannot do without.
func (s *sitemapReader) listing(name string, a map[string]string) {
	l := Listing{Type: Delta, Section: a["section"], Period: a["period"], URL: a["url"]}
	if name == "collection" {
		if l.Type = Type(a["type"]); l.Type != Snapshot {
			s.warn("a collection of type %.40q", a["type"])
			return
		}
	}
	if l.Section == "" || l.URL == "" {
		s.warn("a %s without section or url", name)
		return
	}
	instant := func(key string, needed bool) (t time.Time, good bool) {
		t, odd, ok := parseTime(a[key])
		if odd && (needed || a[key] != "") {
			s.warn("%s of a %s is %.40q", key, name, a[key])
		}
		return t, ok || !needed
	}
	var ok bool
	if l.Generated, ok = instant("generated", true); !ok {
		return
	}
	if l.Since, ok = instant("since", l.Type == Delta); !ok {
		return
	}
	l.Expires, _ = instant("expires", false)
	for key, field := range map[string]*int64{"pages": &l.Pages, "size": &l.Size} {
		n, err := strconv.ParseInt(strings.TrimPrefix(strings.TrimSpace(a[key]), "~"), 10, 64)
		if err == nil && n >= 0 {
			*field = n
		}
	}
	s.Listings = append(s.Listings, l)
}

func (s *sitemapReader) end(t xml.EndElement) {
	text := strings.TrimSpace(string(s.text))
	s.text = s.text[:0]
	s.depth--
	switch {
	case t.Name.Space == Namespace && s.depth == 1 && t.Name.Local == "version":
		s.Version = text
	case t.Name.Space == Namespace && s.depth == 1 && t.Name.Local == "compression":
		for name := range strings.SplitSeq(text, ",") {
			s.Compression = append(s.Compression, strings.TrimSpace(name))
		}
	case t.Name.Space != sitemapNamespace:
	case s.depth == 2 && t.Name.Local == "loc":
		s.url.Loc = text
	case s.depth == 2 && t.Name.Local == "lastmod":
		s.url.LastMod, _, _ = parseTime(text)
	case s.depth == 1 && t.Name.Local == "url":
		s.addURL()
	case s.depth == 1 && t.Name.Local == "sitemap":
		if s.url.Loc != "" && len(s.Children) < maxChildren {
			s.Children = append(s.Children, s.url.Loc)
		}
		s.url = SitemapURL{}
	}
}

// A gapReader bounds what the XML decoder has to hold of one tag, with all its
// attributes: within it, no other "<" may stand.
type gapReader struct {
	r   io.Reader
	run int // octets since the last "<"
}

func (g *gapReader) Read(p []byte) (int, error) {
	n, err := g.r.Read(p[:min(len(p), maxGap)])
	first, last := bytes.IndexByte(p[:n], '<'), bytes.LastIndexByte(p[:n], '<')
	if first < 0 {
		first = n
	}
	if g.run += first; g.run > maxGap {
		return 0, limit("a tag or a text of more than %d octets", maxGap)
	}
	if last >= 0 {
		g.run = n - last
	}
	return n, err
}

// maxChildren is how many sitemaps of an index are looked at.
const maxChildren = 1000

func (s *sitemapReader) addURL() {
	switch {
	case s.url.Loc == "":
		s.warn("a url without loc")
	case len(s.URLs) >= MaxSitemapURLs:
		s.warn("more than %d urls; the rest is passed over", MaxSitemapURLs)
	default:
		s.URLs = append(s.URLs, s.url)
	}
	s.url = SitemapURL{}
}
