package tct_test

import (
	"path"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"pgregory.net/rapid"
)

func TestAnMURLFollowsFromItsPage(t *testing.T) {
	m := tct.Mapping{Base: "https://example.com/"}
	hashed := func(u string) bool { return strings.HasPrefix(u, "https://example.com/llm/u-") && len(u) == 26+64+5 }
	for _, tt := range []struct{ name, page, mURL, file string }{
		{"the root", "https://example.com/", "https://example.com/llm.json", "llm.json"},
		{"a folder", "https://example.com/a/b/", "https://example.com/a/b/llm.json", "a/b/llm.json"},
		{"a file", "https://example.com/a/b.html", "https://example.com/a/b.html.llm.json", "a/b.html.llm.json"},
		{"letters outside ASCII", "https://example.com/caf%C3%A9/", "https://example.com/caf%C3%A9/llm.json", "café/llm.json"},
		{"a plain reserved octet", "https://example.com/operator+=.html", "https://example.com/operator+=.html.llm.json", "operator+=.html.llm.json"},
		{"the same octet encoded is another URL", "https://example.com/operator%2B=.html", "", ""},
		{"an encoded slash", "https://example.com/a%2Fb", "", ""},
		{"a query", "https://example.com/a?b=c", "", ""},
		{"a page of elsewhere", "https://example.org/a", "", ""},
		{"octets that are no text", "https://example.com/%FF", "", ""},
		{"a name that is too long", "https://example.com/" + strings.Repeat("a", 181), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := m.MURL(tt.page)
			if got != tt.mURL && (tt.mURL != "" || !hashed(got)) {
				t.Errorf("MURL = %s, want %s", got, tt.mURL)
			}
			if file, ok := m.File(got); !ok || tt.file != "" && file != tt.file {
				t.Errorf("File = %q, %v; want %q", file, ok, tt.file)
			}
			if again := m.MURL(tt.page); again != got {
				t.Errorf("the next time it is %s", again)
			}
			other := tct.Mapping{Base: m.Base, Slug: "machine"}
			if got := other.MURL(tt.page); !strings.Contains(got, "machine") || strings.Contains(got, "llm") {
				t.Errorf("with another slug: %s", got)
			}
		})
	}
	for _, bad := range []tct.Mapping{{}, {Base: "https://example.com"}, {Base: "https://example.com/?"}, {Base: "https://example.com/", Slug: "a/b"}, {Base: "https://example.com/", Slug: strings.Repeat("a", 33)}} {
		if bad.Check() == nil {
			t.Errorf("Check accepts %+v", bad)
		}
	}
}

func TestNoTwoPagesShareAnMURL(t *testing.T) {
	piece := rapid.SampledFrom([]string{"/", "a", "llm", ".llm", ".json", "llm.json", "u-", "%2F", "%2B", "+", "%25", "%C3%A9", "%20", "?", "b"})
	page := rapid.Custom(func(t *rapid.T) string {
		return "https://example.com/" + strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "path"), "")
	}).Filter(func(u string) bool { return content.IsCanonical(u) == nil })
	m := tct.Mapping{Base: "https://example.com/"}
	rapid.Check(t, func(t *rapid.T) {
		a, b := page.Draw(t, "a"), page.Draw(t, "b")
		fa, ok := m.File(m.MURL(a))
		fb, okB := m.File(m.MURL(b))
		if !ok || !okB || path.Clean(fa) != fa || strings.HasPrefix(fa, "/") {
			t.Fatalf("%s has %s in file %q, %v", a, m.MURL(a), fa, ok)
		}
		if a != b && (m.MURL(a) == m.MURL(b) || fa == fb) {
			t.Fatalf("%s and %s share %s and %q", a, b, m.MURL(a), fa)
		}
		if content.IsCanonical(m.MURL(a)) != nil {
			t.Fatalf("%s of %s is not canonical", m.MURL(a), a)
		}
	})
}

func TestListingsAreToldFromPages(t *testing.T) {
	for _, u := range []string{
		"https://example.com/category/technology/", "https://example.com/tag/web-protocols/", "https://example.com/2025/10/", "https://example.com/2025/",
		"https://example.com/2025/10/31/", "https://example.com/search/?q=protocol", "https://example.com/search?q=x", "https://example.com/author/john/", "https://example.com/blog/tag/a",
	} {
		if !tct.IsListing(u) {
			t.Errorf("%s is taken for a page", u)
		}
	}
	for _, u := range []string{
		"https://example.com/", "https://example.com/blog/understanding-tct/", "https://example.com/news/2025/protocol-launch/", "https://example.com/about/",
		"https://example.com/contact/", "https://example.com/2025", "https://example.com/2025/10/31/a/", "https://example.com/10/", "https://example.com/search/",
		"https://example.com/2025/10/31/12/", "https://example.com/tag", "https://example.com/category/", "https://example.com/news/2025/",
	} {
		if tct.IsListing(u) {
			t.Errorf("%s is taken for a listing", u)
		}
	}
}

func TestETagsAreCleanedForComparing(t *testing.T) {
	for _, tt := range []struct {
		name, etag, want string
		odd              bool
	}{
		{"a strong tag", `"` + fooHash + `"`, fooHash, false},
		{"the draft's own example", `"sha256-abc"`, "sha256-abc", false},
		{"a weak tag", `W/"` + fooHash + `"`, fooHash, true},
		{"that of a compressed body", `"` + fooHash + `-gzip"`, fooHash, true},
		{"both", `W/"` + fooHash + `-gzip"`, fooHash, true},
		{"no quotes", fooHash, fooHash, true},
		{"a suffix on something else stays", `"abc-gzip"`, "abc-gzip", false},
		{"upper case stays what it is", `"` + strings.ToUpper(fooHash) + `"`, strings.ToUpper(fooHash), false},
		{"nothing", "", "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, odd := tct.CleanETag(tt.etag); got != tt.want || (odd != "") != tt.odd {
				t.Errorf("CleanETag = %q, %q; want %q", got, odd, tt.want)
			}
		})
	}
	sum, err := tct.ParseHash(fooHash)
	if err != nil || tct.FormatHash(sum) != fooHash {
		t.Errorf("ParseHash = %x, %v", sum, err)
	}
	for _, bad := range []string{"", "sha256-abc", strings.ToUpper(fooHash), `"` + fooHash + `"`, fooHash + "0", fooHash[:70] + "g", fooHash[:70] + "A", "md5-" + fooHash[7:]} {
		if _, err := tct.ParseHash(bad); err == nil {
			t.Errorf("ParseHash accepts %q", bad)
		}
	}
}
