package arc

import (
	"regexp"
	"strings"
)

// emailForm and cardForm find what looks like an address or a number of a card.
var (
	emailForm = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}`)
	cardForm  = regexp.MustCompile(`\b[0-9](?:[ -]?[0-9]){12,18}\b`)
)

// looksPersonal reports whether an entry holds what looks like an e-mail address
// or the number of a payment card, anywhere. It finds no names, and is no proof
// of absence: what it finds is for an operator to look at (E.12).
func looksPersonal(e *Entry) bool {
	line := string(e.Line)
	if strings.IndexByte(line, '@') >= 0 && emailForm.MatchString(line) {
		return true
	}
	for _, number := range cardForm.FindAllString(line, 100) {
		if isCard(number) {
			return true
		}
	}
	return false
}

// isCard checks a number's last digit (Luhn).
func isCard(number string) bool {
	sum, n := 0, 0
	for i := len(number) - 1; i >= 0; i-- {
		c := number[i]
		if c < '0' || c > '9' {
			continue
		}
		d := int(c - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		n++
	}
	return n >= 13 && sum%10 == 0 && sum > 0
}
