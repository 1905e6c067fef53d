package grants_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestUsageNeverExceedsItsLimits takes what it can get of a clock that goes on,
// stands, jumps and is set back, and counts what it got in every day and in every
// second.
func TestUsageNeverExceedsItsLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := grants.Constraints{
			MaxBytesPerDay:    rapid.Uint64Range(0, 100).Draw(t, "octets a day"),
			MaxFetchPerSecond: rapid.Uint64Range(0, 7).Draw(t, "pages a second"),
		}
		var u grants.Usage
		type taken struct {
			at    time.Time
			pages uint64
		}
		var all []taken
		days, latest := make(map[int64]uint64), int64(0)
		now := time.Unix(1_800_000_000, 0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int64{0, 1, 40, 200, 999, 1000, 5000, 40_000_000, 90_000_000, -700, -50_000_000}).Draw(t, "ms")) * time.Millisecond)
			octets, pages := rapid.Uint64Range(0, 60).Draw(t, "octets"), rapid.Uint64Range(0, 8).Draw(t, "pages")
			next, wait, err := u.Take(c, now, octets, pages)
			if err != nil {
				if !errors.Is(err, grants.ErrLimit) || next != u {
					t.Fatalf("refused %v, and moved from %+v to %+v", err, u, next)
				}
				never := c.MaxBytesPerDay > 0 && octets > c.MaxBytesPerDay || c.MaxFetchPerSecond > 0 && pages > c.MaxFetchPerSecond
				if never != (wait == 0) {
					t.Fatalf("%d octets, %d pages: wait %s", octets, pages, wait)
				}
				if wait > 0 {
					if _, still, err := u.Take(c, now.Add(wait), octets, pages); err != nil && still == 0 || still >= wait {
						t.Fatalf("after the wait of %s: %v, wait %s", wait, err, still)
					}
				}
				continue
			}
			u = next
			if octets > 0 || pages > 0 { // a day that was seen is over for good
				latest = max(latest, now.Unix()/86400)
			}
			days[latest] += octets
			all = append(all, taken{now, pages})
		}
		for d, got := range days {
			if c.MaxBytesPerDay > 0 && got > c.MaxBytesPerDay {
				t.Fatalf("%d octets in day %d, the limit is %d", got, d, c.MaxBytesPerDay)
			}
		}
		for i, first := range all { // whatever begins with a full bucket: one second's pages, and what flows in
			var got uint64
			before := first.at
			for _, x := range all[i:] {
				if x.at.Before(before) {
					break // a clock that was set back tells nothing of how long it took
				}
				before = x.at
				got += x.pages
				if most := float64(c.MaxFetchPerSecond) * (1 + x.at.Sub(first.at).Seconds()); c.MaxFetchPerSecond > 0 && float64(got) > most+1e-6 {
					t.Fatalf("%d pages within %s, the limit is %d a second", got, x.at.Sub(first.at), c.MaxFetchPerSecond)
				}
			}
		}
	})
}

func TestAClockThatIsSetBackGivesNothingAway(t *testing.T) {
	c := grants.Constraints{MaxBytesPerDay: 100, MaxFetchPerSecond: 10}
	now := time.Date(2026, 11, 3, 0, 0, 1, 0, time.UTC)
	u, _, err := grants.Usage{}.Take(c, now, 100, 10)
	if err != nil {
		t.Fatal(err)
	}
	yesterday := now.Add(-2 * time.Second)
	if _, wait, err := u.Take(c, yesterday, 1, 0); !errors.Is(err, grants.ErrLimit) || wait != 24*time.Hour+time.Second {
		t.Errorf("octets of the day before: %v, wait %s", err, wait)
	}
	if _, wait, err := u.Take(c, yesterday, 0, 1); !errors.Is(err, grants.ErrLimit) || wait != 2*time.Second+100*time.Millisecond {
		t.Errorf("a page: %v, wait %s", err, wait)
	}
	if _, _, err := u.Take(c, now.Add(24*time.Hour), 100, 10); err != nil {
		t.Errorf("the next day: %v", err)
	}
}

func TestTheTighterOfTwoLimitsCounts(t *testing.T) {
	none, some := grants.Constraints{}, grants.Constraints{MaxBytesPerDay: 5, MaxFetchPerSecond: 9}
	other := grants.Constraints{MaxBytesPerDay: 7, MaxFetchPerSecond: 2}
	if none.Tighter(some) != some || some.Tighter(none) != some || none.Tighter(none) != none {
		t.Error("0 is no limit")
	}
	if got, want := some.Tighter(other), (grants.Constraints{MaxBytesPerDay: 5, MaxFetchPerSecond: 2}); got != want || other.Tighter(some) != want {
		t.Errorf("tighter: %+v, want %+v", got, want)
	}
	if got, _, unlimited := (grants.Usage{}).Left(some, time.Unix(0, 0)); got != 5 || unlimited {
		t.Errorf("left: %d, unlimited %t", got, unlimited)
	}
}
