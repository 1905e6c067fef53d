package scp

import (
	"cmp"
	"slices"
	"time"
)

// A Held is what an index knows of one page.
type Held struct {
	Modified time.Time
	Digest   [32]byte
}

// A Verdict is what becomes of a page of a delta.
type Verdict uint8

// The verdicts of "Delta Application".
const (
	Insert  Verdict = iota // its URL was unknown
	Replace                // it is newer
	Ignore                 // it is as old as what is held, or older
	// Conflict is Ignore for a page that differs and claims the same time: its
	// publisher broke the rule that times grow. The text keeps what is held, so
	// what is newer comes with the next time, or the next snapshot.
	Conflict
)

// Apply decides what becomes of a page of a delta, by instants and by nothing
// else. held is nil for a URL that is not known.
func Apply(held *Held, page Held) Verdict {
	switch {
	case held == nil:
		return Insert
	case page.Modified.After(held.Modified):
		return Replace
	case page.Modified.Equal(held.Modified) && page.Digest != held.Digest:
		return Conflict
	}
	return Ignore
}

// Plausible is a page's time as Apply is to take it: nothing can have been
// modified after its collection was made, so that a clock that ran ahead once
// does not keep a page from changing for ever.
func Plausible(modified, generated time.Time) time.Time {
	if modified.After(generated) {
		return generated
	}
	return modified
}

// A Progress is where an index stands with a section.
type Progress struct {
	Base    time.Time // generated of its snapshot; zero for none
	Reached time.Time // the latest generated of all that was applied
	Fetched time.Time // when the snapshot was
}

// Plan says which of the listed collections of one section bring an index up
// to date, in the order in which they are to be applied.
//
// A first reading takes the latest snapshot, and so does one whose snapshot
// was fetched longer than every ago, for only a snapshot shows what was
// deleted. Otherwise it is the deltas, by generated; where one of them begins
// after what is held ends, some were missed, and the latest snapshot
// re-synchronises. What expired is not asked for.
func Plan(p Progress, listed []Listing, now time.Time, every time.Duration) []Listing {
	var snapshot *Listing
	var deltas []Listing
	for i := range listed {
		l := &listed[i]
		switch {
		case l.Expired(now):
		case l.Type == Delta:
			deltas = append(deltas, *l)
		case snapshot == nil || l.Generated.After(snapshot.Generated):
			snapshot = l
		}
	}
	slices.SortStableFunc(deltas, func(a, b Listing) int {
		return cmp.Or(a.Generated.Compare(b.Generated), cmp.Compare(a.URL, b.URL))
	})
	newer := snapshot != nil && snapshot.Generated.After(p.Base)
	chain, reached, whole := follow(p.Reached, deltas)
	stale := !p.Base.IsZero() && now.Sub(p.Fetched) >= every
	behind := newer && snapshot.Generated.After(reached)
	if newer && (p.Base.IsZero() || stale || !whole || behind) {
		rest, _, _ := follow(snapshot.Generated, deltas)
		return append([]Listing{*snapshot}, rest...)
	}
	return chain
}

// follow returns the deltas that are newer than reached, how far they lead,
// and whether they do so without a gap. Those behind a gap are given too: they
// are all there is, if no snapshot is.
func follow(reached time.Time, deltas []Listing) (chain []Listing, end time.Time, whole bool) {
	whole, end = true, reached
	for _, d := range deltas {
		if !d.Generated.After(reached) {
			continue
		}
		if d.Since.After(end) && !end.IsZero() {
			whole = false
		}
		chain = append(chain, d)
		end = d.Generated
	}
	return chain, end, whole
}

// Fresh is the check against replays: a collection that claims to be from the
// future by more than skew, or older than maxAge, is ErrStale. A maxAge of
// zero bounds no age.
func Fresh(c *Collection, now time.Time, skew, maxAge time.Duration) error {
	if c.Generated.Sub(now) > skew || maxAge > 0 && now.Sub(c.Generated) > maxAge {
		return ErrStale
	}
	return nil
}
