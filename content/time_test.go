package content

import (
	"testing"
	"time"
)

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-01-02T03:04:05Z", "2026-01-02T05:31-01:00", "2026-01-02 03:04:05+0000", "2026-01-02"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, _, err := ParseTime(s)
		if err != nil {
			return
		}
		if at.Location() != time.UTC || at.Nanosecond() != 0 {
			t.Fatalf("%q is %v", s, at)
		}
		if y := at.Year(); y < 1 || y > 9998 {
			return // what RFC 3339 cannot write in every zone
		}
		if again, odd, err := ParseTime(at.Format(time.RFC3339)); err != nil || odd || !again.Equal(at) {
			t.Fatalf("%q is %v, and then %v, %v", s, at, again, err)
		}
	})
}
