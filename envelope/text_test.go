package envelope

import (
	"encoding"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func FuzzHash(f *testing.F) {
	for _, s := range []string{Hash{}.String(), Hash{0xab}.String(), strings.ToUpper(Hash{0xab}.String()), "sha256:", "sha512:" + strings.Repeat("0", 64), strings.Repeat("0", 71)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParseHash(s)
		if err == nil && h.String() != s {
			t.Errorf("%q was read as %s", s, h)
		}
		sameByJSON(t, s, err, h, new(Hash))
	})
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"spiffe://example.com", "spiffe://example.com/a/b", "spiffe://example.com/", "spiffe://a:1", "urn:example:a", "urn:a:b", "urn::b", "", "URN:example:a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err == nil && string(n) != s {
			t.Errorf("%q was read as %s", s, n)
		}
		if a := n.Authority(); err == nil {
			if again, err := ParseName(string(a)); err != nil || again.Authority() != a || !strings.HasPrefix(s, string(a)) {
				t.Errorf("authority of %q is %q: %v", s, a, err)
			}
		}
		sameByJSON(t, s, err, n, new(Name))
	})
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-03-16T00:00:00Z", "2024-02-29T23:59:59Z", "2026-02-30T00:00:00Z", "2026-03-16T0:00:00Z", "2026-03-16T00:00:5,5Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:01Z", "0000-06-01T00:00:00Z", "2026-00-10T00:00:00Z", "2026-03-00T00:00:00Z", "2026-13-01T00:00:00Z", "2026-03-16T24:00:00Z", "2026-03-16T23:60:00Z", "2026-12-31T23:59:60Z", "2026-03-16t00:00:00Z", "2026/03-16T00:00:00Z", "2026-03-16T00:00:00z", "2026-03-16T00-00:00Z", "+026-03-16T00:00:00Z", "9999-12-31T23:59:59Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseTime(s)
		if err == nil && (at.String() != s || at.IsZero() || At(at.Time) != at) {
			t.Errorf("%q was read as %s", s, at)
		}
		want, library := time.Parse(timeLayout, s)
		if ok := library == nil && want.Format(timeLayout) == s && want.Year() >= 1 && !want.IsZero(); ok != (err == nil) || ok && !want.Equal(at.Time) {
			t.Errorf("%q is %s, %v; the library reads %s, %v", s, at, err, want, library)
		}
		sameByJSON(t, s, err, at, new(Time))
	})
}

// sameByJSON checks that s is accepted inside JSON exactly if it parses, and
// that the value is written as s again.
func sameByJSON[T comparable](t *testing.T, s string, parsed error, want T, got *T) {
	quoted, err := json.Marshal(s)
	if err != nil {
		return // not UTF-8: no JSON holds it
	}
	if err := json.Unmarshal(quoted, got); (err == nil) != (parsed == nil) {
		t.Errorf("%s inside JSON: %v; alone: %v", quoted, err, parsed)
	}
	if parsed != nil {
		return
	}
	text, err := any(want).(encoding.TextMarshaler).MarshalText()
	if b, _ := json.Marshal(want); err != nil || *got != want || string(b) != string(quoted) || string(text) != s {
		t.Errorf("%s was read as %v, which is written as %s and %s, %v", quoted, *got, b, text, err)
	}
}

func TestNamesAreSPIFFEIDsOrURNs(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"a trust domain", "spiffe://example.com", true},
		{"a workload", "spiffe://example.com/publisher/eu-1", true},
		{"a workload with dots in its name", "spiffe://example.com/...x", true},
		{"a relationship", "urn:uzpif-oi:rel:" + strings.Repeat("0a", 32), true},
		{"255 characters", "urn:example:" + strings.Repeat("x", 243), true},
		{"256 characters", "urn:example:" + strings.Repeat("x", 244), false},
		{"nothing", "", false},
		{"a scheme alone", "spiffe://", false},
		{"no trust domain", "spiffe:///publisher", false},
		{"a capital", "spiffe://Example.com", false},
		{"a trailing dot", "spiffe://example.com.", false},
		{"a trailing dot before the path", "spiffe://example.com./a", false},
		{"a port", "spiffe://example.com:443/a", false},
		{"a colon in the path", "spiffe://example.com/a:b", false},
		{"a trailing slash", "spiffe://example.com/", false},
		{"an empty segment", "spiffe://example.com//a", false},
		{"a segment that leads up", "spiffe://example.com/a/../b", false},
		{"a segment that leads nowhere", "spiffe://example.com/.", false},
		{"percent-encoding", "spiffe://example.com/a%2fb", false},
		{"a user", "spiffe://a@example.com", false},
		{"a query", "spiffe://example.com/a?b", false},
		{"another scheme", "https://example.com", false},
		{"a letter beyond ASCII", "urn:example:é", false},
		{"a URN in capitals", "URN:example:a", false},
		{"a URN without namespace", "urn::a", false},
		{"a URN with a namespace of one letter", "urn:a:b", false},
		{"a URN with a namespace of 33 letters", "urn:" + strings.Repeat("n", 33) + ":b", false},
		{"a URN with a namespace that ends in a hyphen", "urn:ab-:b", false},
		{"a URN with dots in its namespace", "urn:a.b:c", false},
		{"a URN that names nothing", "urn:example:", false},
		{"a URN that names by a slash", "urn:example:/a", false},
		{"a line break behind", "urn:example:a\n", false},
		{"a space before", " urn:example:a", false},
	} {
		if _, err := ParseName(tt.text); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for name, want := range map[Name]Name{
		"spiffe://example.com/a/b": "spiffe://example.com",
		"spiffe://example.com":     "spiffe://example.com",
		"urn:example:a":            "urn:example:a",
	} {
		if got := name.Authority(); got != want {
			t.Errorf("authority of %s = %s, want %s", name, got, want)
		}
	}
}

func TestOnlyTimesThatCanBeReadAreWritten(t *testing.T) {
	for _, at := range []time.Time{{}, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if b, err := json.Marshal(Time{at}); err == nil {
			t.Errorf("%v was written as %s", at, b)
		}
		if b, err := (Time{at}).AppendText(nil); err == nil {
			t.Errorf("%v was written as %s", at, b)
		}
	}
	for _, raw := range []string{`null`, `1`, `"`, `["2026-03-16T00:00:00Z"]`, `"2026-03-16T00:00:00\u005a"`} {
		var at Time
		if err := at.UnmarshalJSON([]byte(raw)); err == nil {
			t.Errorf("%s was read as %s", raw, at)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		sec := rapid.Int64Range(-62135596799, 253402300799).Draw(rt, "sec")
		nano := rapid.Int64Range(0, 999999999).Draw(rt, "nano")
		zone := time.FixedZone("", rapid.IntRange(-50000, 50000).Draw(rt, "zone"))
		at := At(time.Unix(sec, nano).In(zone))
		if back, err := ParseTime(at.String()); err != nil || back != at || at.Unix() != sec {
			rt.Fatalf("%d.%09d is %s, read as %s, %v", sec, nano, at, back, err)
		}
	})
	if !At(time.Time{}).IsZero() {
		t.Error("an absent time became one")
	}
}

func TestTagsKeepHashesApart(t *testing.T) {
	seen := map[Hash]string{}
	for _, h := range []struct {
		tag   string
		parts []string
	}{
		{"a", nil}, {"a", []string{"b"}}, {"ab", nil}, {"a", []string{"\x00"}}, {"", []string{"a"}}, {"a", []string{"b", "c"}},
	} {
		var parts [][]byte
		for _, p := range h.parts {
			parts = append(parts, []byte(p))
		}
		sum := TaggedHash(h.tag, parts...)
		if other, ok := seen[sum]; ok {
			t.Errorf("%v hashes as %s", h, other)
		}
		seen[sum] = fmt.Sprint(h)
	}
	if got, want := TaggedHash("a", []byte("b"), []byte("c")), TaggedHash("a", []byte("bc")); got != want {
		t.Errorf("parts are put together: %s, want %s", got, want)
	}
}

func TestKeysAreWrittenInOneForm(t *testing.T) {
	key := rfcSigner(t, 0).Public()
	text, err := key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var back PublicKey
	if err := back.UnmarshalText(text); err != nil || back != key || back.ID() != key.ID() {
		t.Errorf("%s was read as %x, %v", text, back.Bytes(), err)
	}
	for _, other := range []string{string(text) + "=", string(text) + "\n", " " + string(text[1:]), string(text[:42]), string(text[:42]) + string(text[42]+1)} {
		if err := new(PublicKey).UnmarshalText([]byte(other)); err == nil {
			t.Errorf("%q was read as a key", other)
		}
	}
}
