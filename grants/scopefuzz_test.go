package grants_test

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

var (
	aHost     = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)
	aPath     = regexp.MustCompile(`^(/|(/([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})+)+/?)$`)
	aQuery    = regexp.MustCompile(`^([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})+$`)
	needless  = regexp.MustCompile(`%(2D|2E|5F|7E|3[0-9]|[46][1-9A-F]|[57][0-9A])`)
	forbidden = regexp.MustCompile(`%(0|1|7F)`)
	dots      = regexp.MustCompile(`/\.\.?(/|;|$)`)
	number    = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)
)

// canonicalByParts says what the canonical form is by what net/url makes of a
// URL, and by expressions for its parts; nothing of it is shared with Match.
func canonicalByParts(raw string) (*url.URL, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.String() != raw {
		return nil, false
	}
	host, port := u.Hostname(), u.Port()
	ip := net.ParseIP(host)
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.User != nil, u.Opaque != "", u.Fragment != "", strings.Contains(raw, "#"):
		return nil, false
	case !aHost.MatchString(host), len(host) > 253, ip != nil && ip.To4() == nil, u.Host != host && u.Host != host+":"+port:
		return nil, false
	case port == "0", len(port) > 1 && port[0] == '0', u.Scheme == "http" && port == "80", u.Scheme == "https" && port == "443":
		return nil, false
	}
	p, q := u.EscapedPath(), u.RawQuery
	for _, part := range []string{p, q} {
		if needless.MatchString(part) || forbidden.MatchString(part) {
			return nil, false
		}
	}
	if !aPath.MatchString(p) || u.ForceQuery || q != "" && !aQuery.MatchString(q) {
		return nil, false
	}
	return u, true
}

// FuzzScope draws prefixes and URLs: a URL that matches is canonical, has the
// host of a prefix and lies below it by whole segments, for who reads it with
// net/url, resolves it and cleans it; and one that is canonical, below a prefix
// and without dots or layers of encoding matches.
func FuzzScope(f *testing.F) {
	for _, tt := range [][2]string{
		{"https://example.com/doc/", "https://example.com/doc/operator+=.html"},
		{"https://example.com/doc", "https://example.com/doc/caf%C3%A9?q"},
		{"https://example.com/doc", "https://example.com/docs"},
		{"http://127.0.0.1:8080/", "http://127.0.0.1:8080/%7Ex"},
		{"https://example.com/a/%2F/", "https://example.com/a/%2F/..%2Fb"},
		{"https://example.com/doc/", `https://example.com\@evil.com/doc/`},
		{"https://xn--xample-2of.com/", "https://xn--xample-2of.com/;/x"},
	} {
		f.Add(tt[0], tt[1], true)
		f.Add(tt[0], tt[1], false)
	}
	f.Fuzz(func(t *testing.T, prefix, raw string, query bool) {
		scope, err := grants.PrefixScope(prefix)
		if err != nil {
			return
		}
		scope.Query = query
		p, ok := canonicalByParts(prefix)
		if !ok || p.RawQuery != "" {
			t.Fatalf("%q is a prefix", prefix)
		}
		u, canonical := canonicalByParts(raw)
		if err := scope.Match(raw); err != nil {
			if canonical && len(raw) <= grants.MaxURL && below(p, u) && (query || u.RawQuery == "") && isPlain(u) {
				t.Fatalf("%q is below %q: %v", raw, prefix, err)
			}
			return
		}
		if !canonical || len(raw) > grants.MaxURL {
			t.Fatalf("%q matches %q and is not canonical", raw, prefix)
		}
		if !below(p, u) || u.RawQuery != "" && !query {
			t.Fatalf("%q matches %q and is not below it", raw, prefix)
		}
		if u.ResolveReference(&url.URL{}).String() != raw {
			t.Fatalf("%q matches %q and is resolved to another place", raw, prefix)
		}
		// Who decodes the path and cleans it is not led out of the prefix.
		inside, folder := path.Clean(u.Path), path.Clean(p.Path)
		if folder != "/" && inside != folder && !strings.HasPrefix(inside, folder+"/") {
			t.Fatalf("%q matches %q and is cleaned to %q", raw, prefix, inside)
		}
	})
}

// below compares origins, and paths segment by segment.
func below(p, u *url.URL) bool {
	if p.Scheme != u.Scheme || p.Host != u.Host {
		return false
	}
	ps, us := strings.Split(p.EscapedPath(), "/"), strings.Split(u.EscapedPath(), "/")
	if ps[len(ps)-1] == "" {
		ps = ps[:len(ps)-1]
		return len(us) > len(ps) && slices.Equal(us[:len(ps)], ps)
	}
	return len(us) >= len(ps) && slices.Equal(us[:len(ps)], ps)
}

// isPlain reports whether a URL is short of everything that Match refuses although
// it is canonical: what a reader might take for dots, slashes or numbers.
func isPlain(u *url.URL) bool {
	labels := strings.Split(u.Hostname(), ".")
	for _, l := range labels {
		if len(l) > 63 {
			return false
		}
	}
	if strings.Contains(u.EscapedPath(), "%") || dots.MatchString(u.EscapedPath()) || len(u.Port()) > 4 {
		return false
	}
	return net.ParseIP(u.Hostname()) != nil || !number.MatchString(labels[len(labels)-1])
}
