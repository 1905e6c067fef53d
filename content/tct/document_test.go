package tct_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"pgregory.net/rapid"
)

const helloURL = "https://example.com/hello-world/"

func TestEncodeMatchesTheDraftsVector(t *testing.T) {
	const hash = "af976cac6d5c89428a724e456311081ddbf3bab73cc4de7c85119b185ffbdab8"
	want := `{"canonical_url":"https://example.com/hello-world/","content":"Hello World","hash":"sha256-` + hash +
		`","profile":"tct-1","title":"Hello World"}`
	payload, fingerprint := tct.Encode(nil, tct.Document{URL: helloURL, Title: "Hello World", Content: "Hello World"})
	if string(payload) != want {
		t.Errorf("payload %s, want %s", payload, want)
	}
	if got := hex.EncodeToString(fingerprint[:]); got != hash {
		t.Errorf("fingerprint %s, want %s", got, hash)
	}
}

func TestEncodeAppends(t *testing.T) {
	d := tct.Document{URL: helloURL, Title: "t", Content: "c", Language: "en"}
	alone, f := tct.Encode(nil, d)
	appended, g := tct.Encode([]byte("before"), d)
	if string(appended) != "before"+string(alone) || f != g {
		t.Errorf("appended %q with %x, alone %q with %x", appended, g, alone, f)
	}
}

// checkEncode holds what must be true of every document's payload.
func checkEncode(t interface{ Fatalf(string, ...any) }, d tct.Document) {
	payload, fingerprint := tct.Encode(nil, d)
	oracle, err := jcs.Transform(payload)
	if err != nil || !bytes.Equal(oracle, payload) {
		t.Fatalf("payload %q, in canonical form %q, %v", payload, oracle, err)
	}
	got, err := tct.Decode(payload)
	if err != nil {
		t.Fatalf("Decode(%q): %v", payload, err)
	}
	hash := "sha256-" + hex.EncodeToString(fingerprint[:])
	want := tct.Document{URL: valid(d.URL), Title: valid(d.Title), Content: valid(d.Content), Language: valid(d.Language), Hash: hash}
	if got != want {
		t.Fatalf("Decode = %+q, want %+q", got, want)
	}
	without := bytes.Replace(payload, []byte(`,"hash":"`+hash+`"`), nil, 1)
	if sha256.Sum256(without) != fingerprint {
		t.Fatalf("fingerprint %x is not the hash of %q", fingerprint, without)
	}
	if plain := !strings.ContainsFunc(d.URL, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' }); plain {
		if err := tct.Check(payload, valid(d.URL)); err != nil {
			t.Fatalf("Check(%q): %v", payload, err)
		}
	}
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func TestEncodeIsCanonical(t *testing.T) {
	// Characters that JSON and its canonical form treat in their own ways.
	char := rapid.SampledFrom([]rune("aZ\"\\/\b\f\n\r\t\x00\x1f\x7f\u0085\u00e9\u2028\ufffd\uffff\U0001f600<&"))
	str := rapid.OneOf(rapid.StringOf(char), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		checkEncode(t, tct.Document{
			URL: str.Draw(t, "url"), Title: str.Draw(t, "title"), Content: str.Draw(t, "content"), Language: str.Draw(t, "language"),
		})
	})
}

func FuzzEncode(f *testing.F) {
	f.Add(helloURL, "Hello World", "Hello\nWorld", "en")
	f.Add("", "\x00\"\\", "\xff\xed\xa0\xbd", "\u2028")
	f.Fuzz(func(t *testing.T, url, title, content, language string) {
		checkEncode(t, tct.Document{URL: url, Title: title, Content: content, Language: language})
	})
}

// payload returns a canonical payload for helloURL with more in it than we
// write ourselves.
func payload() string {
	p, _ := tct.Encode(nil, tct.Document{URL: helloURL, Title: "t", Content: "c\n", Language: "en"})
	extra := `"structured_data":{"a":[1,-0.5,1e+21,true,null,{}],"b":"\u001f"},"title"`
	return strings.Replace(string(p), `"title"`, extra, 1)
}

func TestCheckAcceptsMembersOfLaterVersions(t *testing.T) {
	p := payload()
	if err := tct.Check([]byte(p), helloURL); err != nil {
		t.Error(err)
	}
	if oracle, err := jcs.Transform([]byte(p)); err != nil || string(oracle) != p {
		t.Errorf("the payload is %s, in canonical form %s, %v", p, oracle, err)
	}
}

func TestCheckRefusesWhatEncodeCannotHaveMade(t *testing.T) {
	for _, tt := range []struct{ name, old, new string }{
		{"another page's URL", "hello-world", "hello-word"},
		{"no canonical_url", `"canonical_url"`, `"canonical_uri"`},
		{"no content", `"content":"c\n",`, ``},
		{"no title", `,"title":"t"`, ``},
		{"no hash", `"hash"`, `"hasi"`},
		{"a title that is null", `"t"`, `null`},
		{"a title that is an object", `"t"`, `{}`},
		{"a language that is a list", `"en"`, `["en"]`},
		{"a language that is a number", `"en"`, `1`},
		{"a hash in upper case", `sha256-`, `SHA256-`},
		{"a hash with a colon", `sha256-`, `sha256:`},
		{"a hash cut short", `","language"`, `,"language"`},
		{"white space before the object", `{"canonical_url"`, ` {"canonical_url"`},
		{"white space behind a colon", `"title":`, `"title": `},
		{"white space behind a comma", `,"title"`, `, "title"`},
		{"white space in an empty object", `{}`, `{ }`},
		{"a line feed at the end", `"title":"t"}`, "\"title\":\"t\"}\n"},
		{"a second object", `"title":"t"}`, `"title":"t"}{}`},
		{"the object cut short", `"title":"t"}`, `"title":"t"`},
		{"members out of order", `"profile":"tct-1",`, `"profile":"tct-1","alpha":1,`},
		{"inner members out of order", `"b":"\u001f"`, `"A":0`},
		{"a member twice", `"profile":"tct-1",`, `"profile":"tct-1","profile":"tct-1",`},
		{"a member twice, once escaped", `"title":"t"`, `"title":"t","titl\u0065":"t"`},
		{"a needless escape", `"t"}`, `"\u0074"}`},
		{"an escaped solidus", `"t"}`, `"\/"}`},
		{"a long escape for a line feed", `c\n`, `c\u000a`},
		{"an escape in upper case", `\u001f`, `\u001F`},
		{"an escape for DEL", `\u001f`, `\u007f`},
		{"a pair of escapes for one character", `"t"}`, `"\ud83d\ude00"}`},
		{"a lone surrogate", `"t"}`, `"\ud83d"}`},
		{"broken UTF-8", `"t"}`, "\"\xff\"}"},
		{"a byte order mark", `{"canonical_url"`, "\ufeff{\"canonical_url\""},
		{"a raw line feed in a string", `c\n`, "c\n"},
		{"a number with a needless fraction", `-0.5`, `-0.50`},
		{"minus zero", `-0.5`, `-0`},
		{"an exponent without its sign", `1e+21`, `1e21`},
		{"a number of 100 digits", `-0.5`, strings.Repeat("1", 100)},
		{"17 levels", `{}`, strings.Repeat("[", 14) + strings.Repeat("]", 14)},
		{"a list instead of the object", `{"canonical_url"`, `[{"canonical_url"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := strings.Replace(payload(), tt.old, tt.new, 1)
			if p == payload() {
				t.Fatal("the row changes nothing")
			}
			if err := tct.Check([]byte(p), helloURL); !errors.Is(err, tct.ErrMalformed) {
				t.Errorf("Check(%s) = %v, want ErrMalformed", p, err)
			}
		})
	}
	for _, p := range []string{"", "null", `"x"`, "{", "{}", "\x00", strings.Repeat("[", 5_000_000)} {
		if err := tct.Check([]byte(p), helloURL); !errors.Is(err, tct.ErrMalformed) {
			t.Errorf("Check(%.20q) = %v, want ErrMalformed", p, err)
		}
	}
	if err := tct.Check(make([]byte, tct.MaxPayload+1), helloURL); !errors.Is(err, tct.ErrMalformed) {
		t.Errorf("Check of too much = %v, want ErrMalformed", err)
	}
}

func TestMembersAreOrderedByUTF16(t *testing.T) {
	for _, tt := range []struct {
		name string
		add  string
		want bool
	}{
		{"a code point above U+FFFF before U+E000", `,"u😀":1,"u` + "\ue000" + `":1}`, true},
		{"the order of code points", `,"u` + "\ue000" + `":1,"u😀":1}`, false},
		{"U+D7FF before a code point above U+FFFF", `,"u` + "\ud7ff" + `":1,"u😀":1}`, true},
		{"two code points above U+FFFF", `,"u😀":1,"u😁":1}`, true},
		{"a name that is the start of the next", `,"u":1,"uu":1}`, true},
		{"and the other way round", `,"uu":1,"u":1}`, false},
		{"an escaped name", `,"u\n":1,"u ":1}`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := strings.TrimSuffix(payload(), "}") + tt.add
			oracle, err := jcs.Transform([]byte(p))
			if err != nil || (string(oracle) == p) != tt.want {
				t.Fatalf("the oracle gives %s, %v", oracle, err)
			}
			if err := tct.Check([]byte(p), helloURL); (err == nil) != tt.want {
				t.Errorf("Check(%s) = %v", p, err)
			}
		})
	}
}

func TestDecodeReadsWhatOthersWrite(t *testing.T) {
	const p = ` { "title" : "\u0074\/", "hash":"sha256-2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
		"structured_data": {"title": 1}, "language":"en-US", "canonical_url":"https:\/\/example.com\/", "content":"c" } ` + "\n"
	want := tct.Document{
		URL: "https://example.com/", Title: "t/", Content: "c", Language: "en-US",
		Hash: "sha256-2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
	}
	if got, err := tct.Decode([]byte(p)); err != nil || got != want {
		t.Errorf("Decode = %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"{}", strings.Replace(p, `"language"`, `"title"`, 1), strings.Replace(p, `"c"`, "7", 1), p + "x"} {
		if d, err := tct.Decode([]byte(bad)); !errors.Is(err, tct.ErrMalformed) || d != (tct.Document{}) {
			t.Errorf("Decode(%s) = %+v, %v; want ErrMalformed", bad, d, err)
		}
	}
}

// FuzzCheck looks for a payload that Check accepts and that is not canonical,
// or that Decode does not read.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(payload()))
	f.Add([]byte(strings.Replace(payload(), "1e+21", "5e-324", 1)))
	f.Add([]byte(strings.TrimSuffix(payload(), "}") + `,"u😀":1,"u` + "\ue000" + `":1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		before := bytes.Clone(p)
		err := tct.Check(p, helloURL)
		if !bytes.Equal(p, before) {
			t.Fatal("Check changed the payload")
		}
		d, decodeErr := tct.Decode(p)
		if err != nil {
			return
		}
		if oracle, err := jcs.Transform(p); err != nil || !bytes.Equal(oracle, p) {
			t.Fatalf("accepted %q, in canonical form %q, %v", p, oracle, err)
		}
		if decodeErr != nil || d.URL != helloURL || !utf8.ValidString(d.Content) {
			t.Fatalf("accepted %q, read as %+v, %v", p, d, decodeErr)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	p, _ := tct.Encode(nil, tct.Document{URL: helloURL, Title: "t", Content: strings.Repeat("All work and no \"play\" makes\n", 300)})
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		if err := tct.Check(p, helloURL); err != nil {
			b.Fatal(err)
		}
	}
}
