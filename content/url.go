package content

import (
	"fmt"
	"strings"
)

// MaxURL is the greatest length of a URL, in octets.
const MaxURL = 8 << 10

// A URLRule is a rule of the canonical form, stated as what a URL did wrong.
type URLRule string

// The rules, each as the reason for a refusal.
const (
	RuleLength       URLRule = "longer than 8192 octets"
	RuleScheme       URLRule = "does not start with http:// or https:// in lower case"
	RuleUserinfo     URLRule = "user information before the host"
	RuleNoHost       URLRule = "no host"
	RuleHostCase     URLRule = "upper-case letter in the host"
	RuleHostDot      URLRule = "dot at the end of the host"
	RuleHost         URLRule = "host is no name of ASCII letters, digits and hyphens"
	RuleAddress      URLRule = "address is not plain dotted IPv4"
	RulePort         URLRule = "port is empty, the default one, or not written plainly"
	RuleNoPath       URLRule = "no path after the host"
	RuleBackslash    URLRule = "backslash"
	RuleEmptySegment URLRule = "two slashes in a row"
	RuleDotSegment   URLRule = "dot segment, plain or encoded"
	RuleControl      URLRule = "control octet, plain or encoded"
	RuleOctet        URLRule = "octet that must be percent-encoded"
	RuleEscape       URLRule = "percent-encoding is cut short or not in upper case"
	RuleUnreserved   URLRule = "percent-encoding of an octet that needs none"
	RuleEmptyQuery   URLRule = "question mark without a query"
	RuleFragment     URLRule = "fragment"
)

// A URLError says which rule of the canonical form a URL breaks.
type URLError struct {
	URL  string
	Rule URLRule
}

func (e *URLError) Error() string {
	return fmt.Sprintf("URL %.200q: %s", e.URL, string(e.Rule))
}

// IsCanonical returns nil for a URL in canonical form, and else a *URLError.
// It repairs nothing: a receiver that did would match one string against a
// grant and store another.
//
// The form is that of RFC 3986, 6.2.2 and 6.2.3, and narrower: scheme http or
// https; a host in lower case, as ASCII (an "xn--" label is only a name here),
// or plain dotted IPv4; no user information; a port only where it is not the
// scheme's own; a path that starts with one slash and holds no empty and no
// dot segment, whatever encoding hides it; octets percent-encoded, in upper
// case, exactly where they must be; no fragment; at most MaxURL octets. Octets
// that RFC 3986 reserves may stand plain or encoded: "+" and "%2B" are
// different URLs, and so are "/" and "%2F".
func IsCanonical(u string) error {
	if rule := broken(u); rule != "" {
		return &URLError{u, rule}
	}
	return nil
}

// broken returns the first rule that u breaks, or "".
func broken(u string) URLRule {
	if len(u) > MaxURL {
		return RuleLength
	}
	if strings.IndexByte(u, '\\') >= 0 {
		return RuleBackslash
	}
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return RuleScheme
	}
	if strings.IndexByte(rest, '#') >= 0 {
		return RuleFragment
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	if rule := brokenAuthority(scheme, rest[:end]); rule != "" {
		return rule
	}
	path := rest[end:]
	if path == "" {
		return RuleNoPath
	}
	if strings.Contains(path, "//") {
		return RuleEmptySegment
	}
	if hidesDotSegment(path) {
		return RuleDotSegment
	}
	if rule := brokenOctets(path, inPath); rule != "" {
		return rule
	}
	if hasQuery && query == "" {
		return RuleEmptyQuery
	}
	return brokenOctets(query, inQuery)
}

func brokenAuthority(scheme, authority string) URLRule {
	if strings.IndexByte(authority, '@') >= 0 {
		return RuleUserinfo
	}
	if strings.HasPrefix(authority, "[") {
		return RuleAddress
	}
	host, port, hasPort := strings.Cut(authority, ":")
	if rule := brokenHost(host); rule != "" {
		return rule
	}
	if hasPort && (!isPort(port) || port == defaultPort(scheme)) {
		return RulePort
	}
	return ""
}

// brokenHost checks a host without its port. A name is at most 253 octets in
// labels of 1 to 63.
func brokenHost(host string) URLRule {
	switch {
	case host == "":
		return RuleNoHost
	case strings.HasSuffix(host, "."):
		return RuleHostDot
	case len(host) > 253:
		return RuleHost
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return RuleHost
		}
		for i := range len(label) {
			switch c := label[i]; {
			case 'A' <= c && c <= 'Z':
				return RuleHostCase
			case ('a' > c || c > 'z') && ('0' > c || c > '9') && c != '-' && c != '_':
				return RuleHost
			}
		}
		last = label
	}
	// What ends in a number is read as an address, in many notations.
	if isNumber(last) && !isIPv4(host) {
		return RuleAddress
	}
	return ""
}

// isNumber reports whether a lower-case label would be read as a number.
func isNumber(label string) bool {
	digits, base := label, byte(10)
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		digits, base = hex, 16
	}
	for i := range len(digits) {
		if hexValue[digits[i]] >= base {
			return false
		}
	}
	return true
}

// isIPv4 accepts four decimal octets without leading zeros.
func isIPv4(host string) bool {
	parts := 0
	for part := range strings.SplitSeq(host, ".") {
		if parts++; !isDecimal(part, 255) {
			return false
		}
	}
	return parts == 4
}

func isPort(port string) bool {
	return port != "0" && isDecimal(port, 65535)
}

// isDecimal accepts a number up to limit as it is printed.
func isDecimal(s string, limit int) bool {
	if s == "" || len(s) > 5 || len(s) > 1 && s[0] == '0' {
		return false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n <= limit
}

func defaultPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

// maxEncodings is how many times over a path may be percent-encoded.
const maxEncodings = 8

// hidesDotSegment reports whether a path has a segment "." or "..", or would
// have one for a reader that decodes it, several times over if need be, takes
// backslashes or encoded slashes for separators, or cuts parameters off.
func hidesDotSegment(path string) bool {
	for range maxEncodings {
		if hasDotSegment(path) {
			return true
		}
		decoded := decode(path)
		if decoded == path {
			return false
		}
		path = decoded
	}
	return true
}

// hasDotSegment looks for a segment "." or "..", with or without parameters, in
// a path that starts with a slash. It goes from one slash with a dot behind it to
// the next, as most paths have none.
func hasDotSegment(path string) bool {
	for {
		_, rest, found := strings.Cut(path, "/.")
		if !found {
			return false
		}
		end := strings.TrimPrefix(rest, ".")
		if end == "" || end[0] == '/' || end[0] == ';' {
			return true
		}
		path = rest
	}
}

// decode undoes one layer of percent-encoding and turns backslashes round.
func decode(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if v, ok := escaped(path[i:]); ok {
			c, i = v, i+2
		}
		if c == '\\' {
			c = '/'
		}
		b = append(b, c)
	}
	return string(b)
}

// escaped returns the octet that s starts with in percent-encoding.
func escaped(s string) (octet byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	hi, lo := hexValue[s[1]], hexValue[s[2]]
	return hi<<4 | lo, hi < 16 && lo < 16
}

// brokenOctets checks that each octet is in the one form it may have.
func brokenOctets(s string, where octets) URLRule {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			v, ok := escaped(s[i:])
			switch {
			case !ok || isLower(s[i+1]) || isLower(s[i+2]):
				return RuleEscape
			case isControl(v):
				return RuleControl
			case octetClass[v]&unreserved != 0:
				return RuleUnreserved
			}
			i += 2
			continue
		}
		if octetClass[c]&where == 0 {
			if isControl(c) {
				return RuleControl
			}
			return RuleOctet
		}
	}
	return ""
}

func isLower(c byte) bool   { return 'a' <= c && c <= 'z' }
func isControl(c byte) bool { return c < 0x20 || c == 0x7f }

// octets is a set of places where an octet may stand plain.
type octets uint8

const (
	inPath     octets = 1 << iota // RFC 3986 pchar and "/"
	inQuery                       // RFC 3986 query
	unreserved                    // RFC 3986 unreserved
)

var octetClass = classify()

func classify() (class [256]octets) {
	set := func(s string, o octets) {
		for i := range len(s) {
			class[s[i]] |= o
		}
	}
	set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", inPath|inQuery|unreserved)
	set("!$&'()*+,;=:@/", inPath|inQuery)
	set("?", inQuery)
	return class
}

// hexValue is the value of a hexadecimal digit, and 255 for all else.
var hexValue = hexValues()

func hexValues() (value [256]byte) {
	for i := range value {
		value[i] = 255
	}
	for i, c := range []byte("0123456789abcdef") {
		value[c] = byte(i)
	}
	for i, c := range []byte("ABCDEF") {
		value[c] = byte(10 + i)
	}
	return value
}
