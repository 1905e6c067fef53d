package grants

import (
	"math/bits"
	"time"
)

// A Usage is what of the limits of a grant is used up in its series (UZPIF-OI
// 10.1). It belongs to the series and not to one grant, so that a renewal within
// the day begins nothing anew. The zero Usage has used nothing.
//
// Neither member ever goes back: a clock that is set back makes waits longer,
// and gives nothing away (TestUsageNeverExceedsItsLimits).
type Usage struct {
	Day    int64  `json:"day,omitzero"`    // days since 1970, in UTC: the latest that was seen
	Octets uint64 `json:"octets,omitzero"` // of payload, taken in that day
	// Full is when the rate's bucket is full again, in microseconds since 1970.
	// The bucket holds the pages of one second.
	Full int64 `json:"full,omitzero"`
}

const (
	day    = 24 * 60 * 60     // seconds
	second = int64(1_000_000) // microseconds
)

// Tighter is the constraint on octets and pages that keeps to both.
func (c Constraints) Tighter(d Constraints) Constraints {
	tighter := func(a, b uint64) uint64 { // where 0 is no limit
		if a == 0 || b != 0 && b < a {
			return b
		}
		return a
	}
	c.MaxBytesPerDay = tighter(c.MaxBytesPerDay, d.MaxBytesPerDay)
	c.MaxFetchPerSecond = tighter(c.MaxFetchPerSecond, d.MaxFetchPerSecond)
	return c
}

// at is u at a time: a new day has used nothing.
func (u Usage) at(now time.Time) Usage {
	if today := now.Unix() / day; today > u.Day {
		u.Day, u.Octets = today, 0
	}
	return u
}

// Left is how many octets may still be taken in the day of now, and how long it
// takes until that day is over. unlimited says that there is no such limit.
func (u Usage) Left(c Constraints, now time.Time) (octets uint64, reopens time.Duration, unlimited bool) {
	u = u.at(now)
	reopens = time.Unix((u.Day+1)*day, 0).Sub(now)
	if c.MaxBytesPerDay == 0 {
		return 0, reopens, true
	}
	return c.MaxBytesPerDay - min(c.MaxBytesPerDay, u.Octets), reopens, false
}

// Take takes pages with so many octets of payload together, all or nothing, and
// gives what is used then. What a limit stands in the way of is an ErrLimit, and
// leaves u as it was; wait is then how long it has to wait, and 0 of what never
// fits.
func (u Usage) Take(c Constraints, now time.Time, octets, pages uint64) (next Usage, wait time.Duration, err error) {
	if octets == 0 && pages == 0 {
		return u, 0, nil
	}
	most, rate := c.MaxBytesPerDay, c.MaxFetchPerSecond
	switch {
	case most > 0 && octets > most:
		return u, 0, refuse(ErrLimit, "%d octets at once, the grant allows %d a day", octets, most)
	case rate > 0 && pages > rate:
		return u, 0, refuse(ErrLimit, "%d pages at once, the grant allows %d a second", pages, rate)
	}
	next = u.at(now)
	left, reopens, unlimited := u.Left(c, now)
	if !unlimited && octets > left {
		return u, reopens, refuse(ErrLimit, "%d octets, and %d are left of the grant's %d for %s",
			octets, left, most, time.Unix(next.Day*day, 0).UTC().Format(time.DateOnly))
	}
	if sum, carry := bits.Add64(next.Octets, octets, 0); carry == 0 {
		next.Octets = sum
	}
	if rate == 0 || pages == 0 {
		return next, 0, nil
	}
	at := now.UnixMicro()
	next.Full = max(next.Full, at) + (int64(pages)*second+int64(rate)-1)/int64(rate)
	if late := next.Full - second - at; late > 0 {
		return u, time.Duration(late) * time.Microsecond, refuse(ErrLimit, "%d pages, and the grant allows %d a second", pages, rate)
	}
	return next, 0, nil
}
