package envelope

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDecodingIsClosed(t *testing.T) {
	type inner struct {
		N uint64 `json:"n"`
	}
	type outer struct {
		A     []inner        `json:"a"`
		B     []string       `json:"b,omitempty"`
		C     *inner         `json:"c,omitempty"`
		D     *inner         `json:"d"`
		E     [2]uint64      `json:"e"`
		F     bool           `json:"f,omitzero"`
		G     int64          `json:"g,omitzero"`
		H     []byte         `json:"h"`
		Plain jsontext.Value `json:"plain,omitzero"`
		When  Time           `json:"when,omitzero"`
		Who   Name           `json:"who,omitempty"`
	}
	const good = `{"a":[],"d":{"n":1},"e":[1,2],"h":""}`
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for _, tt := range []struct {
		name, raw string
		want      error
		member    string
	}{
		{"all that must be there", good, nil, ""},
		{"an array that holds something", with(`[]`, `[{"n":1}]`), nil, ""},
		{"an optional pointer", with(`"d"`, `"c":{"n":1},"d"`), nil, ""},
		{"any value for a raw member", with(`"h":""`, `"h":"","plain":{"x":1}`), nil, ""},
		{"a required array missing", with(`"a":[],`, ``), ErrSchema, "a"},
		{"a required pointer missing", with(`"d":{"n":1},`, ``), ErrSchema, "d"},
		{"a required item's member missing", with(`[]`, `[{}]`), ErrSchema, "a"},
		{"a member of a pointed struct missing", with(`"d"`, `"c":{},"d"`), ErrSchema, "c.n"},
		{"an unknown member in an item", with(`[]`, `[{"m":1,"n":1}]`), ErrSchema, "a.0.m"},
		{"an unknown member at the end", with(`"h":""`, `"h":"","i":1`), ErrSchema, "i"},
		{"an optional array, present although empty", with(`"d"`, `"b":[],"d"`), ErrSchema, "b"},
		{"an optional boolean, present although false", with(`"h"`, `"f":false,"h"`), ErrSchema, "f"},
		{"an optional integer, present although zero", with(`"h"`, `"g":0,"h"`), ErrSchema, "g"},
		{"an optional name, present although empty", with(`"h":""`, `"h":"","who":""`), ErrSchema, "who"},
		{"an optional time, present although absent", with(`"h":""`, `"h":"","when":"0001-01-01T00:00:00Z"`), ErrSchema, "when"},
		{"an array one item short", with(`[1,2]`, `[1]`), ErrSchema, "e"},
		{"an array one item long", with(`[1,2]`, `[1,2,3]`), ErrSchema, "e"},
		{"octets in a second form", with(`"h":""`, `"h":"AB=="`), ErrSchema, "h"},
		{"octets with a line break", with(`"h":""`, `"h":"AA\n=="`), ErrSchema, "h"},
		{"null for a pointer", with(`{"n":1}`, `null`), ErrSyntax, "d"},
		{"an array for an object", `[]`, ErrSchema, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var dst outer
			err := DecodeCanonical([]byte(tt.raw), &dst)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error = %v, want %v", err, tt.want)
			}
			if e := (*Error)(nil); errors.As(err, &e) && e.Member != tt.member {
				t.Errorf("member = %q in %q, want %q", e.Member, err, tt.member)
			}
		})
	}
}

func TestWhatWasThereBeforeIsNotReadAsSigned(t *testing.T) {
	dst := map[string]string{"old": "x"}
	if err := DecodeCanonical([]byte(`{"new":"y"}`), &dst); !errors.Is(err, ErrSchema) {
		t.Errorf("into a map that held something: %v, want %v", err, ErrSchema)
	}
	held := note{Hint: "x"}
	if err := DecodeCanonical([]byte(`{"count":1,"issuer":"urn:example:p","tags":[]}`), &held); !errors.Is(err, ErrSchema) {
		t.Errorf("into a struct that held something: %v, want %v", err, ErrSchema)
	}
	if err := DecodeCanonical([]byte(`{}`), note{}); !errors.Is(err, ErrSchema) {
		t.Errorf("into no pointer: %v, want %v", err, ErrSchema)
	}
}

// unsorted has fields in another order than that of their names.
type unsorted struct {
	Z int `json:"z"`
	A int `json:"a"`
}

// moody is read, and cannot be written.
type moody struct{ S string }

func (m *moody) UnmarshalText(b []byte) error { m.S = string(b); return nil }
func (m moody) MarshalText() ([]byte, error)  { return nil, errors.New("not today") }

// floaty is written as what is beyond JSON's numbers.
type floaty struct{ jsontext.Value }

func (f floaty) MarshalJSON() ([]byte, error)  { return []byte("1e999"), nil }
func (f *floaty) UnmarshalJSON(b []byte) error { return nil }

func TestCanonicalWritesOnlyWhatCanBeRead(t *testing.T) {
	b, err := Canonical(unsorted{1, 2})
	if err != nil || string(b) != `{"a":2,"z":1}` {
		t.Errorf("Canonical = %s, %v", b, err)
	}
	var back unsorted
	if err := DecodeCanonical(b, &back); err != nil || back != (unsorted{1, 2}) {
		t.Errorf("read back: %v, %v", back, err)
	}
	if err := DecodeCanonical([]byte(`{"a":2}`), &back); !errors.Is(err, ErrSchema) {
		t.Errorf("one missing: %v", err)
	}
	wide := []string{strings.Repeat("x", 2*MaxSize)}
	if b, err := Canonical(wide); err != nil || DecodeCanonicalWithin(b, &wide, Limits{1 << 20, 1, 1, 0, 1 << 20}) != nil {
		t.Errorf("beyond the limits of an envelope: %v", err)
	}
	for _, tt := range []struct {
		name string
		v    any
		want error
	}{
		{"2^53", []uint64{1 << 53}, ErrSyntax},
		{"2^60 + 1, which sorting would round", map[string]uint64{"n": 1<<60 + 1}, ErrSyntax},
		{"a fraction", []float64{0.5}, ErrSyntax},
		{"a nil pointer", []*int{nil}, ErrSyntax},
		{"a name in capitals", doc{"A": 1}, ErrSyntax},
		{"a bare string", "x", ErrSyntax},
		{"a channel", make(chan int), ErrSchema},
		{"text that is not UTF-8", []string{"\xff"}, ErrSchema},
		{"a number beyond all", []floaty{{}}, ErrSyntax},
	} {
		if b, err := Canonical(tt.v); !errors.Is(err, tt.want) {
			t.Errorf("%s: %s, %v, want %v", tt.name, b, err, tt.want)
		}
	}
	for _, dst := range []any{new([]moody), new([]floaty)} {
		if err := DecodeCanonical([]byte(`["x"]`), dst); !errors.Is(err, ErrSchema) {
			t.Errorf("into %T: %v, want %v", dst, err, ErrSchema)
		}
	}
}

func TestErrorsAreShortAndNameTheMember(t *testing.T) {
	err := DecodeCanonical([]byte(`{"count":1,"issuer":"`+strings.Repeat("é", 4000)+`","tags":[]}`), new(note))
	e := (*Error)(nil)
	if !errors.As(err, &e) || e.Member != "issuer" || len(e.Detail) > maxDetail {
		t.Errorf("error = %v", err)
	}
	long := refuse(ErrSyntax, "a", "%s", strings.Repeat("é", 300))
	if s := long.Error(); len(s) > 400 || !utf8.ValidString(s) {
		t.Errorf("%d octets: %s", len(s), s)
	}
}
