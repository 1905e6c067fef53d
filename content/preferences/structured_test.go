package preferences

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// written is a value in the form of RFC 9651, 4.1, which a parser reads again.
func written(v value) string {
	var b strings.Builder
	switch v.kind {
	case innerList:
		items := make([]string, len(v.items))
		for i, item := range v.items {
			items[i] = written(item)
		}
		b.WriteString("(" + strings.Join(items, " ") + ")")
	case integer:
		fmt.Fprint(&b, v.number)
	case date:
		fmt.Fprintf(&b, "@%d", v.number)
	case decimal:
		sign, n := "", v.number
		if n < 0 {
			sign, n = "-", -n
		}
		fmt.Fprintf(&b, "%s%d.%03d", sign, n/1000, n%1000)
	case boolean:
		fmt.Fprintf(&b, "?%d", v.number)
	case token:
		b.WriteString(v.word)
	case octets:
		b.WriteString(":" + base64.StdEncoding.EncodeToString([]byte(v.word)) + ":")
	case text:
		b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v.word) + `"`)
	case display:
		b.WriteString(`%"`)
		for _, c := range []byte(v.word) {
			if c < 0x20 || c > 0x7e || c == '"' || c == '%' {
				fmt.Fprintf(&b, "%%%02x", c)
			} else {
				b.WriteByte(c)
			}
		}
		b.WriteString(`"`)
	}
	for _, p := range v.params {
		b.WriteString(";" + p.key + "=" + written(p.value))
	}
	return b.String()
}

func writtenAll(all []member) string {
	parts := make([]string, len(all))
	for i, m := range all {
		parts[i] = m.key + "=" + written(m.value)
	}
	return strings.Join(parts, ", ")
}

func TestDictionariesAreReadAsTheRFCHasThem(t *testing.T) {
	for _, tt := range []struct{ name, field, want string }{
		{"a string and octets", `en="Applepie", da=:w4ZibGV0w6ZydGU=:`, `en="Applepie", da=:w4ZibGV0w6ZydGU=:`},
		{"a key alone is true, also with a parameter", `a=?0, b, c; foo=bar`, `a=?0, b=?1, c=?1;foo=bar`},
		{"a decimal and an inner list", `rating=1.5, feelings=(joy sadness)`, `rating=1.500, feelings=(joy sadness)`},
		{"items and inner lists side by side", `a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid`, `a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid=?1`},
		{"an inner list with parameters inside and behind", `a=("foo"; a=1;b=2);lvl=5`, `a=("foo";a=1;b=2);lvl=5`},
		{"an inner list that is empty", `a=(  )`, `a=()`},
		{"a date", `a=@1659578233`, `a=@1659578233`},
		{"a display string", `a=%"This is intended for display to %c3%bc users."`, `a=%"This is intended for display to %c3%bc users."`},
		{"the greatest numbers", `a=-999999999999999, b=-999999999999.999, c=@-999999999999999`, `a=-999999999999999, b=-999999999999.999, c=@-999999999999999`},
		{"leading zeros count as digits", `a=-0042, b=00.50`, `a=-42, b=0.500`},
		{"the last of two members wins in the place of the first", `a=1, b=2, a=(x)`, `a=(x), b=2`},
		{"the last of two parameters wins", `a;x=1;y=2;x=3`, `a=?1;x=3;y=2`},
		{"tabs and spaces about commas", "a=1\t ,\t b=2  ", `a=1, b=2`},
		{"a token of every octet that it may have", "a=*Az09!#$%&'*+-.^_`|~:/", "a=*Az09!#$%&'*+-.^_`|~:/"},
		{"a key of every octet that it may have", `*a_-.*9=1`, `*a_-.*9=1`},
		{"escapes", `a="\"\\"`, `a="\"\\"`},
		{"octets without padding, and none at all", `a=:aGk:, b=::`, `a=:aGk=:, b=::`},
		{"an empty field is an empty dictionary", "  ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseDictionary(tt.field)
			if err != nil || writtenAll(got) != tt.want {
				t.Errorf("%q, %v; want %q", writtenAll(got), err, tt.want)
			}
		})
	}
}

func TestWhatIsNoDictionaryIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, field string }{
		{"a comma at the end", "a=1,"},
		{"a comma at the start", ", a=1"},
		{"two commas", "a=1,,b=2"},
		{"no comma", "a=1 b=2"},
		{"a key in capitals", "A=1"},
		{"a key that begins with a digit", "1a=1"},
		{"a space before the value", "a= 1"},
		{"a space before a parameter", "a=1 ;b"},
		{"nothing behind =", "a="},
		{"16 digits", "a=1234567890123456"},
		{"13 digits before the point", "a=1234567890123.1"},
		{"4 digits behind the point", "a=1.1234"},
		{"no digit behind the point", "a=1."},
		{"a sign alone", "a=-"},
		{"a date with a fraction", "a=@1.5"},
		{"a string without an end", `a="b`},
		{"another escape", `a="\n"`},
		{"a string with a tab", "a=\"\t\""},
		{"a string beyond ASCII", `a="ü"`},
		{"a third boolean", "a=?2"},
		{"octets without an end", "a=:aGk="},
		{"octets that are no base64", "a=:a!k=:"},
		{"an inner list without an end", "a=(1 2"},
		{"an inner list in an inner list", "a=((1))"},
		{"items without a space", `a=("a""b")`},
		{"an inner list as a parameter", "a;b=(1)"},
		{"hex in capitals", `a=%"%C3%BC"`},
		{"half a letter", `a=%"%c3"`},
		{"hex cut off", `a=%"%c`},
		{"a display string without its quote", `a=%c3`},
		{"a NUL", "a=\x00"},
		{"more than a field may hold", "a=" + strings.Repeat("b", maxField)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := parseDictionary(tt.field); err == nil || got != nil {
				t.Errorf("read as %q", writtenAll(got))
			}
		})
	}
}

// TestTheFieldHoldsWhatTheRFCAsksFor takes the least sizes that RFC 9651, 3,
// asks every parser to take.
func TestTheFieldHoldsWhatTheRFCAsksFor(t *testing.T) {
	var b strings.Builder
	for i := range 1024 {
		fmt.Fprintf(&b, "k%d=%d, ", i, i)
	}
	b.WriteString(strings.Repeat("k", 64) + "=(" + strings.TrimSpace(strings.Repeat("1 ", 256)) + ")")
	for i := range 256 {
		fmt.Fprintf(&b, ";%s%d", strings.Repeat("p", 60), i)
	}
	b.WriteString(`, s="` + strings.Repeat("s", 1024) + `", t=` + strings.Repeat("t", 512))
	b.WriteString(", o=:" + base64.StdEncoding.EncodeToString(make([]byte, 16384)) + ":")
	got, err := parseDictionary(b.String())
	if err != nil || len(got) != 1024+4 || len(got[1024].items) != 256 || len(got[1024].params) != 256 || len(got[1027].word) != 16384 {
		t.Errorf("%d members, %v", len(got), err)
	}
}

func FuzzDictionary(f *testing.F) {
	for _, s := range []string{
		"train-ai=n, search=y", `a=?0, b, c; foo=bar`, `a=(1 2), b=3, c=4;aa=bb, d=(5 6);valid`,
		`a=%"%c3%bc", b=@-1, c=:aGk=:, d="\"\\", e=-1.5`, "a=1, a=2",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		got, err := parseDictionary(field)
		if err != nil {
			return
		}
		seen := make(map[string]bool)
		for _, m := range got {
			if seen[m.key] {
				t.Fatalf("two members %q", m.key)
			}
			seen[m.key] = true
		}
		again, err := parseDictionary(writtenAll(got))
		if err != nil || len(got) > 0 && !reflect.DeepEqual(got, again) {
			t.Fatalf("%q is read, %q is %v", field, writtenAll(got), err)
		}
	})
}
