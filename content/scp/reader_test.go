package scp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// good is a page line that nothing is wrong with.
func good(name string) string {
	return string(line("https://example.com/"+name, "Words", noon))
}

const goodMeta = `{"collection":{"id":"s","section":"all","type":"snapshot","generated":"2025-06-01T12:00:00Z","version":"0.1"}}`

func TestWhatRejectsACollectionAndWhatDoesNot(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(good("b"), old, new, 1) }
	meta := func(old, new string) string { return strings.Replace(goodMeta, old, new, 1) }
	three := func(second string) string { return goodMeta + "\n" + good("a") + "\n" + second + "\n" + good("c") }
	for _, tt := range []struct {
		name string
		text string
		want string // the pages, or "" and why
		why  string
	}{
		{"all is well", three(good("b")), "a b c", ""},
		{"an empty file", "", "", "empty"},
		{"no metadata", good("a"), "", "no member collection"},
		{"metadata alone: an empty delta", goodMeta, "", ""},
		{"a second metadata line is no page", three(goodMeta), "", "line 3: no url"},
		{"broken JSON in the middle", three(`{"url":`), "", "line 3"},
		{"broken JSON at the end", three(good("b")) + "\n{", "", "line 5"},
		{"a line that is no object", three(`["a"]`), "", "no JSON object"},
		{"two objects on a line", three(good("b") + good("b")), "", "something follows"},
		{"broken UTF-8", three(swap("Words", "W\xFFrds")), "", "line 3"},
		{"half of a pair of surrogates", three(swap("Words", `\ud800`)), "", "line 3"},
		{"a raw control character in a string", three(swap("Words", "W\x01rds")), "", "line 3"},
		{"a blank line in the middle", three(""), "", "blank line"},
		{"blank lines at the end", three(good("b")) + "\n\n\n", "a b c", ""},
		{"line ends of another system", strings.ReplaceAll(three(good("b")), "\n", "\r\n"), "a b c", ""},
		{"a byte order mark", "\uFEFF" + three(good("b")), "a b c", ""},
		{"white space around a line", three("  " + good("b") + "\t"), "a b c", ""},

		{"no url", three(swap(`"url"`, `"uri"`)), "", "no url"},
		{"no title", three(swap(`"title"`, `"titel"`)), "", "no title"},
		{"no description", three(swap(`"description"`, `"d"`)), "", "no description"},
		{"no modified", three(swap(`"modified"`, `"m"`)), "", "no modified"},
		{"no language", three(swap(`"language"`, `"l"`)), "", "no language"},
		{"no content", three(swap(`"content"`, `"c"`)), "", "no content"},
		{"null is no title", three(swap(`"A page"`, `null`)), "", "title is of the wrong kind"},
		{"a number is no title", three(swap(`"A page"`, `7`)), "", "title is of the wrong kind"},
		{"content that is no array", three(swap(`[{"type":"text","text":"Words"}]`, `"Words"`)), "", "content is of the wrong kind"},
		{"a member twice", three(swap(`"title":`, `"title":"x","title":`)), "", "two members title"},
		{"a member twice, the other time in disguise", three(swap(`"title":`, `"\u0074itle":"x","title":`)), "", "two members title"},
		{"a title without letters", three(swap("A page", "")), "a b c", ""},
		{"members and blocks that nobody knows", three(swap(`"title":`, `"x":{"y":[1,{}]},"title":`)), "a b c", ""},
		{"an unknown block", three(swap(`[{`, `[{"type":"poll","options":[1]},{`)), "a b c", ""},
		{"a block without a type", three(swap(`[{`, `[{"text":"x"},{`)), "a b c", ""},
		{"a block that is no object", three(swap(`[{`, `["x",{`)), "a b c", ""},
		{"content without a block", three(swap(`[{"type":"text","text":"Words"}]`, `[]`)), "a b c", ""},
		{"a schema that is an array", three(swap(`"title":`, `"schema":[{}],"title":`)), "a b c", ""},
		{"an author that is null", three(swap(`"title":`, `"author":null,"title":`)), "a b c", ""},
		{"a language that is none", three(swap(`"en"`, `"no such"`)), "a b c", ""},
		{"a language that the schema's pattern does not know", three(swap(`"en"`, `"x-klingon"`)), "a b c", ""},

		{"a url that is none", three(swap("https://example.com/b", "not a url")), "a c", ""},
		{"a url of another scheme", three(swap("https://example.com/b", "javascript:alert(1)")), "a c", ""},
		{"a url without a scheme", three(swap("https://example.com/b", "//example.com/b")), "a c", ""},
		{"a url that is not canonical", three(swap("https://example.com/b", "HTTPS://EXAMPLE.com:443/./b#x")), "a b c", ""},
		{"a modified that is no time", three(swap("2025-06-01T12:00:00Z", "lately")), "a c", ""},
		{"a modified that is a date", three(swap("2025-06-01T12:00:00Z", "2025-06-01")), "a b c", ""},

		{"version 0.2", meta("0.1", "0.2") + "\n" + good("a"), "a", ""},
		{"version 0.10", meta("0.1", "0.10") + "\n" + good("a"), "a", ""},
		{"version 00.1", meta("0.1", "00.1") + "\n" + good("a"), "a", ""},
		{"version 1.0", meta("0.1", "1.0"), "", "major"},
		{"version 18446744073709551616.0", meta("0.1", "18446744073709551616.0"), "", "major"},
		{"version 1", meta("0.1", "1"), "", "MAJOR.MINOR"},
		{"version 0.1.0", meta("0.1", "0.1.0"), "", "MAJOR.MINOR"},
		{"version v0.1", meta("0.1", "v0.1"), "", "MAJOR.MINOR"},
		{"a version that is a number", meta(`"0.1"`, `0.1`), "", "version is no string"},
		{"no id", meta(`"id"`, `"ident"`), "", "no id"},
		{"no section", meta(`"section"`, `"x"`), "", "no section"},
		{"no generated", meta(`"generated"`, `"x"`), "", "no generated"},
		{"a generated that is no time", meta("2025-06-01T12:00:00Z", "yesterday"), "", "is no time"},
		{"a type that there is not", meta("snapshot", "full"), "", "neither"},
		{"a delta without since", meta("snapshot", "delta"), "", "since"},
		{"a snapshot with since", meta(`"type"`, `"since":"2025-01-01T00:00:00Z","type"`) + "\n" + good("a"), "a", ""},
		{"a section with letters of its own", meta(`"all"`, `"блог"`) + "\n" + good("a"), "a", ""},
		{"an unknown member of the metadata", meta(`"id"`, `"x":[],"id"`) + "\n" + good("a"), "a", ""},
		{"a type twice", meta(`"type"`, `"type":"delta","type"`), "", "two members type"},
		{"a checksum that is cut off", meta(`"version"`, `"checksum":"sha256:f7d8","version"`), "", "64 digits"},
		{"a checksum that is empty", meta(`"version"`, `"checksum":"","version"`), "", "64 digits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Open(strings.NewReader(tt.text), Options{Spool: t.TempDir()})
			if tt.why != "" {
				if !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), tt.why) {
					t.Fatalf("error %v, want a rejection with %q", err, tt.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := urls(t, f); got != tt.want {
				t.Errorf("pages %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatIsOddIsTold(t *testing.T) {
	text := goodMeta + "\n" +
		strings.Replace(good("a"), `[{`, `[{"type":"poll"},{`, 1) + "\n" +
		strings.Replace(good("b"), "https://example.com/b", "htp://x", 1) + "\n" +
		strings.Replace(good("c"), "2025-06-01T12:00:00Z", "2025-06-01 12:00", 1)
	var told []string
	open(t, []byte(text), Options{Warn: func(w Warning) { told = append(told, fmt.Sprintf("%v %v", w, w.Skipped)) }})
	for i, want := range []string{`line 2: unknown block type "poll" false`, "line 3: page skipped: URL", "line 4: modified"} {
		if i >= len(told) || !strings.HasPrefix(told[i], want) {
			t.Fatalf("told %q, want %q at %d", told, want, i)
		}
	}
	if !strings.HasSuffix(told[1], "true") {
		t.Errorf("%q is not marked as skipped", told[1])
	}
}

func TestNoMoreWarningsThanABound(t *testing.T) {
	bad := strings.Replace(good("a"), `[{`, `[`+strings.Repeat(`{"type":"poll"},`, 900)+`{`, 1)
	told := 0
	open(t, []byte(goodMeta+"\n"+bad+"\n"+bad), Options{Warn: func(Warning) { told++ }})
	if told != MaxWarnings {
		t.Errorf("told %d times, want %d", told, MaxWarnings)
	}
}

func TestEachFormOfAFileGivesTheSamePages(t *testing.T) {
	text := []byte(goodMeta + "\n" + good("a") + "\n" + good("b"))
	half := len(text) / 2
	skippable := append([]byte{0x50, 0x2A, 0x4D, 0x18, 4, 0, 0, 0}, "data"...)
	for _, tt := range []struct {
		name string
		file []byte
		want Compression
	}{
		{"plain", text, Plain},
		{"gzip", packed(t, Gzip, text), Gzip},
		{"zstd", packed(t, Zstd, text), Zstd},
		{"gzip in two members", append(packed(t, Gzip, text[:half]), packed(t, Gzip, text[half:])...), Gzip},
		{"zstd in two frames", append(packed(t, Zstd, text[:half]), packed(t, Zstd, text[half:])...), Zstd},
		{"zstd behind a skippable frame", append(skippable, packed(t, Zstd, text)...), Zstd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Open(iotest.OneByteReader(bytes.NewReader(tt.file)), Options{Spool: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := urls(t, f); got != "a b" || f.Compression != tt.want || f.Size != int64(len(text)) || f.Packed != int64(len(tt.file)) {
				t.Errorf("pages %q, %v, %d of %d octets", got, f.Compression, f.Size, f.Packed)
			}
		})
	}
}

func TestABrokenCompressionRejects(t *testing.T) {
	text := []byte(goodMeta + "\n" + strings.Repeat(good("a")+"\n", 2000))
	for _, c := range []Compression{Gzip, Zstd} {
		whole := packed(t, c, text)
		flip := func(at int) []byte {
			b := bytes.Clone(whole)
			b[at] ^= 0x10
			return b
		}
		for _, tt := range []struct {
			name string
			file []byte
		}{
			{"cut off at nine tenths", whole[:len(whole)*9/10]},
			{"cut off within its end", whole[:len(whole)-2]},
			{"something behind its end", append(bytes.Clone(whole), "garbage"...)},
			{"a bit in the middle", flip(len(whole) / 2)},
			{"a bit of its check value", flip(len(whole) - 3 - 4*int(Zstd-c))},
		} {
			if _, err := Open(bytes.NewReader(tt.file), Options{Spool: t.TempDir()}); !errors.Is(err, ErrRejected) {
				t.Errorf("%s: %s: error %v, want a rejection", c.Coding(), tt.name, err)
			}
		}
	}
}

func TestARejectedCollectionLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	text := goodMeta + "\n" + strings.Repeat(good("a")+"\n", 5000) + "{"
	if _, err := Open(strings.NewReader(text), Options{Spool: dir}); !errors.Is(err, ErrRejected) {
		t.Fatalf("error %v", err)
	}
	f := open(t, []byte(goodMeta+"\n"+good("a")), Options{Spool: dir})
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%d files in the spool folder (%v), while one of %d pages is open", len(files), err, f.Pages)
	}
}

func TestAPageKeepsItsLineByteForByte(t *testing.T) {
	odd := `{ "url" : "HTTP:\/\/Example.com" ,"x":1.50, "title":"\u0041","description":"","modified":"2025-06-01T12:00:00+00:00","language":"EN","content":[ {"type":"poll","q":"?" } ] }`
	f := open(t, []byte(goodMeta+"\n "+odd+" \r\n"), Options{})
	for p, err := range f.Each() {
		if err != nil {
			t.Fatal(err)
		}
		if string(p.Line) != odd || p.URL != "http://example.com/" || p.Title != "A" || p.Language != "en" {
			t.Errorf("page %+v", p)
		}
		blocks, _ := p.Blocks()
		if u, ok := blocks[0].(*Unknown); !ok || string(u.Raw) != `{"type":"poll","q":"?" }` {
			t.Errorf("block %#v", blocks[0])
		}
	}
}

func TestAFailingSourceIsNotABrokenSpool(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(goodMeta+"\n"), iotest.ErrReader(io.ErrClosedPipe))
	if _, err := Open(broken, Options{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v", err)
	}
	if _, err := Open(strings.NewReader(goodMeta), Options{Spool: "/nowhere/at/all"}); err == nil || errors.Is(err, ErrRejected) {
		t.Errorf("without a spool folder: %v", err)
	}
}

func TestTimesAsPeopleWriteThem(t *testing.T) {
	for _, tt := range []struct {
		text, want string // want in UTC; "" if it is none
		odd        bool
	}{
		{"2025-01-15T10:00:00Z", "2025-01-15T10:00:00Z", false},
		{"2025-01-15T11:30:00.25+02:00", "2025-01-15T09:30:00.25Z", false},
		{"2025-01-15t10:00:00z", "2025-01-15T10:00:00Z", true},
		{"2025-01-15T05:31-01:00", "2025-01-15T06:31:00Z", true},
		{"2025-01-15T10:00:00+0000", "2025-01-15T10:00:00Z", true},
		{"2025-01-15T10:00:00", "2025-01-15T10:00:00Z", true},
		{"2025-01-15 10:00:00 +01:00", "2025-01-15T09:00:00Z", true},
		{"2025-01-15", "2025-01-15T00:00:00Z", true},
		{"20250115T100000Z", "2025-01-15T10:00:00Z", true},
		{"2025-02-30T10:00:00Z", "", true},
		{"15/01/2025", "", true},
		{"1736935200", "", true},
		{"", "", true},
	} {
		got, odd, ok := parseTime(tt.text)
		if ok != (tt.want != "") || ok && (formatTime(got) != tt.want || odd != tt.odd) {
			t.Errorf("%q is %s, odd %v, ok %v; want %q", tt.text, formatTime(got), odd, ok, tt.want)
		}
	}
}
