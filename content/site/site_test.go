package site_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

const base = "https://tidewheel.example/"

// write makes a folder of the given files and returns its path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// scan collects what Pages yields and skips.
func scan(t *testing.T, s *site.Site, known func(string) ([32]byte, bool)) (pages []content.Page, skipped []content.Skipped, err error) {
	t.Helper()
	for page, e := range s.Pages(t.Context(), known, func(k content.Skipped) { skipped = append(skipped, k) }) {
		if e != nil {
			if err != nil {
				t.Errorf("a second error: %v", e)
			}
			err = e
			continue
		}
		pages = append(pages, page)
	}
	return pages, skipped, err
}

func mustScan(t *testing.T, s *site.Site) ([]content.Page, []content.Skipped) {
	t.Helper()
	pages, skipped, err := scan(t, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pages, skipped
}

func TestPagesYieldsTheSiteInOrder(t *testing.T) {
	pages, skipped := mustScan(t, &site.Site{Dir: "../../testdata/site", BaseURL: base})
	var got []string
	for _, p := range pages {
		got = append(got, strings.TrimPrefix(p.URL, base)+" "+p.Title)
	}
	want := []string{
		"about.html About Tidewheel",
		"blog/2026-03-equinox.html Springs at the equinox",
		"blog/caf%C3%A9.html The tide clock in the café",
		"blog/ Tidewheel blog",
		"changes.md What changed in Tidewheel",
		"docs/faq.htm Questions & answers",
		"docs/guide/first-chart.html A first chart",
		"docs/ Tidewheel documentation",
		"docs/install.html Installing Tidewheel",
		"docs/reference/ Tidewheel reference",
		"docs/reference/operator+=.html Curve::operator+=",
		"docs/reference/station.html tidewheel::Station",
		"docs/reference/~clock.html Clock::~Clock",
		" Tidewheel: tide tables from a small program",
		"notes/gauge-log.html gauge-log.html",
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.IsSortedFunc(pages, func(a, b content.Page) int { return strings.Compare(a.Location, b.Location) }) {
		t.Error("locations are not in order")
	}
	if len(skipped) != 1 || skipped[0].Location != "blog/draft.html" || skipped[0].Err != nil {
		t.Errorf("skipped %+v, want the draft, as one to withdraw", skipped)
	}
	for _, p := range pages {
		checkPage(t, &p)
	}
}

// checkPage holds what must be true of every page.
func checkPage(t *testing.T, p *content.Page) {
	t.Helper()
	if err := tct.Check(p.Payload, p.URL); err != nil {
		t.Error(err)
	}
	d, err := tct.Decode(p.Payload)
	if err != nil || d.Title != p.Title || d.Language != p.Language || d.Title == "" {
		t.Errorf("%s: payload %+v, %v; page %q in %q", p.Location, d, err, p.Title, p.Language)
	}
	if d.Hash != fmt.Sprintf("sha256-%x", p.Fingerprint) || sha256.Sum256(p.Payload) != p.Digest || p.Format != content.FormatTCT {
		t.Errorf("%s: the hashes do not fit the payload", p.Location)
	}
	if p.Modified.IsZero() || p.Modified.Nanosecond() != 0 || p.Modified.Location() != time.UTC {
		t.Errorf("%s: modified %v", p.Location, p.Modified)
	}
	if strings.Contains(d.Content, "Tidewheel\nDocumentation") {
		t.Errorf("%s: its menu is in its content", p.Location)
	}
}

func TestAPageReadsAsItDoesInABrowser(t *testing.T) {
	s := &site.Site{Dir: "../../testdata/site", BaseURL: base}
	for location, want := range map[string]string{
		"docs/guide/first-chart.html": `A first chart

Ask for a day, and for the picture instead of the table:

tidewheel --chart --day 2026-03-21 "Port Ellery"

4.1 m 0.6 m
Two high waters and two low ones, about six hours apart.

The height follows h(t) = Σ` + "\u202f" + `akcos(wkt + pk), with one term for each pull of moon and sun.`,
		"docs/reference/station.html": `tidewheel::Station

A harbour and its harmonic constants. A Station never changes once it has been read, so threads may share it.

Members
Member	Unit	Meaning
name()	as sailors write it
datum()	m	chart datum below mean sea level
terms()	amplitude, in metres
phase, in degrees`,
		"changes.md": `Changes

2.4

Eleven new stations, all of them on rivers.
--chart draws on narrow terminals too.

Station	Was	Is
Port Ellery	4.4 m	4.6 m

2.3

The calendar file no longer loses the last tide of a day.`,
	} {
		page, err := s.Fetch(t.Context(), location)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := tct.Decode(page.Payload); err != nil || d.Content != want {
			t.Errorf("%s, %v:\n%s\nwant:\n%s", location, err, d.Content, want)
		}
	}
}

func TestFetchReadsWhatPagesYielded(t *testing.T) {
	s := &site.Site{Dir: "../../testdata/site", BaseURL: base}
	pages, _ := mustScan(t, s)
	for _, want := range pages {
		if got, err := s.Fetch(t.Context(), want.Location); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Fetch(%q) = %+v, %v; want %+v", want.Location, got, err, want)
		}
	}
	if _, err := s.Fetch(t.Context(), "blog/draft.html"); !errors.Is(err, site.ErrNotOffered) {
		t.Errorf("Fetch of the draft: %v, want ErrNotOffered", err)
	}
	if _, err := s.Fetch(t.Context(), "gone.html"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Fetch of a missing page: %v, want ErrNotExist", err)
	}
}

func TestCheckRefusesWhatCannotWork(t *testing.T) {
	dir := t.TempDir()
	good := site.Site{Dir: dir, BaseURL: "https://example.com/docs"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		name string
		site site.Site
	}{
		{"no base URL", site.Site{Dir: dir}},
		{"a base URL that is not canonical", site.Site{Dir: dir, BaseURL: "https://EXAMPLE.com/"}},
		{"a base URL with a query", site.Site{Dir: dir, BaseURL: "https://example.com/?a/"}},
		{"no folder", site.Site{BaseURL: base}},
		{"a folder that is missing", site.Site{Dir: filepath.Join(dir, "none"), BaseURL: base}},
		{"a negative limit", site.Site{Dir: dir, BaseURL: base, MaxPage: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.site.Check(); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestExtractionChangesWithWhatPayloadsDependOn(t *testing.T) {
	s := site.Site{Dir: "a", BaseURL: base}
	same := site.Site{Dir: "b", BaseURL: base, MaxPage: 1, Rules: new(site.DefaultRules())}
	slices.Reverse(same.Rules.Classes)
	if s.Extraction() != same.Extraction() || !strings.HasPrefix(s.Extraction(), site.Version) {
		t.Errorf("%q and %q", s.Extraction(), same.Extraction())
	}
	for name, other := range map[string]site.Site{
		"the base URL": {BaseURL: base + "x/"}, "the endings": {BaseURL: base, StripExt: true}, "the rules": {BaseURL: base, Rules: &site.Rules{}},
		"the kind of a rule": {BaseURL: base, Rules: &site.Rules{IDs: site.DefaultRules().Classes}},
	} {
		if other.Extraction() == s.Extraction() {
			t.Errorf("%s makes no difference", name)
		}
	}
}
