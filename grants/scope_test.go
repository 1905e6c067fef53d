package grants_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestScopeRefusesWhatLeadsOutOfIt(t *testing.T) {
	scope := prefixes(t, "https://example.com/doc/")
	for _, tt := range []struct{ name, url string }{
		{"a sibling that begins alike", "https://example.com/docs-private"},
		{"a sibling folder that begins alike", "https://example.com/doc-private/x"},
		{"the folder without its slash", "https://example.com/doc"},
		{"a dot segment", "https://example.com/doc/../admin"},
		{"an encoded dot segment", "https://example.com/doc/%2e%2e/admin"},
		{"an encoded dot segment in upper case", "https://example.com/doc/%2E%2E/admin"},
		{"an encoded slash behind dots", "https://example.com/doc/..%2fadmin"},
		{"an encoded slash behind dots in upper case", "https://example.com/doc/..%2Fadmin"},
		{"a dot segment encoded twice", "https://example.com/doc/%252e%252e/admin"},
		{"a dot segment encoded twice in upper case", "https://example.com/doc/%252E%252E/admin"},
		{"a dot segment whose encoding is encoded in parts", "https://example.com/doc/%252%2565%252%2565/admin"},
		{"more layers of encoding than are undone", "https://example.com/doc/%25252525252525252541"},
		{"backslashes", `https://example.com/doc/x\..\y`},
		{"encoded backslashes", "https://example.com/doc/x%5C..%5Cy"},
		{"a dot segment with a parameter", "https://example.com/doc/..;a/admin"},
		{"two slashes before the path", "https://example.com//doc/x"},
		{"two slashes in the path", "https://example.com/doc//x"},
		{"two slashes at the end", "https://example.com/doc//"},
		{"a single dot", "https://example.com/doc/./x"},
		{"a single dot at the end", "https://example.com/doc/."},
		{"a letter encoded without need", "https://example.com/%64oc/x"},
		{"a letter below encoded without need", "https://example.com/doc/%61"},
		{"upper case", "https://example.com/DOC/x"},
		{"a path parameter", "https://example.com/doc;a/x"},
		{"the host as a prefix of another", "https://example.com.evil.com/doc/x"},
		{"the host as user name", "https://example.com@evil.com/doc/x"},
		{"the host as user name and password", "https://example.com:x@evil.com/doc/x"},
		{"a dot behind the host", "https://example.com./doc/x"},
		{"an upper-case host", "https://EXAMPLE.com/doc/x"},
		{"an upper-case scheme", "HTTPS://example.com/doc/x"},
		{"the default port", "https://example.com:443/doc/x"},
		{"an empty port", "https://example.com:/doc/x"},
		{"the default port with a zero", "https://example.com:0443/doc/x"},
		{"another port", "https://example.com:8443/doc/x"},
		{"port zero", "https://example.com:0/doc/x"},
		{"another scheme", "http://example.com/doc/x"},
		{"the other scheme's default port", "https://example.com:80/doc/x"},
		{"no slashes behind the scheme", "https:example.com/doc/x"},
		{"one slash behind the scheme", "https:/example.com/doc/x"},
		{"no host", "https:///example.com/doc/x"},
		{"no scheme", "//example.com/doc/x"},
		{"a path alone", "/doc/x"},
		{"nothing", ""},
		{"a Cyrillic letter in the host", "https://\u0435xample.com/doc/x"},
		{"the same in Punycode", "https://xn--xample-2of.com/doc/x"},
		{"a subdomain", "https://www.example.com/doc/x"},
		{"an IPv6 address", "https://[::1]/doc/x"},
		{"a zone id", "https://[fe80::1%25eth0]/doc/x"},
		{"a hexadecimal address", "https://0x7f.1/doc/x"},
		{"a fragment", "https://example.com/doc/x#frag"},
		{"an empty fragment", "https://example.com/doc/#"},
		{"an encoded line feed", "https://example.com/doc/%0a"},
		{"an encoded line feed in upper case", "https://example.com/doc/%0A"},
		{"an encoded NUL", "https://example.com/doc/%00"},
		{"an encoded DEL", "https://example.com/doc/%7F"},
		{"a line feed", "https://example.com/doc/x\n"},
		{"a space before it", " https://example.com/doc/x"},
		{"a query", "https://example.com/doc/x?a=b"},
		{"an empty query", "https://example.com/doc/x?"},
		{"lower-case encoding", "https://example.com/doc/caf%c3%a9"},
		{"a letter that must be encoded", "https://example.com/doc/café"},
		{"encoding cut short", "https://example.com/doc/%C"},
		{"the target of a redirect that leads out", "https://example.com/login"},
		{"a URL over the limit", "https://example.com/doc/" + strings.Repeat("a", grants.MaxURL)},
	} {
		t.Run(tt.name, func(t *testing.T) { wantReason(t, scope.Match(tt.url), grants.ErrScope) })
	}
}

func TestScopeAcceptsCanonicalURLs(t *testing.T) {
	folder := prefixes(t, "https://example.com/doc/")
	query := folder
	query.Query = true
	for _, tt := range []struct {
		name, url string
		scope     grants.Scope
	}{
		{"percent-encoded letters", "https://example.com/doc/caf%C3%A9", folder},
		{"a percent-encoded space", "https://example.com/doc/a%20b", folder},
		{"the folder itself", "https://example.com/doc/", folder},
		{"a page further below", "https://example.com/doc/a/b/c.html", folder},
		{"a folder further below", "https://example.com/doc/a/", folder},
		{"a plus sign", "https://example.com/doc/operator+=.html", folder},
		{"an encoded plus sign", "https://example.com/doc/operator%2B.html", folder},
		{"a percent sign in a name", "https://example.com/doc/100%25", folder},
		{"a name that holds an encoding", "https://example.com/doc/operator%252B.html", folder},
		{"three dots", "https://example.com/doc/.../x", folder},
		{"a hidden name", "https://example.com/doc/.well-known", folder},
		{"an encoded slash in a name", "https://example.com/doc/AC%2FDC", folder},
		{"a star in a page's name", "https://example.com/doc/operator*.html", folder},
		{"a query where the scope admits one", "https://example.com/doc/x?a=b/c?d", query},
		{"a query with an encoded URL in it", "https://example.com/doc/x?u=https%253A%252F%252F", query},
		{"the prefix without a slash", "https://example.com/doc", prefixes(t, "https://example.com/doc")},
		{"below the prefix without a slash", "https://example.com/doc/x", prefixes(t, "https://example.com/doc")},
		{"a whole origin", "https://example.com/x", prefixes(t, "https://example.com/")},
		{"another port that is listed", "https://example.com:8443/doc/x", prefixes(t, "https://example.com:8443/")},
		{"a dotted address that is listed", "http://127.0.0.1:8080/x", prefixes(t, "http://127.0.0.1:8080/")},
		{"a Punycode host that is listed", "https://xn--xample-2of.com/x", prefixes(t, "https://xn--xample-2of.com/")},
		{"the second of two prefixes", "https://example.com/b/x", prefixes(t, "https://example.com/a/", "https://example.com/b/")},
	} {
		t.Run(tt.name, func(t *testing.T) { wantReason(t, tt.scope.Match(tt.url), "") })
	}
}

func TestMissSaysWhy(t *testing.T) {
	scope := prefixes(t, "https://example.com/doc/")
	for url, want := range map[string]string{
		"https://example.com/doc/..": "outside the scope: the URL is not in canonical form",
		"https://example.com/doc/?a": "outside the scope: the scope admits no query",
		"https://example.com/x":      "outside the scope: the URL is under none of its prefixes",
	} {
		if err := scope.Match(url); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

func TestPrefixWithoutASlashEndsAtASegment(t *testing.T) {
	scope := prefixes(t, "https://example.com/doc")
	for _, url := range []string{"https://example.com/docs", "https://example.com/doc;a", "https://example.com/doc%2Fx", "https://example.com/"} {
		wantReason(t, scope.Match(url), grants.ErrScope)
	}
}

func TestEmptyScopeMatchesNothing(t *testing.T) {
	for _, s := range []grants.Scope{{}, {Type: grants.URLPrefix}, {Type: grants.URLPrefix, Prefixes: []string{}, Query: true}} {
		wantReason(t, s.Match("https://example.com/"), grants.ErrScope)
		if grants.Overlaps(s, prefixes(t, "https://example.com/")) {
			t.Errorf("%+v overlaps", s)
		}
		if err := s.Validate(); err == nil {
			t.Errorf("%+v is valid", s)
		}
	}
}

func TestScopeThatWasNeverValidatedMatchesNoMore(t *testing.T) {
	for _, p := range []string{"", "/", "https:", "https:/", "https://", "https://example.com", "https://example", "*"} {
		s := grants.Scope{Type: grants.URLPrefix, Prefixes: []string{p}}
		wantReason(t, s.Match("https://example.com/doc/x"), grants.ErrScope)
	}
}

func TestScopeFormIsChecked(t *testing.T) {
	many := make([]string, grants.MaxPrefixes+1)
	for i := range many {
		many[i] = fmt.Sprintf("https://example.com/%04d/", i)
	}
	for _, tt := range []struct {
		name  string
		scope grants.Scope
		want  grants.Reason
	}{
		{"a folder", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com/doc/"}}, ""},
		{"a collection in a folder", grants.Scope{Type: grants.Collection, ID: "docs", Prefixes: []string{"https://example.com/doc/"}}, ""},
		{"a star", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com/doc/*"}}, grants.ErrScope},
		{"two stars", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com/**"}}, grants.ErrScope},
		{"a star as host", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://*.example.com/"}}, grants.ErrScope},
		{"a star alone", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"*"}}, grants.ErrScope},
		{"a query", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com/?a"}, Query: true}, grants.ErrScope},
		{"no path", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com"}}, grants.ErrScope},
		{"a relative path", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"/doc/"}}, grants.ErrScope},
		{"a dot segment", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com/doc/../"}}, grants.ErrScope},
		{"an address in one number", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://2130706433/"}}, grants.ErrScope},
		{"an address in hexadecimal", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://127.0.0.0x1/"}}, grants.ErrScope},
		{"an address in octal", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://127.0.0.01/"}}, grants.ErrScope},
		{"an address of three numbers", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://127.0.1/"}}, grants.ErrScope},
		{"an address of five numbers", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://1.2.3.4.5/"}}, grants.ErrScope},
		{"an address with a number over 255", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://127.0.0.256/"}}, grants.ErrScope},
		{"an address of IPv6", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://[::1]/"}}, grants.ErrScope},
		{"a name that looks like a number at first", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"http://127.0.0.0xg/"}}, ""},
		{"an empty label", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example..com/"}}, grants.ErrScope},
		{"a label of 64 octets", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://" + strings.Repeat("a", 64) + ".com/"}}, grants.ErrScope},
		{"a host of 254 octets", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://" + strings.Repeat("a.", 126) + "aa/"}}, grants.ErrScope},
		{"a label that ends in a hyphen", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://a-.example.com/"}}, grants.ErrScope},
		{"a port over 65535", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com:65536/"}}, grants.ErrScope},
		{"a port with a sign", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com:+1/"}}, grants.ErrScope},
		{"user information", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://a:b@example.com/"}}, grants.ErrScope},
		{"no prefix", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{}}, grants.ErrScope},
		{"too many prefixes", grants.Scope{Type: grants.URLPrefix, Prefixes: many}, grants.ErrScope},
		{"prefixes out of order", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com/b/", "https://example.com/a/"}}, grants.ErrScope},
		{"a prefix twice", grants.Scope{Type: grants.URLPrefix, Prefixes: []string{"https://example.com/a/", "https://example.com/a/"}}, grants.ErrScope},
		{"an id beside prefixes", grants.Scope{Type: grants.URLPrefix, ID: "docs", Prefixes: []string{"https://example.com/"}}, grants.ErrScope},
		{"a collection without an id", grants.Scope{Type: grants.Collection, Prefixes: []string{"https://example.com/"}}, grants.ErrScope},
		{"a collection that is no file's name", grants.Scope{Type: grants.Collection, ID: "../docs", Prefixes: []string{"https://example.com/"}}, grants.ErrScope},
		{"a type that does not exist", grants.Scope{Type: "pattern", Prefixes: []string{"https://example.com/"}}, grants.ErrScopeType},
		{"no type", grants.Scope{Prefixes: []string{"https://example.com/"}}, grants.ErrScopeType},
	} {
		t.Run(tt.name, func(t *testing.T) { wantReason(t, tt.scope.Validate(), tt.want) })
	}
}

func TestOriginsAreExact(t *testing.T) {
	s := prefixes(t, "https://example.com/b/", "https://example.com/a/", "http://example.com/", "https://www.example.com:8443/x")
	want := []string{"http://example.com", "https://example.com", "https://www.example.com:8443"}
	if got := s.Origins(); !slices.Equal(got, want) {
		t.Errorf("Origins = %q, want %q", got, want)
	}
	wantReason(t, s.CheckOrigins(want), "")
	wantReason(t, s.CheckOrigins([]string{"https://example.com"}), grants.ErrOrigin)
	wantReason(t, prefixes(t, "https://www.example.com/").CheckOrigins([]string{"https://example.com"}), grants.ErrOrigin)
	wantReason(t, s.CheckOrigins(nil), grants.ErrOrigin)
}

func TestScopeCovers(t *testing.T) {
	all := prefixes(t, "https://example.com/")
	doc := prefixes(t, "https://example.com/doc/")
	query := doc
	query.Query = true
	collection, err := grants.CollectionScope("docs", "https://example.com/doc/")
	if err != nil {
		t.Fatal(err)
	}
	blog := collection
	blog.ID = "blog"
	for _, tt := range []struct {
		name         string
		outer, inner grants.Scope
		want         bool
	}{
		{"a scope covers itself", doc, doc, true},
		{"an origin covers a folder", all, doc, true},
		{"a folder does not cover its origin", doc, all, false},
		{"one prefix of two outside is not covered", doc, prefixes(t, "https://example.com/doc/a/", "https://example.com/x/"), false},
		{"queries are covered where they are admitted", query, doc, true},
		{"queries are not covered elsewhere", all, query, false},
		{"prefixes cover a collection under them", doc, collection, true},
		{"a collection does not cover its prefixes", collection, doc, false},
		{"a collection covers itself", collection, collection, true},
		{"a collection does not cover another", collection, blog, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.outer.Covers(tt.inner); got != tt.want {
				t.Errorf("Covers = %t, want %t", got, tt.want)
			}
		})
	}
}

// Segments are few, so that scopes and URLs often meet.
var segment = rapid.SampledFrom([]string{"a", "b", "doc", "docs", "a%20b", "..."})

func drawURL(t *rapid.T, label string) string {
	origin := rapid.SampledFrom([]string{"https://example.com", "https://example.com:8443", "http://example.com"}).Draw(t, label+" origin")
	u := origin + "/" + strings.Join(rapid.SliceOfN(segment, 0, 4).Draw(t, label+" path"), "/")
	if !strings.HasSuffix(u, "/") && rapid.Bool().Draw(t, label+" slash") {
		u += "/"
	}
	return u
}

func drawScope(t *rapid.T, label string) grants.Scope {
	all := make([]string, rapid.IntRange(1, 3).Draw(t, label+" prefixes"))
	for i := range all {
		all[i] = drawURL(t, fmt.Sprint(label, i))
	}
	s, err := grants.PrefixScope(all...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// segments splits a URL without a query into its origin and path segments.
func segments(u string) []string {
	scheme, rest, _ := strings.Cut(u, "://")
	parts := strings.Split(rest, "/")
	return append([]string{scheme}, parts...)
}

func TestMatchIsPrefixBySegments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, u := drawScope(t, "scope"), drawURL(t, "url")
		want := slices.ContainsFunc(s.Prefixes, func(p string) bool {
			ps, us := segments(p), segments(u)
			if ps[len(ps)-1] == "" { // ends in a slash: at least one segment follows, if an empty one
				ps = ps[:len(ps)-1]
				return len(us) > len(ps) && slices.Equal(us[:len(ps)], ps)
			}
			return len(us) >= len(ps) && slices.Equal(us[:len(ps)], ps)
		})
		if err := s.Match(u); (err == nil) != want || err != nil && !errors.Is(err, grants.ErrScope) {
			t.Fatalf("%q matches %q: %v, want %t", s.Prefixes, u, err, want)
		}
	})
}

func TestScopesOverlapExactlyIfSomeURLIsInBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawScope(t, "a"), drawScope(t, "b")
		overlaps := grants.Overlaps(a, b)
		if grants.Overlaps(b, a) != overlaps {
			t.Fatalf("%q and %q overlap one way only", a.Prefixes, b.Prefixes)
		}
		witness := slices.ContainsFunc(slices.Concat(a.Prefixes, b.Prefixes), func(u string) bool {
			return a.Match(u) == nil && b.Match(u) == nil
		})
		if witness != overlaps {
			t.Fatalf("%q and %q overlap: %t, but a URL in both: %t", a.Prefixes, b.Prefixes, overlaps, witness)
		}
		u := drawURL(t, "url")
		if a.Match(u) == nil && b.Match(u) == nil && !overlaps {
			t.Fatalf("%q is in %q and in %q, which do not overlap", u, a.Prefixes, b.Prefixes)
		}
		if a.Covers(b) && (!overlaps || b.Match(u) == nil && a.Match(u) != nil) {
			t.Fatalf("%q covers %q, but not %q", a.Prefixes, b.Prefixes, u)
		}
	})
}

func TestMatchAllocatesNothing(t *testing.T) {
	s := prefixes(t, "https://example.com/a/", "https://example.com/doc/")
	for _, url := range []string{
		"https://example.com/doc/a/b.html", "https://example.com/doc/caf%C3%A9/operator%252B.html",
		"https://example.com/elsewhere", "https://example.com/doc/%2e%2e/", "https://example.com/doc/?a",
	} {
		if n := testing.AllocsPerRun(100, func() { _ = s.Match(url) }); n != 0 {
			t.Errorf("matching %q allocates %v times", url, n)
		}
	}
}

func TestScopeHashIsOfNonceAndScope(t *testing.T) {
	s := prefixes(t, "https://example.com/doc/")
	h, err := grants.ScopeHash(grants.Nonce{2}, s)
	if err != nil {
		t.Fatal(err)
	}
	// SHA-256 over the tag, a zero octet and
	// {"nonce":"AgAAAAAAAAAAAAAAAAAAAA","scope":{"prefixes":["https://example.com/doc/"],"type":"url-prefix"}}
	const want = "sha256:b49eeb31f217916fcbef11f36c358489784166073d91c78f23de7a5d45b6fe8e"
	if h.String() != want {
		t.Errorf("ScopeHash = %s, want %s", h, want)
	}
	for name, change := range map[string]func() (string, error){
		"nonce": func() (string, error) { h, err := grants.ScopeHash(grants.Nonce{3}, s); return h.String(), err },
		"scope": func() (string, error) {
			s.Query = true
			h, err := grants.ScopeHash(grants.Nonce{2}, s)
			return h.String(), err
		},
	} {
		if got, err := change(); err != nil || got == want {
			t.Errorf("another %s: %s, %v", name, got, err)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	s := prefixes(b, "https://example.com/a/", "https://example.com/doc/")
	for b.Loop() {
		if err := s.Match("https://example.com/doc/en/cpp/container/vector/operator_at.html"); err != nil {
			b.Fatal(err)
		}
	}
}
