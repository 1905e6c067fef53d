package site

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"
)

// ourTokens and theirTokens print the tokens of a page in one form: names in
// lower case, NUL in tags replaced, and texts that touch as one.
func ourTokens(src string) (tokens []string) {
	z := lexer{src: []byte(src)}
	for {
		switch z.next() {
		case endOfFile:
			if string(z.src) != src {
				tokens = append(tokens, "the source was changed")
			}
			return tokens
		case text:
			tokens = appendText(tokens, z.text)
		case endTag:
			tokens = append(tokens, "end "+asciiLower(string(z.written)))
		case startTag:
			a := &z.attrs
			tokens = append(tokens, fmt.Sprintf("start %s %q", asciiLower(string(z.written)), []string{
				withoutNUL(a.class), withoutNUL(a.content), withoutNUL(a.httpEquiv), withoutNUL(a.id),
			}))
			if e := lookup(z.name); e.is(raw) {
				tokens = appendText(tokens, z.rawText(e.name))
			}
		}
	}
}

func appendText(tokens []string, t []byte) []string {
	if n := len(tokens); n > 0 && strings.HasPrefix(tokens[n-1], "text ") {
		tokens[n-1] += string(t)
		return tokens
	}
	if len(t) > 0 {
		tokens = append(tokens, "text "+string(t))
	}
	return tokens
}

func withoutNUL(b []byte) string { return strings.ReplaceAll(string(b), "\x00", "\uFFFD") }

func theirTokens(src string) (tokens []string) {
	z := html.NewTokenizer(strings.NewReader(src))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return tokens
		case html.TextToken:
			tokens = appendText(tokens, z.Raw())
		case html.EndTagToken:
			name, _ := z.TagName()
			tokens = append(tokens, "end "+asciiLower(string(name)))
		case html.StartTagToken, html.SelfClosingTagToken:
			values := map[string][]byte{}
			name, more := z.TagName()
			for more {
				var k, v []byte
				if k, v, more = z.TagAttr(); values[string(k)] == nil {
					values[string(k)] = v
				}
			}
			tokens = append(tokens, fmt.Sprintf("start %s %q", asciiLower(string(name)),
				[][]byte{values["class"], values["content"], values["http-equiv"], values["id"]}))
		}
	}
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, withoutNUL([]byte(s)))
}

// canCompare tells whether the two may be compared: theirs decodes references
// and carriage returns in attributes, and leaves the escaped state of a script
// at a "<" that no name follows, which the standard does not.
func canCompare(src string) bool {
	return !strings.ContainsAny(src, "&\r") && !(strings.Contains(src, "<!--") && strings.Contains(asciiLower(src), "<script"))
}

func TestLexerAgreesWithNetHTML(t *testing.T) {
	for _, src := range []string{
		"", "a", "<", "a<", "</", "a</", "<a", "<a b", "<a b=", `<a b="`, "<a b='c", "<a/", "</a", "<!", "<!-", "<!--", "<!--a", "<?",
		"a < b", "a <3 b", "a<>b", "</>a", "</ a>b", "</3>a", "<!>a", "<!->a", "<!a>b", "<?php ?>a",
		"<!-->a", "<!--->a", "<!---->a", "<!----->a", "<!--a-->b", "<!--a--!>b", "<!--a--!-->b", "<!--a->b", "<!--a-- >b-->c", "<!--!>a-->b",
		"<![CDATA[a>b]]>", "<!doctype html>a", "<!DOCTYPE a 'b>c'>",
		"<P CLASS=a>x</P >", "<p class=a class=b>", "<p class>x", "<p class=>x", "<p class = \n 'a b' id=c>x",
		`<p ="x>y" class=a>`, "<p/class=a>x", "<p class=a/>x", "<p class=a />x", "<p / class=a>x", "<p class=/>x", `<p class="a"id='b'>x`,
		"<p a=b=c class='d'>", "<p =>x", "<p 'a'>x", `<p class="a>b">c`, "<p class=a\x00b>", "<p\x00q>a", "<br/>a", "</p class=\"x>y\">a",
		"<script>a<b</p></script>c", "<SCRIPT>a</ScRiPt >b", "<script>a</scripts>b</script>c", "<script>a</script", "<script/>a</script>b", "<script/x>a</script>",
		"<title>a<b>c</title>d", "<title></title>a", "<title>a", "<textarea><p></textarea>a", "<style><!--</style>-->", "<plaintext>a</plaintext><b>", "<xmp><b></xmp>a",
		"<iframe><p></iframe>a", "<noscript><p></noscript>a", "<svg>\"<p>a", "<svg><title>a</svg>b", "<math>\x00a</math>b", "<xml>a</xml>b", "\x00a\x00<\x00",
	} {
		if got, want := ourTokens(src), theirTokens(src); !slices.Equal(got, want) {
			t.Errorf("%q\n got %q\nwant %q", src, got, want)
		}
	}
}

// htmlSoup draws pieces of markup in any order.
func htmlSoup() *rapid.Generator[string] {
	piece := rapid.SampledFrom(strings.Split("<|>|/|=|\"|'| |\n|a|-|!|--|?|</|<!--|-->|--!>|<!|<p|<P |class=|id='|content|x y|"+
		"<title>|</title>|</TITLE |<style>|</style|<textarea|<plaintext>|<svg>|<svg/>|</svg>|<br/>|<![CDATA[|]]>|</p>|\x00|\xc3\xa9", "|"))
	return rapid.Map(rapid.SliceOfN(piece, 0, 30), func(p []string) string { return strings.Join(p, "") })
}

func TestLexerAgreesWithNetHTMLOnSoup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := htmlSoup().Draw(t, "src")
		if got, want := ourTokens(src), theirTokens(src); canCompare(src) && !slices.Equal(got, want) {
			t.Fatalf("%q\n got %q\nwant %q", src, got, want)
		}
	})
}

func TestOnlyASlashRightBeforeTheEndClosesATag(t *testing.T) {
	for src, want := range map[string]bool{
		"<g/>": true, "<g />": true, "<g a=b />": true, `<g a="b"/>`: true, "<g a/>": true, "<g//>": true,
		"<g>": false, "<g/ >": false, "<g/a>": false, "<g a=b/>": false, "<g a=/>": false, "<g a='/'>": false,
	} {
		z := lexer{src: []byte(src)}
		if z.next(); z.selfClosing != want {
			t.Errorf("%s closes itself: %v, want %v", src, z.selfClosing, want)
		}
	}
}

func TestScriptsEndWhereTheStandardSays(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"a comment in a script hides no end tag", "<script><!-- a </script>b", "<!-- a "},
		{"a script inside a comment hides its own", "<script><!-- <script>a</script> --></script>b", "<!-- <script>a</script> -->"},
		{"the comment's end ends that", "<script><!-- <script>a--></script>b", "<!-- <script>a-->"},
		{"an empty comment hides nothing", "<script><!--><script></script>b", "<!--><script>"},
		{"a less-than sign changes nothing", "<script><!-- < <script> </script> </script>b", "<!-- < <script> </script> "},
		{"a longer name is another name", "<script><!-- <scripts> </script>b", "<!-- <scripts> "},
		{"without an end it is all script", "<script><!-- <script> </script>b", "<!-- <script> </script>b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			z := lexer{src: []byte(tt.src)}
			z.next()
			if got := string(z.rawText("script")); got != tt.want {
				t.Errorf("rawText = %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzLexer(f *testing.F) {
	for _, s := range []string{"<p class=a id='b'>x<!-- c --></p>", "<title>a</title><script>b</script>", "<a =\"x>y\"/><![CDATA[>", "</p a=\"b>c\"><plaintext>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		got := ourTokens(src)
		if canCompare(src) && !slices.Equal(got, theirTokens(src)) {
			t.Errorf("%q\n got %q\nwant %q", src, got, theirTokens(src))
		}
	})
}
