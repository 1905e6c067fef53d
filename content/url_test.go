package content_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"pgregory.net/rapid"
)

func TestIsCanonicalRefusesEveryOtherSpelling(t *testing.T) {
	for _, tt := range []struct {
		name string
		url  string
		want content.URLRule
	}{
		{"a dot segment", "https://example.com/doc/../admin", content.RuleDotSegment},
		{"a single dot", "https://example.com/doc/./x", content.RuleDotSegment},
		{"a dot segment at the end", "https://example.com/doc/..", content.RuleDotSegment},
		{"a dot segment in lower-case percent-encoding", "https://example.com/doc/%2e%2e/admin", content.RuleDotSegment},
		{"half of a dot segment encoded", "https://example.com/doc/.%2E/admin", content.RuleDotSegment},
		{"a dot segment before an encoded slash", "https://example.com/doc/..%2fadmin", content.RuleDotSegment},
		{"the same in upper case", "https://example.com/doc/..%2Fadmin", content.RuleDotSegment},
		{"a dot segment encoded twice", "https://example.com/doc/%252e%252e/admin", content.RuleDotSegment},
		{"a dot segment encoded three times", "https://example.com/doc/%25252E%25252E/admin", content.RuleDotSegment},
		{"a dot segment before an encoded backslash", "https://example.com/doc/x%5C..%5Cy", content.RuleDotSegment},
		{"a dot segment with a parameter", "https://example.com/doc/..;a/admin", content.RuleDotSegment},
		{"more layers of encoding than a reader would undo", "https://example.com/%2525252525252525252541", content.RuleDotSegment},
		{"a backslash", `https://example.com/doc/x\..\y`, content.RuleBackslash},
		{"a backslash in the query", `https://example.com/doc?a\b`, content.RuleBackslash},
		{"two slashes before the path", "https://example.com//doc/x", content.RuleEmptySegment},
		{"two slashes in the path", "https://example.com/doc//x", content.RuleEmptySegment},
		{"an encoded letter", "https://example.com/%64oc/x", content.RuleUnreserved},
		{"an encoded tilde", "https://example.com/%7Ex", content.RuleUnreserved},
		{"an encoded letter in the query", "https://example.com/x?%61", content.RuleUnreserved},
		{"user information", "https://example.com@evil.com/doc/x", content.RuleUserinfo},
		{"user and password", "https://a:b@example.com/", content.RuleUserinfo},
		{"a dot behind the host", "https://example.com./doc/x", content.RuleHostDot},
		{"an upper-case host", "https://EXAMPLE.com/doc/x", content.RuleHostCase},
		{"an upper-case scheme", "HTTPS://example.com/doc/x", content.RuleScheme},
		{"the default port", "https://example.com:443/doc/x", content.RulePort},
		{"the default port of http", "http://example.com:80/doc/x", content.RulePort},
		{"an empty port", "https://example.com:/doc/x", content.RulePort},
		{"a port with a leading zero", "https://example.com:0443/doc/x", content.RulePort},
		{"port zero", "https://example.com:0/", content.RulePort},
		{"a port above 65535", "https://example.com:65536/", content.RulePort},
		{"a signed port", "https://example.com:+1/", content.RulePort},
		{"another scheme", "ftp://example.com/doc/x", content.RuleScheme},
		{"a scheme without slashes", "https:example.com/doc/x", content.RuleScheme},
		{"a scheme with one slash", "https:/example.com/doc/x", content.RuleScheme},
		{"no scheme", "//example.com/doc/x", content.RuleScheme},
		{"an empty string", "", content.RuleScheme},
		{"no host", "https:///doc/x", content.RuleNoHost},
		{"a Cyrillic letter in the host", "https://\u0435xample.com/doc/x", content.RuleHost},
		{"an IPv6 address", "https://[::1]/doc/x", content.RuleAddress},
		{"an address with a zone", "https://[fe80::1%25eth0]/doc/x", content.RuleAddress},
		{"a hexadecimal address", "https://0x7f.1/doc/x", content.RuleAddress},
		{"an address in one number", "https://2130706433/", content.RuleAddress},
		{"an address with a leading zero", "https://127.0.0.01/", content.RuleAddress},
		{"an address with five parts", "https://1.2.3.4.5/", content.RuleAddress},
		{"a hexadecimal last label", "https://example.0x1f/", content.RuleAddress},
		{"a hyphen at the start of a label", "https://-a.example.com/", content.RuleHost},
		{"an empty label", "https://a..example.com/", content.RuleHost},
		{"a percent sign in the host", "https://ex%61mple.com/", content.RuleHost},
		{"a label of 64 octets", "https://" + strings.Repeat("a", 64) + ".com/", content.RuleHost},
		{"a host of 254 octets", "https://" + strings.Repeat("a.", 126) + "aa/", content.RuleHost},
		{"no path", "https://example.com", content.RuleNoPath},
		{"a query without a path", "https://example.com?a", content.RuleNoPath},
		{"a fragment", "https://example.com/doc/#frag", content.RuleFragment},
		{"an empty fragment", "https://example.com/doc/#", content.RuleFragment},
		{"an encoded line feed", "https://example.com/doc/%0a", content.RuleEscape},
		{"an encoded line feed in upper case", "https://example.com/doc/%0A", content.RuleControl},
		{"an encoded NUL", "https://example.com/doc/%00", content.RuleControl},
		{"an encoded DEL", "https://example.com/doc/%7F", content.RuleControl},
		{"a line feed", "https://example.com/doc/\n", content.RuleControl},
		{"a space", "https://example.com/doc/a b", content.RuleOctet},
		{"a letter outside ASCII", "https://example.com/doc/caf\u00e9", content.RuleOctet},
		{"a square bracket", "https://example.com/doc/[x]", content.RuleOctet},
		{"a quotation mark in the query", `https://example.com/doc?"`, content.RuleOctet},
		{"lower-case percent-encoding", "https://example.com/doc/caf%c3%a9", content.RuleEscape},
		{"percent-encoding cut short", "https://example.com/doc/%C", content.RuleEscape},
		{"a percent sign alone", "https://example.com/doc/100%", content.RuleEscape},
		{"percent-encoding of no digits", "https://example.com/doc/%GG", content.RuleEscape},
		{"an empty query", "https://example.com/doc?", content.RuleEmptyQuery},
		{"8193 octets", "https://example.com/" + strings.Repeat("a", content.MaxURL-19), content.RuleLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var broken *content.URLError
			if err := content.IsCanonical(tt.url); !errors.As(err, &broken) || broken.Rule != tt.want {
				t.Errorf("IsCanonical(%.80q) = %v, want %q", tt.url, err, tt.want)
			}
		})
	}
}

// TestADotSegmentIsFoundAmongOthersLikeIt compares with each segment for itself.
func TestADotSegmentIsFoundAmongOthersLikeIt(t *testing.T) {
	segment := rapid.StringMatching("[.;a]{1,4}")
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(segment, 1, 4).Draw(t, "segments")
		want := slices.ContainsFunc(segments, func(s string) bool {
			name, _, _ := strings.Cut(s, ";")
			return name == "." || name == ".."
		})
		u := "https://example.com/" + strings.Join(segments, "/")
		var broken *content.URLError
		if got := errors.As(content.IsCanonical(u), &broken) && broken.Rule == content.RuleDotSegment; got != want {
			t.Fatalf("%q has a dot segment: %v, want %v", u, got, want)
		}
	})
}

func TestIsCanonicalAcceptsTheCanonicalForm(t *testing.T) {
	for _, u := range []string{
		"https://example.com/",
		"http://example.com:443/",
		"https://example.com:8443/doc/x",
		"https://xn--e1afmkfd.example/doc/",
		"https://example.com/doc/caf%C3%A9",
		"https://example.com/doc/a%20b",
		"https://example.com/doc/operator%2B%3D.html",
		"https://example.com/doc/operator+=.html",
		"https://example.com/doc/~x.html",
		"https://example.com/doc/a%2Fb",
		"https://example.com/doc;a/x",
		"https://example.com/doc/x?q=a+b&r=/?",
		"https://example.com/doc/%FF",
		"https://example.com/doc/100%25",
		"https://example.com/doc/...",
		"https://example.com/doc/..x",
		"http://127.0.0.1:8080/",
		"http://localhost/",
		"https://my_site.example.com/",
		"https://example.com/" + strings.Repeat("a", content.MaxURL-20),
	} {
		if err := content.IsCanonical(u); err != nil {
			t.Errorf("IsCanonical: %v", err)
		}
		if got, err := content.CanonicalURL(u); err != nil || got != u {
			t.Errorf("CanonicalURL(%.80q) = %.80q, %v; want it unchanged", u, got, err)
		}
	}
}

func TestCanonicalURLBringsSpellingsTogether(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"scheme and host in lower case", "HTTPS://Example.COM/Doc", "https://example.com/Doc"},
		{"a missing path is the root", "https://example.com", "https://example.com/"},
		{"the default port goes", "https://example.com:443/x", "https://example.com/x"},
		{"so does an empty one", "https://example.com:/x", "https://example.com/x"},
		{"zeros before a port go", "http://example.com:0443/x", "http://example.com:443/x"},
		{"dot segments are resolved", "https://example.com/a/b/../c/./d", "https://example.com/a/c/d"},
		{"a dot segment at the end leaves a slash", "https://example.com/a/b/..", "https://example.com/a/"},
		{"none climbs above the root", "https://example.com/../../a", "https://example.com/a"},
		{"encoded dot segments are resolved", "https://example.com/a/%2e%2E/b", "https://example.com/b"},
		{"unreserved octets are decoded", "https://example.com/%61%7e", "https://example.com/a~"},
		{"percent-encoding is upper case", "https://example.com/caf%c3%a9", "https://example.com/caf%C3%A9"},
		{"letters outside ASCII are encoded", "https://example.com/caf\u00e9?\u00e9", "https://example.com/caf%C3%A9?%C3%A9"},
		{"a space is encoded", "https://example.com/a b", "https://example.com/a%20b"},
		{"reserved octets stay as they are", "https://example.com/%2B+%2F", "https://example.com/%2B+%2F"},
		{"the fragment goes", "https://example.com/a#b", "https://example.com/a"},
		{"an empty query goes", "https://example.com/a?", "https://example.com/a"},
		{"a query stays", "https://example.com/a?b=%7e c", "https://example.com/a?b=~%20c"},
		{"a slash at the end stays", "https://example.com/a/", "https://example.com/a/"},
		{"a host is written in ASCII", "https://b\u00fccher.example/", "https://xn--bcher-kva.example/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := content.CanonicalURL(tt.raw); err != nil || got != tt.want {
				t.Errorf("CanonicalURL(%q) = %q, %v; want %q", tt.raw, got, err, tt.want)
			}
		})
	}
}

func TestCanonicalURLRepairsNothingDoubtful(t *testing.T) {
	for _, tt := range []struct {
		name string
		raw  string
		want content.URLRule
	}{
		{"user information", "https://u@example.com/", content.RuleUserinfo},
		{"a backslash for a slash", `https://example.com\doc`, content.RuleBackslash},
		{"an empty segment", "https://example.com/a//b", content.RuleEmptySegment},
		{"a hidden dot segment", "https://example.com/a/..%2fb", content.RuleDotSegment},
		{"a control octet", "https://example.com/a\tb", content.RuleControl},
		{"a dot behind the host", "https://example.com./", content.RuleHostDot},
		{"a hexadecimal address", "https://0x7f.1/", content.RuleAddress},
		{"an IPv6 address", "https://[::1]/", content.RuleAddress},
		{"a percent sign alone", "https://example.com/100%", content.RuleEscape},
		{"a relative reference", "/a", content.RuleScheme},
		{"a host that IDNA refuses", "https://\u2488com/", content.RuleHost},
		{"what grows above the limit", "https://example.com/" + strings.Repeat("\u00e9", content.MaxURL/4), content.RuleLength},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var broken *content.URLError
			if _, err := content.CanonicalURL(tt.raw); !errors.As(err, &broken) || broken.Rule != tt.want {
				t.Errorf("CanonicalURL(%.80q): %v, want %q", tt.raw, err, tt.want)
			}
		})
	}
}

// checkCanonical holds what must be true of every string.
func checkCanonical(t interface{ Fatalf(string, ...any) }, raw string) {
	once, err := content.CanonicalURL(raw)
	if err != nil {
		if content.IsCanonical(raw) == nil {
			t.Fatalf("%q is canonical and yet refused: %v", raw, err)
		}
		return
	}
	if err := content.IsCanonical(once); err != nil {
		t.Fatalf("CanonicalURL(%q): %v", raw, err)
	}
	if twice, err := content.CanonicalURL(once); err != nil || twice != once {
		t.Fatalf("CanonicalURL(%q) = %q, %v: not idempotent", once, twice, err)
	}
	if content.IsCanonical(raw) == nil && raw != once {
		t.Fatalf("canonical %q became %q", raw, once)
	}
}

func TestCanonicalURLIsCanonicalAndIdempotent(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"/", ".", "..", "%2e", "%2F", "%5c", "%25", "a", "Z", "~", "%7E", "\u00e9", "%c3%a9", " ", "+", "%2B", ";", ":", "@", "?", "#", "&", "=", "\\", "%", "%0", "%00", "[", "\"", "\xff",
	})
	host := rapid.SampledFrom([]string{
		"example.com", "EXAMPLE.com", "b\u00fccher.example", "xn--bcher-kva.example", "127.0.0.1", "0x7f.1", "example.com.", "a.b:80", "a.b:443", "a:08080", "a:", "[::1]", "u@a", "\u212a.example", "\uff11.example", "",
	})
	rapid.Check(t, func(t *rapid.T) {
		scheme := rapid.SampledFrom([]string{"http://", "https://", "HTTPS://", "https:", "//"}).Draw(t, "scheme")
		path := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "path"), "")
		checkCanonical(t, scheme+host.Draw(t, "host")+rapid.SampledFrom([]string{"/", "", "?"}).Draw(t, "join")+path)
	})
}

func FuzzCanonicalURL(f *testing.F) {
	for _, s := range []string{"https://example.com/a/../b?c#d", "HTTP://B\u00fccher.example:80/%7e/%2E%2e/caf\u00e9", "https://a/%252e%252e/", "http://1.2.3.4:8080//", "https://xn--a/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkCanonical(t, raw) })
}

func TestParseFormatAcceptsWhatStringPrints(t *testing.T) {
	if f, err := content.ParseFormat(content.FormatTCT.String()); err != nil || f != content.FormatTCT {
		t.Errorf("ParseFormat = %v, %v", f, err)
	}
	for _, s := range []string{"", "TCT", content.Format(0).String(), content.Format(9).String()} {
		if f, err := content.ParseFormat(s); err == nil {
			t.Errorf("ParseFormat(%q) = %v, want an error", s, f)
		}
	}
}
