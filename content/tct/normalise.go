package tct

import (
	"html"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Normalise applies steps 1 to 6 of the draft's "Normalization Algorithm": HTML
// references are decoded once, then NFKC, full case folding, control
// characters but TAB, LF and CR removed, runs of ASCII white space made one
// space, and spaces at both ends removed. Two points that the draft leaves
// open are taken by the letter: only ASCII white space is white space, so
// U+2028 stays, and NFKC is not applied again after folding, so U+01F0 becomes
// "j" and U+030C.
func Normalise(s string) string {
	s = fold(norm.NFKC.String(html.UnescapeString(s)))
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range s {
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			space = true
		case unicode.Is(unicode.Cc, r):
		default:
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fold is Unicode's full case folding. The library folds the Cherokee letters
// to their small forms, the wrong way round (golang/go#46101): Unicode folds
// those to the capitals, which were there first.
func fold(s string) string {
	s = cases.Fold().String(s)
	if !strings.ContainsFunc(s, isSmallCherokee) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case 0xAB70 <= r && r <= 0xABBF:
			return r - 0xAB70 + 0x13A0
		case 0x13F8 <= r && r <= 0x13FD:
			return r - 8
		}
		return r
	}, s)
}

func isSmallCherokee(r rune) bool {
	return 0xAB70 <= r && r <= 0xABBF || 0x13F8 <= r && r <= 0x13FD
}
