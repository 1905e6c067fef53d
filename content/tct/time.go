package tct

import "time"

// appendTime appends a time as RFC 3339 writes it, in UTC and whole seconds,
// with its quotes.
func appendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, `"`+time.RFC3339+`"`)
}
