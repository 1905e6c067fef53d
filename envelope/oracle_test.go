package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

var (
	memberName    = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	extensionName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)+[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(/[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)$`)
	integer       = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,15})$`)
)

// inProfile reports, by a reader that others wrote, whether raw is one object
// or array of what the profile allows, in any form.
func inProfile(raw []byte, l Limits) bool {
	if len(raw) > l.Size {
		return false
	}
	o := oracle{raw, l, jsontext.NewDecoder(bytes.NewReader(raw))}
	if k := o.d.PeekKind(); (k != '{' && k != '[') || !o.value(0, "") {
		return false
	}
	_, err := o.d.ReadToken()
	return errors.Is(err, io.EOF)
}

type oracle struct {
	raw []byte
	l   Limits
	d   *jsontext.Decoder
}

func (o oracle) value(depth int, name string) bool {
	d, l := o.d, o.l
	start := d.InputOffset()
	tok, err := d.ReadToken()
	if err != nil {
		return false
	}
	switch tok.Kind() {
	case 'n':
		return false
	case '0':
		n, err := strconv.ParseInt(tok.String(), 10, 64)
		return integer.MatchString(tok.String()) && err == nil && max(n, -n) <= MaxInteger
	case '"':
		// The offset before a token is that of its comma, colon or space.
		return len(bytes.TrimLeft(o.raw[start:d.InputOffset()], ",: \t\r\n")) <= l.String+2
	case '[', '{':
	default:
		return true
	}
	if depth == l.Depth {
		return false
	}
	object := tok.Kind() == '{'
	for n := 1; d.PeekKind() != ']' && d.PeekKind() != '}'; n++ {
		inner := ""
		if object {
			key, err := d.ReadToken()
			if err != nil || key.Kind() != '"' {
				return false
			}
			inner = key.String()
			pattern := memberName
			if name == "extensions" {
				pattern = extensionName
			}
			if !pattern.MatchString(inner) || len(inner) > 255 || n > l.Members {
				return false
			}
		} else if n > l.Items {
			return false
		}
		if !o.value(depth+1, inner) {
			return false
		}
	}
	_, err = d.ReadToken()
	return err == nil
}

// checkOracles holds the scanner against RFC 8785 as two others wrote it: it
// accepts exactly what is in the profile and what both leave as it is.
func checkOracles(t testing.TB, raw []byte, l Limits) {
	err := checkCanonical(raw, l)
	transformed, jcsErr := jcs.Transform(raw)
	value := jsontext.Value(bytes.Clone(raw))
	valueErr := value.Canonicalize()
	allowed := inProfile(raw, l)
	byJCS := allowed && jcsErr == nil && bytes.Equal(transformed, raw)
	byJSON := allowed && valueErr == nil && bytes.Equal(value, raw)
	if byJCS != byJSON || byJCS != (err == nil) {
		t.Fatalf("%q: scanner %v; in profile %t; jcs %q, %v; jsontext %q, %v", raw, err, allowed, transformed, jcsErr, value, valueErr)
	}
	if allowed && jcsErr == nil && valueErr == nil && !bytes.Equal(transformed, value) {
		t.Fatalf("%q: jcs %q, jsontext %q", raw, transformed, value)
	}
}

var narrow = Limits{Size: 4096, Depth: 4, Items: 5, Members: 4, String: 40}

var seeds = []string{
	`{}`, `[]`, `{"a":1}`, `{"a":[{"b":true},false,"x",-1]}`, `{"b":1,"a":2}`, `{"a":1,"a":1}`, `[1,]`, `[01]`, `{"a":1,"b`,
	`{"extensions":{"a.b/c":1}}`, `{"extensions":{"a.b":1}}`, `[[[[]]]]`, `[[[[[]]]]]`, `[1,2,3,4,5]`, `[1,2,3,4,5,6]`,
	`["\u0000\b\t\n\u000b\f\r\u001f\"\\é😀"]`, `["\u0008"]`, `["\ud83d\ude00"]`, `["\ud83d"]`, "[\"\xed\xa0\xbd\"]", "[\"\u2028\x7f\"]",
	`[-0]`, `[9007199254740991]`, `[9007199254740992]`, `[1e2]`, `[1.0]`, ` {}`, "{}\n", `{}{}`, "\xef\xbb\xbf{}", `[null]`, `null`, `[tru]`, `["a" ]`,
	`{"a":1,"b":2,"c":3,"d":4}`, `{"a":1,"b":2,"c":3,"d":4,"e":5}`, `["` + strings.Repeat("x", 40) + `"]`, `["` + strings.Repeat("x", 41) + `"]`,
}

func FuzzCanonical(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Add(goodGrant(f))
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkOracles(t, raw, narrow)
		checkOracles(t, raw, artefactLimits)
	})
}

func TestEachCharacterHasOneForm(t *testing.T) {
	for c := range 0x200 {
		for _, form := range []string{`["\u%04x"]`, `["\u%04X"]`, `["\%c"]`, `["%c"]`} {
			checkOracles(t, fmt.Appendf(nil, form, c), narrow)
		}
	}
	for c := range 0x100 {
		checkOracles(t, []byte{'[', '"', byte(c), '"', ']'}, narrow)
		checkOracles(t, []byte{'[', byte(c), ']'}, narrow)
		checkOracles(t, []byte{'{', '"', byte(c), '"', ':', '1', '}'}, narrow)
	}
}

// documents draws JSON in the profile, or just outside it.
func documents() *rapid.Generator[any] {
	text := rapid.StringOf(rapid.RuneFrom([]rune("aé\"\\/\x00\x07\b\x1f\x7f\u2028😀")))
	scalar := rapid.OneOf(text.AsAny(), rapid.Bool().AsAny(), rapid.Int64Range(-MaxInteger, MaxInteger).AsAny(), rapid.Int64Range(-12, 12).AsAny())
	name := rapid.OneOf(rapid.StringMatching(`[a-c_0-9]{1,3}`), rapid.Just("extensions"), rapid.Just("a.b/c"))
	var tree func(depth int) *rapid.Generator[any]
	tree = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return scalar
		}
		inner := tree(depth - 1)
		return rapid.OneOf(scalar, rapid.SliceOfN(inner, 0, 6).AsAny(), rapid.MapOfN(name, inner, 0, 5).AsAny())
	}
	return tree(4)
}

func TestTheScannerIsRFC8785(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw := jcsOf(t, documents().Draw(rt, "document"))
		checkOracles(t, raw, narrow)
		at := rapid.IntRange(0, len(raw)-1).Draw(rt, "at")
		octet := rapid.SampledFrom([]byte(" \n\"\\{}[],:0-1ae.\x00\xff")).Draw(rt, "octet")
		other := bytes.Clone(raw)
		other[at] = octet
		checkOracles(t, other, narrow)
		checkOracles(t, append(append(bytes.Clone(raw[:at]), octet), raw[at:]...), narrow)
		checkOracles(t, append(bytes.Clone(raw[:at]), raw[at+1:]...), narrow)
	})
}

func TestMembersAreThoseThatWereWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := rapid.MapOfN(rapid.StringMatching(`[a-c"\\{]{1,3}`), documents(), 0, 5).Draw(rt, "object")
		raw := jcsOf(t, d)
		rest := string(raw)
		for m := range members(raw) {
			written := string(jcsOf(t, d[docName(t, m.name)]))
			if string(m.value) != written || string(raw[m.start:m.end]) != `"`+string(m.name)+`":`+written {
				rt.Fatalf("%s: member %q = %s, at %q", raw, m.name, m.value, raw[m.start:m.end])
			}
			rest = strings.Replace(rest, string(raw[m.start:m.end]), "", 1)
			delete(d, docName(t, m.name))
		}
		if len(d) > 0 || strings.Trim(rest, "{,}") != "" {
			rt.Fatalf("%s: not yielded: %v", raw, d)
		}
	})
}

// docName is the name that was written as raw.
func docName(t testing.TB, raw []byte) string {
	s, err := jsontext.AppendUnquote(nil, append(append([]byte{'"'}, raw...), '"'))
	if err != nil {
		t.Fatal(err)
	}
	return string(s)
}

// TestTheLinkedJCSRefusesWhatRFC8785Does fails under v1.0.1 of the module and
// before it. A test binary does not know the versions of what it is linked
// with, so it is judged by what it does.
func TestTheLinkedJCSRefusesWhatRFC8785Does(t *testing.T) {
	for _, tt := range []struct{ name, raw string }{
		{"a leading zero", `[01]`},
		{"a member without end", `{"a":1,"b`},
		{"a high surrogate alone", `["\ud83d"]`},
		{"a low surrogate alone", `["\ude00"]`},
		{"surrogates in the other order", `["\ude00\ud83d"]`},
		{"nesting that would overflow the stack", strings.Repeat("[", 5_000_000)},
		{"closed nesting that would overflow the stack", strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000)},
		{"a member twice", `{"a":1,"\u0061":2}`},
		{"octets that are not UTF-8", "[\"\xff\"]"},
	} {
		if b, err := jcs.Transform([]byte(tt.raw)); err == nil {
			t.Errorf("%s is accepted as %.40s", tt.name, b)
		}
	}
}
