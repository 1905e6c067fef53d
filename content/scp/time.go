package scp

import (
	"strings"
	"time"
)

// timeLayouts are the forms of a time that sources are known to write beside
// RFC 3339, most of them ISO 8601 all the same. None of them is ambiguous.
var timeLayouts = [...]string{
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02T15:04:05.999999999Z07",
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04",
	"2006-01-02",
	"20060102T150405Z0700",
	"2006-01",
	"2006",
}

// parseTime reads a time. odd says that it is not of RFC 3339's form, as the
// schema wants it; where it names no zone, UTC is taken.
func parseTime(s string) (t time.Time, odd, ok bool) {
	// Go takes a comma for the fraction's mark too; RFC 3339 does not.
	if t, err := time.Parse(time.RFC3339, s); err == nil && strings.IndexByte(s, ',') < 0 {
		return t.UTC(), false, inRange(t)
	}
	if len(s) > 64 {
		return time.Time{}, true, false
	}
	s = strings.ToUpper(strings.TrimSpace(s))
	if len(s) > 10 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:]
	}
	s = strings.ReplaceAll(s, " ", "")
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), true, inRange(t)
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true, inRange(t)
		}
	}
	return time.Time{}, true, false
}

// inRange keeps to the years that RFC 3339 can write in every zone.
func inRange(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9998
}

// formatTime prints a time as this package writes it: in UTC, with a fraction
// only where there is one.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
