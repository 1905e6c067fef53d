package scp

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// updateFreqs are the values that Appendix A knows.
var updateFreqs = []string{"hourly", "daily", "weekly", "monthly"}

// pageCount is what a section's pages attribute holds: a number, or an estimate.
var pageCount = regexp.MustCompile(`^~?[0-9]{1,18}$`)

// Write writes s as a sitemap that is valid against Appendix A and the schema
// of sitemaps.org, in s's own order. Children and Warnings are not written.
func (s *Sitemap) Write(w io.Writer) error {
	if err := s.valid(); err != nil {
		return fmt.Errorf("sitemap: %w", err)
	}
	x := &xmlWriter{}
	x.buf.WriteString(xml.Header + `<urlset xmlns="` + sitemapNamespace + "\"\n" + `        xmlns:scp="` + Namespace + "\">\n")
	x.line("  <scp:version>%s</scp:version>\n", Version)
	if len(s.Compression) > 0 {
		x.line("  <scp:compression>%s</scp:compression>\n", strings.Join(s.Compression, ","))
	}
	for _, c := range s.Sections {
		x.element("section", "name", c.Name, "updateFreq", c.UpdateFreq, "pages", c.Pages)
	}
	for _, l := range s.Listings {
		from, until := formatSeconds(l.Generated), formatSeconds(l.Expires)
		pages, size := strconv.FormatInt(l.Pages, 10), strconv.FormatInt(l.Size, 10)
		if l.Type == Snapshot {
			x.element("collection", "section", l.Section, "type", string(Snapshot), "url", l.URL,
				"generated", from, "expires", until, "pages", pages, "size", size)
			continue
		}
		x.element("delta", "section", l.Section, "period", l.Period, "url", l.URL,
			"generated", from, "expires", until, "pages", pages, "size", size, "since", formatSeconds(l.Since))
	}
	for _, u := range s.URLs {
		x.buf.WriteString("  <url><loc>")
		x.escape(u.Loc)
		x.buf.WriteString("</loc>")
		if !u.LastMod.IsZero() {
			x.buf.WriteString("<lastmod>" + formatSeconds(u.LastMod) + "</lastmod>")
		}
		x.buf.WriteString("</url>\n")
	}
	x.buf.WriteString("</urlset>\n")
	if x.buf.Len() > MaxSitemap {
		return limit("a sitemap of more than %d octets", MaxSitemap)
	}
	_, err := w.Write(x.buf.Bytes())
	return err
}

// formatSeconds prints a time that both xs:dateTime and RFC 3339 know.
func formatSeconds(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// valid says what Appendix A would refuse.
func (s *Sitemap) valid() error {
	for _, name := range s.Compression {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
			return fmt.Errorf("compression %.40q", name)
		}
	}
	for _, c := range s.Sections {
		if !isName(c.Name) || !slices.Contains(updateFreqs, c.UpdateFreq) || !pageCount.MatchString(c.Pages) {
			return fmt.Errorf("section %.80q: name, update frequency %.20q or pages %.20q", c.Name, c.UpdateFreq, c.Pages)
		}
	}
	for _, l := range s.Listings {
		if l.Type != Snapshot && l.Type != Delta || !isName(l.Section) || l.Pages < 0 || l.Size < 0 {
			return fmt.Errorf("collection %.200q: type, section or sizes", l.URL)
		}
		if l.Generated.IsZero() || l.Expires.IsZero() || l.Type == Delta && (l.Since.IsZero() || l.Period == "") {
			return fmt.Errorf("collection %.200q: generated, expires, since and period are required", l.URL)
		}
		if err := content.IsCanonical(l.URL); err != nil {
			return err
		}
	}
	if len(s.URLs) > MaxSitemapURLs || len(s.Sections)+len(s.Listings) > maxListings {
		return limit("more than %d urls or %d collections", MaxSitemapURLs, maxListings)
	}
	for _, u := range s.URLs {
		if err := content.IsCanonical(u.Loc); err != nil {
			return err
		}
	}
	return nil
}

type xmlWriter struct{ buf bytes.Buffer }

func (x *xmlWriter) line(format string, args ...any) { fmt.Fprintf(&x.buf, format, args...) }

func (x *xmlWriter) escape(s string) { _ = xml.EscapeText(&x.buf, []byte(s)) } // a Buffer does not fail

func (x *xmlWriter) element(name string, attributes ...string) {
	x.buf.WriteString("  <scp:" + name)
	for i := 0; i < len(attributes); i += 2 {
		x.buf.WriteString(" " + attributes[i] + `="`)
		x.escape(attributes[i+1])
		x.buf.WriteByte('"')
	}
	x.buf.WriteString("/>\n")
}

// writeSitemapIndex writes an index of sitemaps.
func writeSitemapIndex(w io.Writer, urls []string) error {
	x := &xmlWriter{}
	x.buf.WriteString(xml.Header + `<sitemapindex xmlns="` + sitemapNamespace + "\">\n")
	for _, u := range urls {
		x.buf.WriteString("  <sitemap><loc>")
		x.escape(u)
		x.buf.WriteString("</loc></sitemap>\n")
	}
	x.buf.WriteString("</sitemapindex>\n")
	_, err := w.Write(x.buf.Bytes())
	return err
}
