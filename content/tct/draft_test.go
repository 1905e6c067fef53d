package tct_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// fooHash is the hash that the draft's examples carry: that of "foo".
const fooHash = "sha256-2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

// example reads one of the draft's examples.
func example(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/draft/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// response reads an example that is a whole HTTP response.
func response(t *testing.T, name string) *http.Response {
	t.Helper()
	wire := strings.Replace(string(example(t, name)), "\n", "\r\n", -1)
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(wire+"\r\n")), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// header reads an example that is some header fields.
func header(t *testing.T, name string) http.Header {
	t.Helper()
	h := make(http.Header)
	for line := range strings.Lines(string(example(t, name))) {
		field, value, _ := strings.Cut(line, ":")
		h.Add(field, strings.TrimSpace(value))
	}
	return h
}

// readAll reads a sitemap into lists.
type readAll struct {
	items    []tct.Item
	children []tct.Child
	skipped  []string
	odd      []string
	summary  tct.Summary
}

func (a *readAll) read(r io.Reader, l tct.Limits) (err error) {
	a.summary, err = tct.ReadSitemap(r, l, tct.Visitor{
		Item:  func(i tct.Item) error { a.items = append(a.items, i); return nil },
		Child: func(c tct.Child) error { a.children = append(a.children, c); return nil },
		Skip: func(_ int, mURL string, reason error) error {
			a.skipped = append(a.skipped, mURL+": "+reason.Error())
			return nil
		},
		Odd: func(s string) { a.odd = append(a.odd, s) },
	})
	return err
}

func TestTheDraftsExamplesOfSitemaps(t *testing.T) {
	for _, tt := range []struct {
		file           string
		items, skipped int
		profile        string
	}{
		{"sitemap.json", 1, 0, "tct-1"},
		// Their hashes are cut short: not well formed, so skipped, and no error.
		{"sitemap-homepage.json", 0, 2, "tct-1"},
		{"sitemap-appendix.json", 0, 2, ""},
	} {
		var got readAll
		if err := got.read(bytes.NewReader(example(t, tt.file)), tct.Limits{}); err != nil {
			t.Errorf("%s: %v", tt.file, err)
		}
		if len(got.items) != tt.items || len(got.skipped) != tt.skipped || got.summary.Profile != tt.profile || got.summary.Version != 1 {
			t.Errorf("%s: %+v", tt.file, got)
		}
		for _, s := range got.skipped {
			if !strings.Contains(s, `contentHash is "sha256-`) {
				t.Errorf("%s: skipped for %s", tt.file, s)
			}
		}
	}
	var one readAll
	if err := one.read(bytes.NewReader(example(t, "sitemap.json")), tct.Limits{}); err != nil {
		t.Fatal(err)
	}
	want := tct.Item{
		CURL: "https://example.com/post/", MURL: "https://example.com/post/llm/",
		Modified: time.Date(2025, 10, 1, 12, 34, 56, 0, time.UTC), Hash: fooHash,
	}
	if one.items[0] != want {
		t.Errorf("item %+v, want %+v", one.items[0], want)
	}
}

func TestTheDraftsExamplesOfResponses(t *testing.T) {
	r := response(t, "sitemap-response.http")
	var got readAll
	if err := got.read(r.Body, tct.Limits{}); !errors.Is(err, tct.ErrSitemap) {
		t.Errorf("a sitemap whose items are three dots: %v", err)
	}
	// A sitemap's own ETag may be anything; it is compared, and never parsed.
	if hash, odd := tct.CleanETag(r.Header.Get("ETag")); hash != "sha256-sitemap-fingerprint" || odd != "" {
		t.Errorf("CleanETag = %q, %q", hash, odd)
	}
	for _, name := range []string{"not-modified.http", "sitemap-not-modified.http", "head.http"} {
		r := response(t, name)
		hash, odd := tct.CleanETag(r.Header.Get("ETag"))
		_, err := tct.ParseHash(hash)
		if odd != "" || (err == nil) != (name == "not-modified.http") || r.Header.Get("Cache-Control") == "" {
			t.Errorf("%s: %q %q %v", name, hash, odd, err)
		}
	}
	r = response(t, "payload-response.http")
	body, err := io.ReadAll(r.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // its Content-Length is made up
		t.Fatal(err)
	}
	d, err := tct.Decode(body)
	if err != nil || d.Hash != fooHash || d.Language != "en" || d.URL != "https://example.com/post/" {
		t.Errorf("Decode = %+v, %v", d, err)
	}
	hash, _ := tct.CleanETag(r.Header.Get("ETag"))
	links := fetch.ParseLinks(r.Header.Values("Link"), "https://example.com/post/llm/")
	if hash != d.Hash || len(links) != 1 || links[0].Target != d.URL || !links[0].Is("canonical") {
		t.Errorf("ETag %q, links %+v", hash, links)
	}
	digest := sha256.Sum256([]byte(`{"hello": "world"}`))
	if got := header(t, "content-digest.http").Get("Content-Digest"); got != "sha-256=:"+base64.StdEncoding.EncodeToString(digest[:])+":" {
		t.Errorf("Content-Digest %s is not of those 18 octets", got)
	}
}

func TestTheDraftsExamplesOfLinks(t *testing.T) {
	head, err := tct.ReadHead(bytes.NewReader(example(t, "alternate.html")), "https://example.com/post/")
	if err != nil || head.Alternate != "https://example.com/post/llm/" {
		t.Errorf("ReadHead = %+v, %v", head, err)
	}
	for _, tt := range []struct{ file, rel, media, target string }{
		{"link-canonical.http", "canonical", "", "https://example.com/post/"},
		{"link-index.http", "index", "application/json", "https://example.com/llm-sitemap.json"},
		{"link-describedby.http", "describedby", "application/json", "https://example.com/llm-policy.json"},
	} {
		links := fetch.ParseLinks(header(t, tt.file).Values("Link"), "https://example.com/post/llm/")
		if len(links) != 1 || !links[0].Is(tt.rel) || links[0].Type != tt.media || links[0].Target != tt.target {
			t.Errorf("%s: %+v", tt.file, links)
		}
	}
}

func TestTheDraftsExamplesOfPayloads(t *testing.T) {
	for _, tt := range []struct {
		file string
		read bool // by Decode; none is in canonical form, which Check wants
	}{
		{"payload-minimal.json", true},
		{"payload-extended.json", true},
		{"methoda-without-hash.json", false},
		{"methoda-canonical.json", false},
		{"methoda-final.json", true},
	} {
		b := example(t, tt.file)
		d, err := tct.Decode(b)
		if (err == nil) != tt.read || err != nil && !errors.Is(err, tct.ErrMalformed) {
			t.Errorf("%s: %v", tt.file, err)
		}
		if err := tct.Check(b, d.URL); !errors.Is(err, tct.ErrMalformed) {
			t.Errorf("%s: Check = %v", tt.file, err)
		}
	}
	canonical := example(t, "methoda-canonical.json")
	const hash = "sha256-af976cac6d5c89428a724e456311081ddbf3bab73cc4de7c85119b185ffbdab8"
	if got := tct.FormatHash(sha256.Sum256(canonical)); len(canonical) != 116 || got != hash {
		t.Errorf("%d octets with %s, want 116 with %s", len(canonical), got, hash)
	}
	d, err := tct.Decode(example(t, "methoda-final.json"))
	if err != nil || d.Hash != hash {
		t.Fatalf("Decode = %+v, %v", d, err)
	}
	payload, sum := tct.Encode(nil, d)
	if len(payload) != 197 || tct.FormatHash(sum) != hash || tct.FormatHash(sha256.Sum256(payload))[:15] != "sha256-7fa43906" {
		t.Errorf("the final payload has %d octets: %s", len(payload), payload)
	}
	if got, err := tct.MethodA(payload, d.URL); err != nil || got != sum {
		t.Errorf("MethodA = %x, %v", got, err)
	}
}

func TestTheDraftsExampleOfAPolicy(t *testing.T) {
	got, odd, err := tct.ReadPolicy(bytes.NewReader(example(t, "policy.json")))
	want := tct.Policy{
		Profile: tct.PolicyProfile, Version: 1,
		Effective:      time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC),
		Updated:        time.Date(2025, 10, 15, 12, 0, 0, 0, time.UTC),
		TermsOfService: "https://example.com/terms/", PaymentInfo: "https://example.com/pricing/", Contact: "https://example.com/contact/",
		AllowAIInput: content.Yes, AllowAITrain: content.No, AllowSearchIndexing: content.Yes,
		AttributionRequired: content.Yes, LinkBackRequired: content.No, NoticeRequired: content.Yes,
		MaxRequestsPerDay: 10000, Note: "Advisory limits, honor system",
	}
	if err != nil || len(odd) != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadPolicy = %+v, %q, %v; want %+v", got, odd, err, want)
	}
	prefs := got.Preferences("https://example.com/llm-policy.json")
	if prefs.Allows(content.PurposeAITrain) || !prefs.Allows(content.PurposeRAGRetrieve) || !prefs.Allows(content.PurposeSearchIndex) {
		t.Errorf("preferences %v", prefs.Stated())
	}
}

// TestTheDraftsTimesAreFacts notes two slips of the examples, so that nobody
// takes them for a rule.
func TestTheDraftsTimesAreFacts(t *testing.T) {
	at, err := http.ParseTime(response(t, "not-modified.http").Header.Get("Last-Modified"))
	if err != nil || at.Weekday() != time.Tuesday {
		t.Errorf("21 October 2025 is a %v, %v; the example prints Wed", at.Weekday(), err)
	}
	if sig := header(t, "signature.http").Get("Signature"); !strings.Contains(sig, "...") {
		t.Errorf("the sample signature is whole: %s", sig)
	}
}
