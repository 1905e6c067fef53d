package envelope

import (
	"bytes"
	"encoding/binary"
	"iter"
	"strconv"
	"unicode/utf8"
)

// scanner reads JSON once, from front to end, and accepts it exactly if it is
// in the form that RFC 8785 gives it and holds nothing that the profile leaves
// out: null, numbers other than plain integers, member names beyond
// [a-z0-9_]{1,64}. It builds no value. Names are ASCII, so the order of their
// octets is the order of their UTF-16 units.
type scanner struct {
	b      []byte
	at     int
	limits Limits
}

// checkCanonical refuses raw unless it is one object or array that a scanner
// accepts, within l.
func checkCanonical(raw []byte, l Limits) error {
	if len(raw) > l.Size {
		return refuse(ErrSize, "", "%d octets, at most %d", len(raw), l.Size)
	}
	s := scanner{b: raw, limits: l}
	if c := s.peek(); c != '{' && c != '[' {
		return s.unexpected("an object")
	}
	if err := s.value(0, nil); err != nil {
		return err
	}
	if s.at < len(raw) {
		return s.unexpected("the end")
	}
	return nil
}

// peek is the next octet, or 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

// unexpected refuses the next octet.
func (s *scanner) unexpected(instead string) error {
	if s.at >= len(s.b) {
		return refuse(ErrSyntax, "", "it ends where %s should stand", instead)
	}
	switch c := s.b[s.at]; c {
	case ' ', '\t', '\n', '\r':
		return refuse(ErrCanonical, "", "white space at offset %d", s.at)
	default:
		return refuse(ErrSyntax, "", "octet %#02x at offset %d, where %s should stand", c, s.at, instead)
	}
}

// value reads one value inside depth containers; name is that of the member
// whose value it is.
func (s *scanner) value(depth int, name []byte) error {
	switch c := s.peek(); c {
	case '{', '[':
		if depth >= s.limits.Depth {
			return refuse(ErrLimit, "", "nested deeper than %d", s.limits.Depth)
		}
		s.at++
		if c == '[' {
			return s.array(depth + 1)
		}
		return s.object(depth+1, string(name) == "extensions")
	case '"':
		return s.text()
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return refuse(ErrSyntax, "", "null is not allowed")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	}
	return s.unexpected("a value")
}

// object reads an object behind its brace. The value of any member called
// "extensions" names its own members by domain and label.
func (s *scanner) object(depth int, extensions bool) error {
	if s.peek() == '}' {
		s.at++
		return nil
	}
	var before []byte
	for n := 1; ; n++ {
		if n > s.limits.Members {
			return refuse(ErrLimit, "", "more than %d members", s.limits.Members)
		}
		name, err := s.name(extensions)
		if err != nil {
			return err
		}
		switch order := bytes.Compare(before, name); {
		case order == 0:
			return refuse(ErrSyntax, string(name), "a member twice")
		case order > 0:
			return refuse(ErrCanonical, string(name), "a member out of order")
		case s.peek() != ':':
			return within(string(name), s.unexpected("a colon"))
		}
		s.at++
		if err := s.value(depth, name); err != nil {
			return within(string(name), err)
		}
		before = name
		switch s.peek() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return s.unexpected("a comma or brace")
		}
	}
}

// name reads a member name. No name that is allowed needs an escape.
func (s *scanner) name(extension bool) ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.unexpected("a member name")
	}
	rest := s.b[s.at+1:]
	name := rest[:min(len(rest), maxExtension+1)]
	end := bytes.IndexByte(name, '"')
	if end >= 0 {
		name = name[:end]
	}
	if end < 0 || (extension && !validExtension(string(name))) || (!extension && !validMember(name)) {
		return nil, refuse(ErrSyntax, "", "member name %.70q", name)
	}
	s.at += len(name) + 2
	return name, nil
}

func validMember(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= 64
}

// array reads an array behind its bracket.
func (s *scanner) array(depth int) error {
	if s.peek() == ']' {
		s.at++
		return nil
	}
	for n := 0; ; n++ {
		if n >= s.limits.Items {
			return refuse(ErrLimit, "", "more than %d items", s.limits.Items)
		}
		if err := s.value(depth, nil); err != nil {
			return within(strconv.Itoa(n), err)
		}
		switch s.peek() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.unexpected("a comma or bracket")
		}
	}
}

// text reads a string.
func (s *scanner) text() error {
	start := s.at + 1
	for i := start + plainLen(s.b[start:]); i < len(s.b); i += plainLen(s.b[i:]) {
		switch c := s.b[i]; {
		case c == '"':
			if i-start > s.limits.String {
				return refuse(ErrLimit, "", "a string of %d octets, at most %d", i-start, s.limits.String)
			}
			s.at = i + 1
			return nil
		case c == '\\':
			n := escapeLen(s.b[i:])
			if n == 0 {
				return refuse(ErrCanonical, "", "an escape that is no canonical one at offset %d", i)
			}
			i += n
		case c < ' ':
			return refuse(ErrSyntax, "", "control character %#02x in a string", c)
		case c < utf8.RuneSelf:
			i++
		default:
			_, n := utf8.DecodeRune(s.b[i:])
			if n == 1 {
				return refuse(ErrSyntax, "", "not UTF-8 at offset %d", i)
			}
			i += n
		}
	}
	return refuse(ErrSyntax, "", "a string without end")
}

// plainLen is how many octets at the front of b, counted by eights, stand for
// themselves in a string: ASCII, but no control character, quote or backslash.
func plainLen(b []byte) (n int) {
	const each, top = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		// Where no octet has its top bit, each of these differences has one set
		// if an octet is below the space, the quote, or the backslash.
		if (w|(w-each*' ')|((w^each*'"')-each)|((w^each*'\\')-each))&top != 0 {
			break
		}
	}
	return n
}

// escapeLen is the length of the escape that b begins with, or 0 if RFC 8785
// (3.2.2.2) writes that character in another way, or there is none.
func escapeLen(b []byte) int {
	if len(b) >= 2 && bytes.IndexByte([]byte(`"\bfnrt`), b[1]) >= 0 {
		return 2
	}
	if len(b) < 6 || string(b[:4]) != `\u00` {
		return 0
	}
	switch digit := bytes.IndexByte([]byte("0123456789abcdef"), b[5]); {
	case digit < 0:
		return 0
	case b[4] == '1':
		return 6
	case b[4] == '0' && digit != 8 && digit != 9 && digit != 10 && digit != 12 && digit != 13:
		return 6
	}
	return 0
}

// number reads a number.
func (s *scanner) number() error {
	end := s.at
	for end < len(s.b) && bytes.IndexByte([]byte("+-.0123456789Ee"), s.b[end]) >= 0 {
		end++
	}
	if !plainInteger(s.b[s.at:end]) {
		return refuse(ErrSyntax, "", "%.40q is no plain integer of at most 2^53-1", s.b[s.at:end])
	}
	s.at = end
	return nil
}

// plainInteger reports whether b is written without fraction, exponent,
// leading zero or minus zero, and is at most MaxInteger in magnitude.
func plainInteger(b []byte) bool {
	digits := bytes.TrimPrefix(b, []byte("-"))
	if len(digits) == 0 || len(digits) > 16 || (digits[0] == '0' && len(b) > 1) {
		return false
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
		n = n*10 + uint64(c-'0')
	}
	return n <= MaxInteger
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.b[s.at:], []byte(word)) {
		return s.unexpected("a value")
	}
	s.at += len(word)
	return nil
}

// A member is one member of an object: b[start:end] holds its name, a colon
// and its value.
type member struct {
	name, value []byte
	start, end  int
}

// members yields the members of the object b in order, and none if b is no
// object. It trusts b to be canonical.
func members(b []byte) iter.Seq[member] {
	return func(yield func(member) bool) {
		for at := 1; len(b) > 0 && b[0] == '{' && at < len(b)-1; at++ {
			name := at + textLen(b[at:])
			end := name + 1 + valueLen(b[name+1:])
			if !yield(member{b[at+1 : name-1], b[name+1 : end], at, end}) {
				return
			}
			at = end
		}
	}
}

// items yields the items of the array b in order. It trusts b to be canonical.
func items(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := 1; at < len(b)-1; at++ {
			end := at + valueLen(b[at:])
			if !yield(b[at:end]) {
				return
			}
			at = end
		}
	}
}

// textLen is the length of the string that b begins with.
func textLen(b []byte) int {
	if end := 1 + bytes.IndexByte(b[1:], '"'); end > 0 && bytes.IndexByte(b[1:end], '\\') < 0 {
		return end + 1
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// valueLen is the length of the value that b begins with.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += textLen(b[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}
