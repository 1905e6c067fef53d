package preferences

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxField is the greatest size of a structured field, in octets. The shortest
// one that holds all that RFC 9651 asks a parser to take is within it, and no
// part of a field nests deeper than an item in an inner list.
const maxField = 64 << 10

// A kind is the type of a structured value (RFC 9651, 3.1 and 3.3).
type kind uint8

const (
	innerList kind = iota + 1
	integer
	decimal
	text
	token
	octets
	boolean
	date
	display
)

// A value is an item or an inner list, with its parameters.
type value struct {
	kind   kind
	number int64  // of integer and date; of decimal, in thousandths; of boolean, 0 or 1
	word   string // of text, token, octets and display, decoded
	items  []value
	params []member
}

// A member is one key of a dictionary or of parameters.
type member struct {
	key string
	value
}

// errField is what is wrong with a structured field.
type errField struct {
	at   int
	what string
}

func (e *errField) Error() string { return fmt.Sprintf("octet %d: %s", e.at, e.what) }

// parseDictionary reads a dictionary (RFC 9651, 4.2.2). Of several members with
// one key the last one counts, in the place of the first.
func parseDictionary(field string) ([]member, error) {
	if len(field) > maxField {
		return nil, fmt.Errorf("a field of %d octets, at most %d", len(field), maxField)
	}
	p := &fieldParser{src: strings.TrimRight(strings.TrimLeft(field, " "), " ")}
	var all []member
	at := make(map[string]int)
	for p.pos < len(p.src) {
		m, err := p.member(true)
		if err != nil {
			return nil, err
		}
		if i, twice := at[m.key]; twice {
			all[i] = m
		} else {
			at[m.key] = len(all)
			all = append(all, m)
		}
		p.skip(" \t")
		if p.pos == len(p.src) {
			return all, nil
		}
		if !p.take(',') {
			return nil, p.fail("a comma is missing")
		}
		if p.skip(" \t"); p.pos == len(p.src) {
			return nil, p.fail("nothing behind a comma")
		}
	}
	return all, nil
}

type fieldParser struct {
	src string
	pos int
}

func (p *fieldParser) fail(what string) error { return &errField{p.pos, what} }

// next is the octet to be read, 0 at the end: no octet of a field is zero.
func (p *fieldParser) next() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func (p *fieldParser) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.pos++
	return true
}

func (p *fieldParser) skip(set string) {
	for p.pos < len(p.src) && strings.IndexByte(set, p.src[p.pos]) >= 0 {
		p.pos++
	}
}

// while reads the octets that is accepts.
func (p *fieldParser) while(is func(byte) bool) string {
	from := p.pos
	for p.pos < len(p.src) && is(p.src[p.pos]) {
		p.pos++
	}
	return p.src[from:p.pos]
}

// member reads a key with its value; without "=", that is true. Only members of
// a dictionary may be inner lists and have parameters.
func (p *fieldParser) member(ofDictionary bool) (m member, err error) {
	if c := p.next(); !isLower(c) && c != '*' {
		return m, p.fail("no key")
	}
	m.key = p.while(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
	m.value = value{kind: boolean, number: 1}
	switch {
	case !p.take('='):
	case ofDictionary && p.next() == '(':
		m.value, err = p.inner()
	default:
		m.value, err = p.bare()
	}
	if err == nil && ofDictionary {
		m.params, err = p.parameters()
	}
	return m, err
}

func (p *fieldParser) inner() (value, error) {
	v := value{kind: innerList}
	p.take('(')
	for {
		p.skip(" ")
		if p.take(')') {
			return v, nil
		}
		item, err := p.bare()
		if err != nil {
			return v, err
		}
		if item.params, err = p.parameters(); err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		if c := p.next(); c != ' ' && c != ')' {
			return v, p.fail("neither a space nor the end of an inner list")
		}
	}
}

func (p *fieldParser) parameters() (all []member, err error) {
	at := make(map[string]int)
	for p.take(';') {
		p.skip(" ")
		m, err := p.member(false)
		if err != nil {
			return nil, err
		}
		if i, twice := at[m.key]; twice {
			all[i] = m
		} else {
			at[m.key] = len(all)
			all = append(all, m)
		}
	}
	return all, nil
}

func (p *fieldParser) bare() (value, error) {
	switch c := p.next(); {
	case c == '-' || isDigit(c):
		return p.number()
	case c == '"':
		return p.text()
	case isAlpha(c) || c == '*':
		return value{kind: token, word: p.while(isTokenOctet)}, nil
	case c == ':':
		return p.octets()
	case c == '?':
		p.pos++
		if b := p.next(); b == '0' || b == '1' {
			p.pos++
			return value{kind: boolean, number: int64(b - '0')}, nil
		}
		return value{}, p.fail("a boolean is ?0 or ?1")
	case c == '@':
		p.pos++
		v, err := p.number()
		if err == nil && v.kind != integer {
			return v, p.fail("a date is a whole number")
		}
		v.kind = date
		return v, err
	case c == '%':
		return p.display()
	}
	return value{}, p.fail("no value")
}

// number reads an integer of at most 15 digits, or a decimal of at most 12 and
// one to three behind the point.
func (p *fieldParser) number() (value, error) {
	negative := p.take('-')
	whole := p.while(isDigit)
	v := value{kind: integer}
	digits := whole
	if p.next() == '.' && whole != "" {
		p.pos++
		part := p.while(isDigit)
		if len(whole) > 12 || len(part) < 1 || len(part) > 3 {
			return v, p.fail("a decimal has at most 12 digits, and 1 to 3 behind the point")
		}
		v.kind, digits = decimal, whole+part+"000"[len(part):]
	}
	if len(digits) < 1 || len(digits) > 15 {
		return v, p.fail("a number has 1 to 15 digits")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if v.number = n; negative {
		v.number = -n
	}
	return v, err
}

func (p *fieldParser) text() (value, error) {
	var b strings.Builder
	for p.pos++; ; p.pos++ {
		switch c := p.next(); {
		case c == '"':
			p.pos++
			return value{kind: text, word: b.String()}, nil
		case c < 0x20 || c > 0x7e:
			return value{}, p.fail("a string ends early, or holds other than printable ASCII")
		case c == '\\':
			p.pos++
			if c = p.next(); c != '"' && c != '\\' {
				return value{}, p.fail("only a quote and a backslash are escaped")
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
}

func (p *fieldParser) octets() (value, error) {
	p.pos++
	coded, _, ok := strings.Cut(p.src[p.pos:], ":")
	if !ok {
		return value{}, p.fail("a byte sequence without an end")
	}
	// Padding may be left out, and stray bits may stand (RFC 9651, 4.2.7).
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(coded, "="))
	if err != nil || strings.ContainsAny(coded, "\r\n") {
		return value{}, p.fail("a byte sequence that is no base64")
	}
	p.pos += len(coded) + 1
	return value{kind: octets, word: string(b)}, nil
}

func (p *fieldParser) display() (value, error) {
	if p.pos++; !p.take('"') {
		return value{}, p.fail("a display string begins with %\"")
	}
	var b strings.Builder
	for ; ; p.pos++ {
		switch c := p.next(); {
		case c == '"':
			if p.pos++; !utf8.ValidString(b.String()) {
				return value{}, p.fail("a display string that is no UTF-8")
			}
			return value{kind: display, word: b.String()}, nil
		case c < 0x20 || c > 0x7e:
			return value{}, p.fail("a display string ends early, or holds other than printable ASCII")
		case c == '%':
			hi, lo, err := p.hex()
			if err != nil {
				return value{}, err
			}
			b.WriteByte(hi<<4 | lo)
		default:
			b.WriteByte(c)
		}
	}
}

// hex reads two lower-case digits behind the octet that p stands on, and ends
// on the last.
func (p *fieldParser) hex() (hi, lo byte, err error) {
	const digits = "0123456789abcdef"
	if p.pos+2 < len(p.src) {
		h, l := strings.IndexByte(digits, p.src[p.pos+1]), strings.IndexByte(digits, p.src[p.pos+2])
		if p.pos += 2; h >= 0 && l >= 0 {
			return byte(h), byte(l), nil
		}
	}
	return 0, 0, p.fail("% stands before two lower-case digits of hex")
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlpha(c byte) bool { return isLower(c | 0x20) }

func isTokenOctet(c byte) bool {
	return isAlpha(c) || isDigit(c) || c != 0 && strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
}
