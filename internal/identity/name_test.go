package identity

import (
	"strings"
	"testing"
)

func TestNamesHaveOneSpelling(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		ok   bool
	}{
		{"a publisher", "spiffe://example.com/publisher", true},
		{"a deeper path", "spiffe://search.example/indexer/log-1", true},
		{"a domain of one label", "spiffe://localhost/a_b.c", true},
		{"an upper-case trust domain", "spiffe://Example.com/publisher", false},
		{"a trailing dot", "spiffe://example.com./publisher", false},
		{"an empty label", "spiffe://example..com/publisher", false},
		{"a leading dot", "spiffe://.example.com/publisher", false},
		{"a port", "spiffe://example.com:443/publisher", false},
		{"a colon in the path", "spiffe://example.com/a:b", false},
		{"a query", "spiffe://example.com/publisher?a", false},
		{"a fragment", "spiffe://example.com/publisher#a", false},
		{"percent-encoding", "spiffe://example.com/%61", false},
		{"a user", "spiffe://u@example.com/publisher", false},
		{"no path", "spiffe://example.com", false},
		{"an empty path", "spiffe://example.com/", false},
		{"a trailing slash", "spiffe://example.com/publisher/", false},
		{"an empty segment", "spiffe://example.com//publisher", false},
		{"a dot segment", "spiffe://example.com/./publisher", false},
		{"a dot-dot segment", "spiffe://example.com/a/../publisher", false},
		{"no trust domain", "spiffe:///publisher", false},
		{"an upper-case scheme", "SPIFFE://example.com/publisher", false},
		{"a URN", "urn:example:publisher", false},
		{"an https URL", "https://example.com/publisher", false},
		{"256 octets", "spiffe://example.com/" + strings.Repeat("a", 256-21), false},
		{"nothing", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := ParseName(tt.in)
			if (err == nil) != tt.ok {
				t.Fatalf("ParseName = %v", err)
			}
			if tt.ok && string(n) != tt.in {
				t.Errorf("ParseName = %q", n)
			}
		})
	}
}

func TestOriginsAreExact(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		ok   bool
	}{
		{"a host", "https://example.com", true},
		{"a port", "https://example.com:8443", true},
		{"plain http", "http://localhost:8080", true},
		{"an IPv4 address", "http://127.0.0.1:8080", true},
		{"a xn-- host", "https://xn--bcher-kva.example", true},
		{"an upper-case host", "https://Example.com", false},
		{"an upper-case scheme", "HTTPS://example.com", false},
		{"a trailing slash", "https://example.com/", false},
		{"a path", "https://example.com/a", false},
		{"a query", "https://example.com?a", false},
		{"a wildcard", "https://*.example.com", false},
		{"a trailing dot", "https://example.com.", false},
		{"the default port of https", "https://example.com:443", false},
		{"the default port of http", "http://example.com:80", false},
		{"an empty port", "https://example.com:", false},
		{"port zero", "https://example.com:0", false},
		{"a leading zero", "https://example.com:08443", false},
		{"a port too high", "https://example.com:65536", false},
		{"a user", "https://u@example.com", false},
		{"a hexadecimal address", "https://0x7f.1", false},
		{"an address in decimal", "https://2130706433", false},
		{"an address with a leading zero", "https://127.0.0.01", false},
		{"an IPv6 address", "https://[::1]", false},
		{"a Cyrillic letter", "https://\u0435xample.com", false},
		{"another scheme", "ftp://example.com", false},
		{"no scheme", "example.com", false},
		{"no host", "https://", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseOrigin(tt.in); (err == nil) != tt.ok {
				t.Errorf("ParseOrigin = %v", err)
			}
		})
	}
}

func TestEndpointsAndLogURLsCanBeDialled(t *testing.T) {
	for in, ok := range map[string]bool{
		"search.example:7443": true, "127.0.0.1:7443": true, "[::1]:7443": true, "localhost:1": true,
		"search.example": false, ":7443": false, "search.example:0": false, "search.example:https": false,
		"Search.example:7443": false, "::1:7443": false, "[fe80::1%eth0]:1": false, "a b:1": false, "": false,
	} {
		if err := checkEndpoint(in); (err == nil) != ok {
			t.Errorf("checkEndpoint(%q) = %v", in, err)
		}
	}
	for in, ok := range map[string]bool{
		"https://search.example": true, "http://127.0.0.1:7480": true, "https://search.example/log/a": true, "http://[::1]:1": true,
		"https://search.example/": false, "https://search.example/log/": false, "https://search.example/a//b": false,
		"https://search.example/a/../b": false, "https://u:p@search.example": false, "https://search.example?a=b": false,
		"https://search.example?": false, "https://search.example#a": false, "file:///etc/passwd": false, "https:search.example": false,
		"https://search.example:": false, "https://search.example:0": false, "": false,
	} {
		if err := checkLogURL(in); (err == nil) != ok {
			t.Errorf("checkLogURL(%q) = %v", in, err)
		}
	}
}
