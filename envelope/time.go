package envelope

import (
	"fmt"
	"time"
)

const timeLayout = "2006-01-02T15:04:05Z"

// A Time is an instant in whole seconds, UTC, written in exactly 20 octets:
// YYYY-MM-DDTHH:MM:SSZ. The zero Time is absent.
type Time struct{ time.Time }

// At is t in whole seconds, the fraction dropped.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC().Truncate(time.Second)}
}

// ParseTime accepts exactly the form that String prints.
func ParseTime(s string) (Time, error) {
	t, ok := readTime(s)
	if !ok {
		return Time{}, fmt.Errorf("malformed time %.40q", s)
	}
	return t, nil
}

// readTime is ParseTime for those who have octets, and need no reason.
func readTime[T string | []byte](s T) (Time, bool) {
	if len(s) != len(timeLayout) {
		return Time{}, false
	}
	var bad bool
	number := func(from, to int) (n int) {
		for i := from; i < to; i++ {
			bad = bad || s[i] < '0' || s[i] > '9'
			n = 10*n + int(s[i]-'0')
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second := number(11, 13), number(14, 16), number(17, 19)
	bad = bad || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[19] != 'Z'
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	// A day that there is not would be counted on from one that there is. What
	// stands for the absent time is not accepted as one that is present.
	if bad || month < 1 || month > 12 || t.Day() != day || hour > 23 || minute > 59 || second > 59 || year < 1 || t.IsZero() {
		return Time{}, false
	}
	return Time{t}, true
}

func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalText is String, for a time that ParseTime accepts.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// AppendText hides that of the embedded time.Time, which writes fractions.
func (t Time) AppendText(b []byte) ([]byte, error) {
	if y := t.UTC().Year(); t.IsZero() || y < 1 || y > 9999 {
		return nil, fmt.Errorf("no time that can be written: %s", t)
	}
	return t.UTC().AppendFormat(b, time.RFC3339), nil // the same of a whole second in UTC, at half the cost
}

// UnmarshalText is ParseTime.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := ParseTime(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// MarshalJSON and UnmarshalJSON hide those of the embedded time.Time, which
// write fractions and accept several forms.
func (t Time) MarshalJSON() ([]byte, error) {
	b, err := t.AppendText([]byte{'"'})
	return append(b, '"'), err
}

// UnmarshalJSON accepts a string that ParseTime accepts.
func (t *Time) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return fmt.Errorf("malformed time %.40q", b)
	}
	return t.UnmarshalText(b[1 : len(b)-1])
}
