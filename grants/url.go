package grants

import "strings"

// MaxURL is the greatest length of a URL, in octets.
const MaxURL = 8 << 10

// maxEncodings is how many layers of percent-encoding a path may hide behind.
const maxEncodings = 8

// shape reports whether u has the one form that matching relies on, and where
// its path begins and ends; a query, if any, follows u[end] == '?'.
//
// The form is the canonical one in which pages are stored. It is checked again
// here, and not taken on trust from whoever calls, because a prefix decides
// nothing about a URL that two readers would resolve to two places: each "no"
// below is a way to write a URL that begins like the scope and leads out of
// it. Only then is comparing octets the same as comparing hosts and segments.
// It allocates nothing.
func shape(u string) (path, end int, ok bool) {
	defaultPort := "443"
	switch {
	case len(u) > MaxURL:
		return 0, 0, false
	case strings.HasPrefix(u, "https://"):
		path = len("https://")
	case strings.HasPrefix(u, "http://"):
		path, defaultPort = len("http://"), "80"
	default:
		return 0, 0, false
	}
	slash := strings.IndexByte(u[path:], '/')
	if slash < 0 || !isAuthority(u[path:path+slash], defaultPort) {
		return 0, 0, false
	}
	path += slash
	end = len(u)
	if q := strings.IndexByte(u[path:], '?'); q >= 0 {
		end = path + q
		if end == len(u)-1 || !areOctets(u[end+1:], "/?") {
			return 0, 0, false
		}
	}
	p := u[path:end]
	return path, end, areOctets(p, "/") && !strings.Contains(p, "//") && !leavesItself(p)
}

// isAuthority accepts a host in lower-case ASCII or a plain dotted IPv4
// address, and a port that is not the scheme's own. There is no user
// information, no bracket, no dot at the end; an "xn--" label is a name like
// any other, and equals only itself.
func isAuthority(a, defaultPort string) bool {
	host := a
	if colon := strings.IndexByte(a, ':'); colon >= 0 {
		port := a[colon+1:]
		if port == defaultPort || port == "0" || !isDecimal(port, 65535) {
			return false
		}
		host = a[:colon]
	}
	if len(host) == 0 || len(host) > 253 {
		return false
	}
	octets := 0 // labels that could be part of an IPv4 address
	labels := 0
	for rest := host; ; labels++ {
		label := rest
		dot := strings.IndexByte(rest, '.')
		if dot >= 0 {
			label = rest[:dot]
		}
		if !isHostLabel(label) {
			return false
		}
		if isDecimal(label, 255) {
			octets++
		}
		if dot < 0 {
			// What ends in a number is read as an address, in many notations.
			return !isNumber(label) || octets == 4 && labels == 3
		}
		rest = rest[dot+1:]
	}
}

func isHostLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if !isLowerOrDigit(s[i]) && s[i] != '-' && s[i] != '_' {
			return false
		}
	}
	return true
}

// isNumber reports whether a host label would be read as a number, decimal,
// octal or hexadecimal.
func isNumber(label string) bool {
	if strings.HasPrefix(label, "0x") {
		for i := 2; i < len(label); i++ {
			if _, ok := hexDigit(label[i]); !ok {
				return false
			}
		}
		return true
	}
	for i := range len(label) {
		if !isDigit(label[i]) {
			return false
		}
	}
	return true
}

// isDecimal accepts a number up to limit, written as it is printed.
func isDecimal(s string, limit int) bool {
	if len(s) == 0 || len(s) > 5 || len(s) > 1 && s[0] == '0' {
		return false
	}
	n := 0
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n <= limit
}

// areOctets accepts RFC 3986 pchar and what also names, with an octet
// percent-encoded in upper case, and only if it needs it. No octet is a
// control, in either way of writing; '#', '\' and spaces are none of these.
func areOctets(s, also string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '%' {
			if !isUnreserved(c) && strings.IndexByte("!$&'()*+,;=:@", c) < 0 && strings.IndexByte(also, c) < 0 {
				return false
			}
			continue
		}
		v, ok := escaped(s[i:])
		if !ok || 'a' <= s[i+1] || 'a' <= s[i+2] || v < 0x20 || v == 0x7f || isUnreserved(v) {
			return false
		}
		i += 2
	}
	return true
}

func isUnreserved(c byte) bool {
	return isLowerOrDigit(c) || 'A' <= c && c <= 'Z' || c == '-' || c == '.' || c == '_' || c == '~'
}

// escaped returns the octet whose percent-encoding s begins with.
func escaped(s string) (octet byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	hi, ok1 := hexDigit(s[1])
	lo, ok2 := hexDigit(s[2])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// leavesItself reports whether a path has a segment "." or "..", or would have
// one for a reader that decodes it, several times over if need be, takes
// backslashes and encoded slashes for separators, or cuts parameters off.
func leavesItself(path string) bool {
	if strings.IndexByte(path, '%') < 0 {
		return hasDotSegment(path)
	}
	var room [MaxURL]byte
	b := room[:copy(room[:], path)]
	for range maxEncodings {
		if hasDotSegment(b) {
			return true
		}
		n := decodeLayer(b)
		if n == len(b) {
			return false
		}
		b = b[:n]
	}
	return true
}

// hasDotSegment looks at what stands between slashes, up to a semicolon.
func hasDotSegment[T string | []byte](path T) bool {
	dots, counting := 0, false
	for i := 0; i <= len(path); i++ {
		switch {
		case i == len(path) || path[i] == '/' || path[i] == ';':
			if counting && (dots == 1 || dots == 2) {
				return true
			}
			dots, counting = 0, i < len(path) && path[i] == '/'
		case path[i] == '.':
			dots++
		default:
			counting = false
		}
	}
	return false
}

// decodeLayer undoes one layer of percent-encoding in place, turns backslashes
// round, and returns the new length.
func decodeLayer(b []byte) int {
	n := 0
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '%' && i+2 < len(b) {
			hi, ok1 := hexDigit(b[i+1])
			lo, ok2 := hexDigit(b[i+2])
			if ok1 && ok2 {
				c, i = hi<<4|lo, i+2
			}
		}
		if c == '\\' {
			c = '/'
		}
		b[n] = c
		n++
	}
	return n
}
