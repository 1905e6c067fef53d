package content

import (
	"fmt"
	"strings"
	"time"
)

// ParseTime reads a time as RFC 3339 writes it, and, with odd set, in other
// forms that sources use: without seconds, without a zone (which is then UTC),
// with a zone like +0000, with a space for the T, and as a date alone.
func ParseTime(s string) (t time.Time, odd bool, err error) {
	if len(s) > 64 {
		return time.Time{}, false, fmt.Errorf("a time of %d octets", len(s))
	}
	s = strings.TrimSpace(s)
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC().Truncate(time.Second), false, nil
	}
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04Z0700",
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Truncate(time.Second), true, nil
		}
	}
	return time.Time{}, false, fmt.Errorf("%q is no time", s)
}
