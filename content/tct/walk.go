package tct

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep objects and arrays may nest.
const maxDepth = 16

// A walker reads JSON token by token; with canonical it also sees to the form
// of RFC 8785. Duplicate names, broken UTF-8 and numbers that no float64 holds are
// errors in either case.
type walker struct {
	payload   []byte
	canonical bool
	dec       *jsontext.Decoder

	// isName and opened say that the last token was a member's name, or opened
	// an object or array; names holds the last name of each open object, by
	// depth, quoted.
	isName, opened bool
	names          [maxDepth + 1][]byte
}

// next reads a name, a scalar, or one bracket, for which raw is nil.
func (w *walker) next() (raw jsontext.Value, err error) {
	start := w.dec.InputOffset()
	in, done := w.dec.StackIndex(w.dec.StackDepth())
	k := w.dec.PeekKind()
	size := 1
	switch k {
	case '{', '[', '}', ']':
		_, err = w.dec.ReadToken()
	default:
		raw, err = w.dec.ReadValue()
		size = len(raw)
	}
	if err != nil {
		return nil, err
	}
	depth := w.dec.StackDepth()
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels deep", maxDepth)
	}
	w.opened = k == '{' || k == '['
	w.isName = raw != nil && in == '{' && done%2 == 0
	end := w.dec.InputOffset()
	if k == '0' {
		if f, _ := strconv.ParseFloat(string(raw), 64); math.IsInf(f, 0) {
			return nil, fmt.Errorf("number %.40s is not finite", raw)
		}
	}
	if w.canonical {
		if between := separator(in, done, k); string(w.payload[start:end-int64(size)]) != between {
			return nil, fmt.Errorf("white space at octet %d", start)
		}
		if err := w.checkScalar(raw, k); err != nil {
			return nil, err
		}
	}
	if k == '{' {
		w.names[depth] = nil
	}
	if w.isName {
		name := w.payload[end-int64(size) : end]
		if last := w.names[depth]; w.canonical && last != nil && compareNames(last, name) >= 0 {
			return nil, fmt.Errorf("member %.100s out of order", name)
		}
		w.names[depth] = name
	}
	return raw, nil
}

// end checks that nothing follows the value that has been read.
func (w *walker) end() error {
	rest := w.payload[w.dec.InputOffset():]
	if !w.canonical {
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	if len(rest) > 0 {
		return errors.New("something follows the object")
	}
	return nil
}

// separator is what stands before a token of kind k, behind done names and
// values of an object or array.
func separator(in jsontext.Kind, done int64, k jsontext.Kind) string {
	switch {
	case done == 0 || k == '}' || k == ']' || in != '{' && in != '[':
		return ""
	case in == '{' && done%2 == 1:
		return ":"
	}
	return ","
}

func (w *walker) checkScalar(raw jsontext.Value, k jsontext.Kind) error {
	switch k {
	case '"':
		if !isCanonicalString(raw) {
			return fmt.Errorf("%.100s holds a needless escape", raw)
		}
	case '0':
		const longest = 32 // more than any number takes in its shortest form
		c := slices.Clone(raw[:min(len(raw), longest)])
		if len(raw) > longest || c.Canonicalize() != nil || !bytes.Equal(c, raw) {
			return fmt.Errorf("number %.40s is not in its shortest form", raw)
		}
	}
	return nil
}

// isCanonicalString checks the escapes of a valid JSON string.
func isCanonicalString(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return true
		}
		raw = raw[i+1:]
		switch raw[0] {
		case '"', '\\', 'b', 't', 'n', 'f', 'r':
			raw = raw[1:]
		case 'u':
			var v [1]byte
			if string(raw[1:3]) != "00" || raw[3] > '1' || !lowerHex(&v, raw[3:5]) || shortEscape(v[0]) != 0 {
				return false
			}
			raw = raw[5:]
		default:
			return false
		}
	}
}

// lowerHex reads two lower-case hexadecimal digits.
func lowerHex(v *[1]byte, digits []byte) bool {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			v[0] = v[0]<<4 | (c - '0')
		case 'a' <= c && c <= 'f':
			v[0] = v[0]<<4 | (c - 'a' + 10)
		default:
			return false
		}
	}
	return true
}

// compareNames orders two quoted names by their UTF-16 code units, as RFC 8785,
// 3.2.3 does. That is the order of code points but for U+E000 to U+FFFF, which
// come behind the pairs that stand for the code points above them.
func compareNames(a, b []byte) int {
	a, b = unquoted(a), unquoted(b)
	for len(a) > 0 && len(b) > 0 {
		ra, na := utf8.DecodeRune(a)
		rb, nb := utf8.DecodeRune(b)
		if (ra > 0xFFFF) != (rb > 0xFFFF) {
			return firstUnit(ra) - firstUnit(rb)
		}
		if ra != rb {
			return int(ra - rb)
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

// firstUnit returns a code unit that orders r against those of the other plane.
func firstUnit(r rune) int {
	if r > 0xFFFF {
		return 0xD800
	}
	return int(r)
}

func unquoted(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	s, _ := jsontext.AppendUnquote(nil, quoted) // quoted has been read as valid
	return s
}
