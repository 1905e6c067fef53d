package envelope

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestWhatIsTooLargeOrTooDeepIsRefused(t *testing.T) {
	s := rfcSigner(t, 0)
	full := func(extra int) []byte {
		fill := func(n int) []byte {
			return forge(t, func(d doc) {
				tags := []any{}
				for ; n > MaxString; n -= MaxString {
					tags = append(tags, strings.Repeat("x", MaxString-3)) // and quotes and a comma
				}
				d["body"].(doc)["tags"] = append(tags, strings.Repeat("x", n))
			}, s)
		}
		return fill(MaxSize + extra - len(fill(0)))
	}
	nest := func(n int) []byte {
		return forge(t, func(d doc) {
			var inner any = "x"
			for range n {
				inner = []any{inner}
			}
			d["extensions"] = doc{"x.example/deep": doc{"critical": false, "data": inner}}
		}, s)
	}
	tags := func(n, size int) []byte {
		return forge(t, func(d doc) {
			d["body"].(doc)["tags"] = make([]string, n)
			d["body"].(doc)["hint"] = strings.Repeat("x", size)
		}, s)
	}
	many := func(n int) []byte {
		return forge(t, func(d doc) {
			data := doc{}
			for i := range n {
				data[strings.Repeat("m", i/64+1)+string(rune('0'+i%10))+string(rune('a'+i%64/10))] = i
			}
			d["extensions"] = doc{"x.example/many": doc{"critical": false, "data": data}}
		}, s)
	}
	const data = "extensions.x.example/"
	if n := len(full(0)); n != MaxSize {
		t.Fatalf("%d octets, want %d", n, MaxSize)
	}
	checkRefusals(t, []refusal{
		{"256 KiB is accepted", full(0), nil, ""},
		{"256 KiB and one octet is too large", full(1), ErrSize, ""},
		{"nothing at all is no object", nil, ErrSyntax, ""},
		{"depth 16 is accepted", nest(MaxDepth - 3), nil, ""},
		{"depth 17 is too deep", nest(MaxDepth - 2), ErrLimit, data + "deep.data" + strings.Repeat(".0", MaxDepth-3)},
		{"4096 items are accepted", tags(MaxItems, 1), nil, ""},
		{"4097 items are too many", tags(MaxItems+1, 1), ErrLimit, "body.tags"},
		{"a string of 8 KiB is accepted", tags(1, MaxString), nil, ""},
		{"a string of 8 KiB and one octet is too long", tags(1, MaxString+1), ErrLimit, "body.hint"},
		{"256 members are accepted", many(MaxMembers), nil, ""},
		{"257 members are too many", many(MaxMembers + 1), ErrLimit, data + "many.data"},
		{"five million brackets are too large", bytes.Repeat([]byte("["), 5_000_000), ErrSize, ""},
	})
}

func TestFiveMillionBracketsEndAtTheDepthLimit(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		raw := []byte(strings.Repeat(open, 5_000_000))
		err := DecodeCanonicalWithin(raw, new(any), Limits{len(raw), MaxDepth, MaxItems, MaxMembers, MaxString})
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%q: %v, want %v", open, err, ErrLimit)
		}
	}
}

func TestOnlyCanonicalFormOpens(t *testing.T) {
	raw := goodGrant(t)
	put := func(old, new string) []byte { return swap(t, raw, old, new) }
	checkRefusals(t, []refusal{
		{"the grant as it was signed opens", raw, nil, ""},
		{"a byte order mark before it", append([]byte("\xef\xbb\xbf"), raw...), ErrSyntax, ""},
		{"white space before it", append([]byte(" "), raw...), ErrCanonical, ""},
		{"a newline behind it", append(bytes.Clone(raw), '\n'), ErrCanonical, ""},
		{"a second value behind it", append(bytes.Clone(raw), "{}"...), ErrSyntax, ""},
		{"a zero octet behind it", append(bytes.Clone(raw), 0), ErrSyntax, ""},
		{"the last octet missing", raw[:len(raw)-1], ErrSyntax, ""},
		{"a space behind a colon", put(`"epoch":1`, `"epoch": 1`), ErrCanonical, "epoch"},
		{"a tab before a colon", put(`"epoch":1`, "\"epoch\"\t:1"), ErrCanonical, "epoch"},
		{"a line break behind a comma", put(`,"epoch":1`, ",\r\n\"epoch\":1"), ErrCanonical, ""},
		{"two members in the other order", put(`"issuer":"urn:example:publisher:p1","tags":["rag","search"]`, `"tags":["rag","search"],"issuer":"urn:example:publisher:p1"`), ErrCanonical, "body.issuer"},
		{"an array around it", append(append([]byte("["), raw...), ']'), ErrSyntax, ""},
		{"a string", []byte(`"x"`), ErrSyntax, ""},
		{"a comma before the end", put(`]},"envelope`, `],},"envelope`), ErrSyntax, "body"},
		{"a comma before the bracket", put(`"search"]`, `"search",]`), ErrSyntax, "body.tags.2"},
		{"no comma between members", put(`,"epoch"`, `"epoch"`), ErrSyntax, ""},
		{"no comma between items", put(`"rag","search"`, `"rag""search"`), ErrSyntax, "body.tags"},
		{"a word that is none of JSON's", put(`"rag"`, `trap`), ErrSyntax, "body.tags.0"},
		{"a bare string without end", []byte(`{"a":"b`), ErrSyntax, "a"},
		{"a member without end", []byte(`{"a`), ErrSyntax, ""},
		{"a member without value", []byte(`{"a"}`), ErrSyntax, "a"},
		{"a line break inside a string", put(`"rag"`, "\"r\nag\""), ErrSyntax, "body.tags.0"},
	})
}

func TestKeysAreExact(t *testing.T) {
	raw := goodGrant(t)
	put := func(old, new string) []byte { return swap(t, raw, old, new) }
	const issuer = `"issuer":"urn:example:publisher:p1"`
	checkRefusals(t, []refusal{
		{"a member twice", put(`"epoch":1`, `"epoch":1,"epoch":1`), ErrSyntax, "epoch"},
		{"a member again, further on", put(`"sequence":7`, `"epoch":1,"sequence":7`), ErrCanonical, "epoch"},
		{"a member twice inside the body", put(issuer, issuer+","+issuer), ErrSyntax, "body.issuer"},
		{"a member again under an escape", put(`"epoch":1`, `"epoch":1,"\u0065poch":1`), ErrSyntax, ""},
		{"a member under an escape", put(`"count"`, `"\u0063ount"`), ErrSyntax, "body"},
		{"a name with a quote in it", put(`"count"`, `"c\"ount"`), ErrSyntax, "body"},
		{"a member in capitals beside the real one", put(`"audience"`, `"OBJECT_TYPE":"feed","audience"`), ErrSyntax, ""},
		{"a body member in capitals", put(issuer, `"ISSUER":"urn:example:publisher:p2",`+issuer), ErrSyntax, "body"},
		{"a long s, which folds to s", put(issuer, issuer+`,"iſſuer":"urn:example:publisher:p2"`), ErrSyntax, "body"},
		{"the Kelvin sign, which folds to k", put(issuer, issuer+`,"`+"\u212a"+`eys":[]`), ErrSyntax, "body"},
		{"an empty name", put(`{"count"`, `{"":1,"count"`), ErrSyntax, "body"},
		{"a name of 65 characters", put(issuer, issuer+`,"`+strings.Repeat("k", 65)+`":1`), ErrSyntax, "body"},
		{"a name of 64 characters is a name, and unknown", forge(t, func(d doc) { d["body"].(doc)[strings.Repeat("k", 64)] = 1 }, rfcSigner(t, 0)), ErrSchema, "body." + strings.Repeat("k", 64)},
		{"the form of an extension's name in the body", put(`{"count"`, `{"a.example/x":1,"count"`), ErrSyntax, "body"},
		{"a number for a name", put(`{"count"`, `{1:1,"count"`), ErrSyntax, "body"},
	})
}

func TestOnlyUnicodeOpens(t *testing.T) {
	raw := goodGrant(t)
	put := func(old, new string) []byte { return swap(t, raw, old, new) }
	var rows []refusal
	for _, tt := range []struct {
		name, octets string
		kind         error
	}{
		{"the octet ff", "\xff", ErrSyntax},
		{"an overlong slash", "\xc0\xaf", ErrSyntax},
		{"a character cut short", "\xe2\x82", ErrSyntax},
		{"a surrogate in three octets", "\xed\xa0\xbd", ErrSyntax},
		{"CESU-8", "\xed\xa0\xbd\xed\xb8\x80", ErrSyntax},
		{"beyond U+10FFFF", "\xf4\x90\x80\x80", ErrSyntax},
		{"a high surrogate alone", `\ud83d`, ErrCanonical},
		{"surrogates in the other order", `\ude00\ud83d`, ErrCanonical},
		{"an escaped pair", `\ud83d\ude00`, ErrCanonical},
		{"an escaped letter", `\u0061`, ErrCanonical},
		{"an escaped slash", `\/`, ErrCanonical},
		{"a newline by its number", `\u000a`, ErrCanonical},
		{"a control character in capitals", `\u001F`, ErrCanonical},
		{"a delete that is escaped", `\u007f`, ErrCanonical},
		{"an escape that does not exist", `\x41`, ErrCanonical},
		{"an escape of three digits", `\u001`, ErrCanonical},
	} {
		rows = append(rows,
			refusal{tt.name + " in a value", put(`"rag"`, `"r`+tt.octets+`"`), tt.kind, "body.tags.0"},
			refusal{tt.name + " in a name", put(`"issuer":`, `"i`+tt.octets+`":`), ErrSyntax, "body"})
	}
	s := rfcSigner(t, 0)
	hint := func(text string) []byte { return forge(t, func(d doc) { d["body"].(doc)["hint"] = text }, s) }
	checkRefusals(t, append(rows,
		refusal{"every character that needs an escape is accepted in its shortest", hint("\x00\x01\x07\b\t\n\v\f\r\x0e\x10\x1f\"\\"), nil, ""},
		refusal{"other characters are accepted as they are", hint("a/<>&\x7f\u0080é\u2028\u2029\ufffd\ufffe😀\U0010ffff"), nil, ""}))
}

func TestOnlyPlainIntegersOpen(t *testing.T) {
	raw, s := goodGrant(t), rfcSigner(t, 0)
	epoch := func(v any) []byte { return forge(t, func(d doc) { d["epoch"] = v }, s) }
	rows := []refusal{
		{"the largest integer is accepted", epoch(uint64(MaxInteger)), nil, ""},
		{"zero is accepted", epoch(0), nil, ""},
		{"an integer as a string", epoch("1"), ErrSchema, "epoch"},
		{"a negative epoch", epoch(-1), ErrSchema, "epoch"},
		{"a number in base 16", swap(t, raw, `"epoch":1,`, `"epoch":0x1,`), ErrSyntax, ""},
		{"a fraction without its zero", swap(t, raw, `"epoch":1,`, `"epoch":.5,`), ErrSyntax, "epoch"},
		{"a fraction", epoch(1.5), ErrSyntax, "epoch"},
		{"2^53", epoch(uint64(MaxInteger + 1)), ErrSyntax, "epoch"},
	}
	for _, number := range []string{"1.0", "1e0", "1E0", "01", "+1", "-0", "-01", "-", "1e400", "1E400", "9007199254740992",
		"-9007199254740992", "9999999999999999", "18446744073709551617", strings.Repeat("9", 1000), "1.", "NaN", "Infinity", "1-1"} {
		rows = append(rows, refusal{"the number " + number[:min(len(number), 24)], swap(t, raw, `"epoch":1,`, `"epoch":`+number+","), ErrSyntax, "epoch"})
	}
	checkRefusals(t, rows)
}

func TestOnlyMembersCalledExtensionsAreNamedByDomain(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		want      error
	}{
		{"at the top", `{"extensions":{"a.example/x":1}}`, nil},
		{"of an envelope inside another document", `{"chain":[{"envelope":{"extensions":{"a.example/x":{"k":1}}}}]}`, nil},
		{"with a plain name", `{"extensions":{"x":1}}`, ErrSyntax},
		{"one level further down", `{"extensions":{"a.example/x":{"a.example/x":1}}}`, ErrSyntax},
		{"extensions inside an extension", `{"extensions":{"a.example/x":{"extensions":{"b.example/y":1}}}}`, nil},
		{"an object in an array called extensions", `{"extensions":[{"a.example/x":1}]}`, ErrSyntax},
		{"a sister of extensions", `{"extension":{"a.example/x":1}}`, ErrSyntax},
		{"no domain", `{"extensions":{"example/x":1}}`, ErrSyntax},
		{"no label", `{"extensions":{"a.example":1}}`, ErrSyntax},
		{"an empty label", `{"extensions":{"a.example/":1}}`, ErrSyntax},
		{"two labels", `{"extensions":{"a.example/x/y":1}}`, ErrSyntax},
		{"a trailing dot", `{"extensions":{"a.example./x":1}}`, ErrSyntax},
		{"a leading hyphen", `{"extensions":{"-a.example/x":1}}`, ErrSyntax},
		{"a capital", `{"extensions":{"A.example/x":1}}`, ErrSyntax},
		{"255 octets", `{"extensions":{"a.` + strings.Repeat("b", 251) + `/x":1}}`, nil},
		{"256 octets", `{"extensions":{"a.` + strings.Repeat("b", 252) + `/x":1}}`, ErrSyntax},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := DecodeCanonical([]byte(tt.raw), new(any)); !errors.Is(err, tt.want) {
				t.Errorf("error = %v, want %v", err, tt.want)
			}
		})
	}
}
