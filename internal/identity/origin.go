package identity

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// An Origin is scheme://host or scheme://host:port, where a publisher's pages
// live. It stands for exactly that host and port and for no subdomain.
type Origin string

// ParseOrigin accepts http and https origins in their one canonical form:
// lower case, no default port, no path, no wildcard, no trailing dot. A host
// is a DNS name (IDNA in its xn-- form) or a dotted IPv4 address.
func ParseOrigin(s string) (Origin, error) {
	scheme, authority, ok := strings.Cut(s, "://")
	if !ok || (scheme != "http" && scheme != "https") {
		return "", fmt.Errorf("origin %.80q: want https://host or http://host, with a port where it is not the default", s)
	}
	host, port, hasPort := strings.Cut(authority, ":")
	if err := checkHost(host); err != nil {
		return "", fmt.Errorf("origin %.80q: %w", s, err)
	}
	if !hasPort {
		return Origin(s), nil
	}
	n, err := checkPort(port)
	if err != nil {
		return "", fmt.Errorf("origin %.80q: %w", s, err)
	}
	if (scheme == "https" && n == 443) || (scheme == "http" && n == 80) {
		return "", fmt.Errorf("origin %.80q: leave out the default port", s)
	}
	return Origin(s), nil
}

// MarshalText gives the origin itself.
func (o Origin) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText is ParseOrigin.
func (o *Origin) UnmarshalText(b []byte) error {
	v, err := ParseOrigin(string(b))
	if err != nil {
		return err
	}
	*o = v
	return nil
}

// maxOrigins is how many origins one card claims, or one peer is granted.
const maxOrigins = 256

func checkOrigins(origins []Origin) error {
	if len(origins) > maxOrigins {
		return fmt.Errorf("%d origins, at most %d", len(origins), maxOrigins)
	}
	seen := make(map[Origin]bool, len(origins))
	for _, o := range origins {
		if _, err := ParseOrigin(string(o)); err != nil {
			return err
		}
		if seen[o] {
			return fmt.Errorf("origin %q stands twice", o)
		}
		seen[o] = true
	}
	return nil
}

// checkEndpoint accepts host:port as a dialler takes it; an IPv6 address
// stands in brackets.
func checkEndpoint(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || len(s) > 300 || net.JoinHostPort(host, port) != s {
		return fmt.Errorf("endpoint %.80q: want host:port", s)
	}
	if _, err := checkPort(port); err != nil {
		return fmt.Errorf("endpoint %.80q: %w", s, err)
	}
	if err := checkHostOrIPv6(host); err != nil {
		return fmt.Errorf("endpoint %.80q: %w", s, err)
	}
	return nil
}

// checkLogURL accepts the http or https address under which a log is served,
// without the trailing slash. Plain http is allowed: a log proves itself.
func checkLogURL(s string) error {
	bad := func(why string) error { return fmt.Errorf("log URL %.80q: %s", s, why) }
	u, err := url.Parse(s)
	switch {
	case err != nil || len(s) > 1024 || u.String() != s || u.Opaque != "":
		return bad("malformed")
	case u.Scheme != "https" && u.Scheme != "http":
		return bad("want https:// or http://")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return bad("no user, query or fragment")
	case u.Path != "" && (u.Path == "/" || path.Clean(u.Path) != u.Path):
		return bad("no trailing slash and no empty or dot segments")
	}
	if err := checkHostOrIPv6(u.Hostname()); err != nil {
		return bad(err.Error())
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if _, err := checkPort(p); err != nil {
			return bad(err.Error())
		}
	}
	return nil
}

// checkLogOrigin accepts what may name a C2SP checkpoint's key: visible ASCII
// without "+", so that it is one line, one word, and one way to write it.
func checkLogOrigin(s string) error {
	if len(s) == 0 || len(s) > 255 {
		return fmt.Errorf("log origin %.80q: 1 to 255 characters", s)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '+' {
			return fmt.Errorf("log origin %.80q: character %d", s, i+1)
		}
	}
	return nil
}

func checkPort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("port %.20q: want 1 to 65535", s)
	}
	return int(n), nil
}

func checkHostOrIPv6(s string) error {
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() && a.Zone() == "" && a.String() == s {
		return nil
	}
	return checkHost(s)
}

// checkHost accepts a lower-case DNS name or a dotted IPv4 address. A name
// whose last label begins with a digit is read as an address by some, so it
// has to be one.
func checkHost(s string) error {
	if len(s) == 0 || len(s) > 253 {
		return fmt.Errorf("host %.80q: 1 to 253 characters", s)
	}
	last := s[strings.LastIndexByte(s, '.')+1:]
	if last != "" && last[0] >= '0' && last[0] <= '9' {
		if a, err := netip.ParseAddr(s); err != nil || !a.Is4() {
			return fmt.Errorf("host %.80q: neither a name nor a dotted IPv4 address", s)
		}
		return nil
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return fmt.Errorf("host %.80q: label %.80q", s, label)
		}
	}
	return nil
}

func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
