package tct_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"unicode"

	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestNormaliseMatchesTheDraftsVectors(t *testing.T) {
	for _, tt := range []struct{ name, in, want, hash string }{
		{
			"basic ASCII with white space", "Hello  World\n\t\nTesting", "hello world testing",
			"479045cd11cebe841bab15d5ffba3dbac4fed0ca5c4eb74d1102e562a45f4f1f",
		},
		{
			"entity and Unicode", "Test &amp; Unicode: caf\u00e9\u2014", "test & unicode: caf\u00e9\u2014",
			"f58639b586fac9cb70d4513c83a6b2954178a80f12f5c1069aad09d124ef7b24",
		},
		{
			"a form feed is a control character", "Hello\fWorld\fTest", "helloworldtest",
			"a869aef68aa3474f125dd9d5b731f6cc1495a6fbafa5de63f55bc79faf75d9f8",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tct.Normalise(tt.in)
			sum := sha256.Sum256([]byte(got))
			if got != tt.want || hex.EncodeToString(sum[:]) != tt.hash {
				t.Errorf("Normalise = %q with %x, want %q with %s", got, sum, tt.want, tt.hash)
			}
		})
	}
}

func TestNormaliseTakesTheListByTheLetter(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"folding is full", "Stra\u00dfe", "strasse"},
		{"nothing is composed again after folding", "\u01f0", "j\u030c"},
		{"a final sigma is a sigma", "\u039f\u03a3 \u03bf\u03c2", "\u03bf\u03c3 \u03bf\u03c3"},
		{"a Cherokee capital folds to itself", "\u13a0\u13f5", "\u13a0\u13f5"},
		{"a small Cherokee letter folds to its capital", "\uab70\uabbf\u13f8\u13fd", "\u13a0\u13ef\u13f0\u13f5"},
		{"compatibility forms are replaced", "\ufb01 \u2460 \uff21", "fi 1 a"},
		{"a no-break space is a space by NFKC", "a\u00a0\u00a0b", "a b"},
		{"a line separator is no ASCII white space", "\u2028a\u2028\u2028b", "\u2028a\u2028\u2028b"},
		{"nor is an Ogham space", "\u1680a\u1680", "\u1680a\u1680"},
		{"references are decoded once", "&amp;lt; &#x2014;", "&lt; \u2014"},
		{"a reference may give white space", "a&#9;&#10;b", "a b"},
		{"controls go, and white space around them meets", "a \x01\x7f\u0085 b", "a b"},
		{"spaces at the ends go", " \t a \r\n", "a"},
		{"nothing but spaces is nothing", " \n ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tct.Normalise(tt.in); got != tt.want {
				t.Errorf("Normalise(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// TestNormaliseIgnoresCase compares with the standard library's table of
// letters that differ in case only. The two dots of i are its exception: they
// fold only in Turkic languages.
func TestNormaliseIgnoresCase(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if s := unicode.SimpleFold(r); s != r && tct.Normalise(string(s)) != tct.Normalise(string(r)) {
			t.Errorf("%U gives %+q, %U gives %+q", r, tct.Normalise(string(r)), s, tct.Normalise(string(s)))
		}
	}
}

func TestNormaliseLeavesNoWhiteSpaceToCollapse(t *testing.T) {
	char := rapid.SampledFrom([]rune(" \t\n\r\f\va&;#9\u00a0\u1680\u2028\u0085\u00df\u0130\u01f0"))
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringOf(char).Draw(t, "in")
		space := true
		out := tct.Normalise(in)
		for _, r := range out {
			if unicode.Is(unicode.Cc, r) || r == ' ' && space {
				t.Fatalf("Normalise(%q) = %q", in, out)
			}
			space = r == ' '
		}
		if out != "" && space {
			t.Fatalf("Normalise(%q) = %q ends in a space", in, out)
		}
	})
}

// TestNormalisationAndFoldingAreOfOneVersionOfUnicode: a character that only
// one of them knows would be hashed as no other publisher hashes it.
func TestNormalisationAndFoldingAreOfOneVersionOfUnicode(t *testing.T) {
	if norm.Version != cases.UnicodeVersion {
		t.Errorf("NFKC is of Unicode %s, folding of %s", norm.Version, cases.UnicodeVersion)
	}
}
