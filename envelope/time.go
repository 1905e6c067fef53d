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
	if len(s) != len(timeLayout) {
		return Time{}, fmt.Errorf("malformed time %.40q", s)
	}
	t, err := time.Parse(timeLayout, s)
	// The parser alone accepts one-digit hours and comma fractions.
	if err != nil || t.Format(timeLayout) != s || t.Year() < 1 {
		return Time{}, fmt.Errorf("malformed time %.40q", s)
	}
	return Time{t.UTC()}, nil
}

func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalText is String.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

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
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON accepts a string that ParseTime accepts.
func (t *Time) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return fmt.Errorf("malformed time %.40q", b)
	}
	return t.UnmarshalText(b[1 : len(b)-1])
}
