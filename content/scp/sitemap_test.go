package scp

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func day(s string) time.Time {
	t, _, ok := parseTime(s)
	if !ok {
		panic(s)
	}
	return t
}

func TestTheSitemapOfTheTextIsReadInFull(t *testing.T) {
	s, err := ReadSitemap(bytes.NewReader(seed(t, "sitemap.xml")))
	if err != nil {
		t.Fatal(err)
	}
	at := "https://r2.example.com/collections/"
	want := &Sitemap{
		Version: "0.1", Compression: []string{"zstd", "gzip"},
		Sections: []Section{{"all", "daily", "~12000"}, {"blog", "daily", "~5000"}, {"docs", "weekly", "~200"}, {"products", "hourly", "~1000"}},
		Listings: []Listing{
			{Snapshot, "blog", "", at + "blog-snapshot-day15.scp.gz", day("2000-01-15"), day("2000-01-16"), time.Time{}, 5247, 52000000},
			{Snapshot, "all", "", at + "all-snapshot-latest.scp.gz", day("2000-01-15"), day("2000-01-16"), time.Time{}, 12450, 125000000},
			{Delta, "blog", "day15", at + "blog-delta-day15.scp.gz", day("2000-01-15T23:00:00Z"), day("2000-01-17"), day("2000-01-14"), 47, 480000},
			{Delta, "all", "day15", at + "all-delta-day15.scp.gz", day("2000-01-15T23:00:00Z"), day("2000-01-17"), day("2000-01-14"), 124, 1250000},
		},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("read as %+v", s)
	}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := ReadSitemap(&b)
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
}

func TestSitemapsAsPeopleWriteThem(t *testing.T) {
	read := func(body string) *Sitemap {
		t.Helper()
		s, err := ReadSitemap(strings.NewReader(`<urlset xmlns="` + sitemapNamespace + `" xmlns:x="` + Namespace + `">` + body + `</urlset>`))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	whole := `<x:collection section="a" type="snapshot" url="https://example.com/a.scp" generated="2025-01-15 10:00" expires="2025-01-16" pages="~7" size="x"/>`
	s := read(whole)
	if len(s.Listings) != 1 || !s.Listings[0].Generated.Equal(day("2025-01-15T10:00:00Z")) || s.Listings[0].Pages != 7 || s.Listings[0].Size != 0 || len(s.Warnings) != 2 {
		t.Errorf("%+v", s)
	}
	for _, tt := range []struct{ name, body string }{
		{"another prefix's element", strings.ReplaceAll(whole, "x:", "")},
		{"a collection of type delta", strings.Replace(whole, "snapshot", "delta", 1)},
		{"no url", strings.Replace(whole, "url=", "href=", 1)},
		{"no section", strings.Replace(whole, "section=", "s=", 1)},
		{"no generated", strings.Replace(whole, "generated=", "g=", 1)},
		{"a delta without since", strings.Replace(whole, "x:collection", "x:delta", 1)},
		{"a collection inside of a url", "<url>" + whole + "</url>"},
	} {
		if s := read(tt.body); len(s.Listings) != 0 {
			t.Errorf("%s: %+v", tt.name, s.Listings)
		}
	}
	s = read(`<url><loc> https://example.com/ </loc><lastmod>2025-01-15</lastmod><image xmlns="urn:x"><loc>https://other.example/</loc></image></url><url><lastmod>2025</lastmod></url><url><loc>https://example.com/b</loc></url>`)
	want := []SitemapURL{{"https://example.com/", day("2025-01-15")}, {"https://example.com/b", time.Time{}}}
	if !reflect.DeepEqual(s.URLs, want) || len(s.Warnings) != 1 {
		t.Errorf("urls %+v, warnings %q", s.URLs, s.Warnings)
	}
	index, err := ReadSitemap(bytes.NewReader(packed(t, Gzip, []byte(`<sitemapindex xmlns="`+sitemapNamespace+`"><sitemap><loc>https://example.com/s.xml</loc></sitemap></sitemapindex>`))))
	if err != nil || !reflect.DeepEqual(index.Children, []string{"https://example.com/s.xml"}) || len(index.URLs) != 0 {
		t.Errorf("index %+v, %v", index, err)
	}
}

func TestNoSitemapIsWrittenThatTheSchemaRefuses(t *testing.T) {
	good := func() *Sitemap {
		l := Listing{Snapshot, "a", "", "https://example.com/a.scp", noon, noon.Add(time.Hour), time.Time{}, 1, 2}
		d := l
		d.Type, d.Period, d.Since = Delta, "p", noon.Add(-time.Hour)
		return &Sitemap{
			Compression: []string{"zstd"}, Sections: []Section{{"a", "daily", "~1"}}, Listings: []Listing{l, d},
			URLs: []SitemapURL{{"https://example.com/?a=1&b='2'", noon}},
		}
	}
	if err := good().Write(&bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*Sitemap)
	}{
		{"a compression in capitals", func(s *Sitemap) { s.Compression[0] = "GZIP" }},
		{"a compression with a space", func(s *Sitemap) { s.Compression[0] = " gzip" }},
		{"a section without a name", func(s *Sitemap) { s.Sections[0].Name = "" }},
		{"yearly", func(s *Sitemap) { s.Sections[0].UpdateFreq = "yearly" }},
		{"many pages", func(s *Sitemap) { s.Sections[0].Pages = "many" }},
		{"no generated", func(s *Sitemap) { s.Listings[0].Generated = time.Time{} }},
		{"no expires", func(s *Sitemap) { s.Listings[0].Expires = time.Time{} }},
		{"no since", func(s *Sitemap) { s.Listings[1].Since = time.Time{} }},
		{"no period", func(s *Sitemap) { s.Listings[1].Period = "" }},
		{"a type of our own", func(s *Sitemap) { s.Listings[0].Type = fallback }},
		{"fewer than no pages", func(s *Sitemap) { s.Listings[0].Pages = -1 }},
		{"a URL that is none", func(s *Sitemap) { s.Listings[0].URL = "a.scp" }},
		{"a page that is none", func(s *Sitemap) { s.URLs[0].Loc = "javascript:x" }},
		{"too many pages", func(s *Sitemap) { s.URLs = make([]SitemapURL, MaxSitemapURLs+1) }},
	} {
		s := good()
		tt.change(s)
		var b bytes.Buffer
		if err := s.Write(&b); err == nil || b.Len() > 0 {
			t.Errorf("%s: written, %v", tt.name, err)
		}
	}
}
