package indexer

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// aDay limits the octets of a day to those of so many pages of puts.
func aDay(pages int) (func(*grants.Draft), uint64) {
	size := uint64(len(payloadOf(urls(site, 1)[0], "words at "+urls(site, 1)[0])))
	return func(d *grants.Draft) {
		d.Lifetime, d.Constraints.MaxBytesPerDay = 20*24*time.Hour, uint64(pages)*size
	}, size
}

// beyond offers changes that a limit has to stand in the way of, and gives the
// refusal.
func (c *client) beyond(s *series, changes ...change) *oiv1.Fault {
	c.p.r.t.Helper()
	r := c.p.r
	before, size, root := r.stateOf(s)
	answer := c.deliver(s.parcel(changes...).pack())
	if answer.Refused.GetReason() != string(grants.ErrLimit) {
		r.t.Fatalf("answered %v, refused %v", answer.Committed, answer.Refused)
	}
	after, n, now := r.stateOf(s)
	if fmt.Sprint(after) != fmt.Sprint(before) || n != size || now != root {
		r.t.Errorf("the refused batch moved %+v to %+v", before, after)
	}
	return answer.Refused
}

// TestNoWayRoundALimit uses the octets of a day up and then tries whatever might
// give some of them back.
func TestNoWayRoundALimit(t *testing.T) {
	t.Parallel()
	limit, size := aDay(10)
	left := 12 * time.Hour // of the day in which the rig begins
	for _, tt := range []struct {
		name string
		try  func(r *rig, s *series, c *client) *client
	}{
		{"in the same session", func(_ *rig, _ *series, c *client) *client { return c }},
		{"in a new session", func(_ *rig, s *series, c *client) *client {
			c.close()
			return s.p.session(s)
		}},
		{"in a second session beside the first", func(_ *rig, s *series, _ *client) *client { return s.p.session(s) }},
		{"after a restart", func(r *rig, s *series, _ *client) *client {
			r.close()
			r.open()
			return s.p.session(s)
		}},
		{"under a renewed grant", func(r *rig, s *series, c *client) *client {
			c.close()
			s.pair = s.grant(2, limit)
			c = s.p.session(s)
			if a := c.rebind(s); a.Committed == nil {
				r.t.Fatal(a.Refused)
			}
			return c
		}},
		{"under a renewed grant in a new journal epoch", func(_ *rig, s *series, c *client) *client {
			c.close()
			s.pair = s.grant(2, limit)
			s.epoch, s.revision = 78, 0
			return s.p.session(s)
		}},
		{"with the clock set back by a minute", func(r *rig, _ *series, c *client) *client {
			r.forward(-time.Minute)
			return c
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			p := r.example()
			s := p.series("docs-1", site, limit)
			c := p.session(s)
			c.push(s, puts("words", urls(site, 9)...)...)
			c = tt.try(r, s, c)
			f := c.beyond(s, puts("words", urls(site+"x", 2)...)...)
			reopens := left + time.Duration(time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC).Unix()-r.clock.Load())*time.Second
			if got := time.Duration(f.RetryMs) * time.Millisecond; got != reopens {
				t.Errorf("come back in %s, want %s", got, reopens)
			}
			c.push(s, puts("words", urls(site, 11)[10])...) // what is left of the day
			c.beyond(s, puts("words", urls(site, 12)[11])...)
			c.push(s, change{url: urls(site, 1)[0]}) // a deletion never waits
			rec, _, _ := r.stateOf(s)
			if rec.Used.Octets != 10*size {
				t.Errorf("%d octets are used, want %d", rec.Used.Octets, 10*size)
			}
			r.forward(reopens - time.Second)
			c = p.session(s)
			c.beyond(s, puts("words", urls(site, 12)[11])...)
			r.forward(time.Second)
			c.push(s, puts("words", urls(site+"y", 9)...)...)
		})
	}
}

func TestWhatIsLargerThanADayNeverComes(t *testing.T) {
	t.Parallel()
	limit, _ := aDay(2)
	r := newRig(t)
	s := r.example().series("docs-1", site, limit)
	c := s.p.session(s)
	if f := c.beyond(s, puts("words", urls(site, 3)...)...); f.RetryMs != 0 {
		t.Errorf("come back in %d ms", f.RetryMs)
	}
}

func TestPagesASecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.example().series("docs-1", site, func(d *grants.Draft) { d.Constraints.MaxFetchPerSecond = 4 })
	c := s.p.session(s)
	if f := c.beyond(s, puts("words", urls(site, 5)...)...); f.RetryMs != 0 {
		t.Errorf("five at once: come back in %d ms", f.RetryMs)
	}
	c.push(s, puts("words", urls(site, 3)...)...)
	if f := c.beyond(s, puts("words", urls(site+"x", 2)...)...); f.RetryMs != 250 {
		t.Errorf("two more: come back in %d ms", f.RetryMs)
	}
	c.push(s, puts("words", urls(site+"x", 1)...)...)
	c.push(s, change{url: urls(site, 1)[0]}, change{url: urls(site, 2)[1]}) // deletions are no pages
	r.close()
	r.open()
	c = s.p.session(s)
	if f := c.beyond(s, puts("words", site+"y")...); f.RetryMs != 250 {
		t.Errorf("after a restart: come back in %d ms", f.RetryMs)
	}
	r.forward(time.Second)
	c.push(s, puts("words", urls(site+"y", 4)...)...)
}

// TestATighterNewGrantLimitsTheOlderOne uses an older grant, which still holds
// the state, beside a newer one that allows less.
func TestATighterNewGrantLimitsTheOlderOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	c.close()
	older := s.pair
	s.pair = s.grant(2, func(d *grants.Draft) { d.Constraints.MaxFetchPerSecond = 2 })
	c = s.p.session(s)
	s.pair = older
	c.beyond(s, puts("words", urls(site+"x", 3)...)...)
	c.push(s, puts("words", site+"x")...)
}

// TestAnAnsweredBatchIsAnsweredAgainBeyondTheLimit repeats a batch whose answer
// was lost, when nothing is left of the day.
func TestAnAnsweredBatchIsAnsweredAgainBeyondTheLimit(t *testing.T) {
	t.Parallel()
	limit, size := aDay(3)
	r := newRig(t)
	s := r.example().series("docs-1", site, limit)
	c := s.p.session(s)
	b := s.parcel(puts("words", urls(site, 3)...)...).pack()
	first := c.deliver(b)
	if again := c.deliver(b); string(committedOctets(again)) != string(committedOctets(first)) || first.Committed == nil {
		t.Errorf("answered %v", again.Refused)
	}
	if rec, _, _ := r.stateOf(s); rec.Used.Octets != 3*size {
		t.Errorf("%d octets are used, want %d", rec.Used.Octets, 3*size)
	}
}

func TestALongWaitFitsTheWire(t *testing.T) {
	err := retryAfter(refuse(grants.ErrLimit, "x"), 100*24*time.Hour)
	if r, ok := asRefusal(err); !ok || r.retryMS != math.MaxUint32 || !errors.Is(err, grants.ErrLimit) {
		t.Errorf("%v", err)
	}
	if r, _ := asRefusal(retryAfter(refuse(grants.ErrLimit, "x"), time.Microsecond)); r.retryMS != 1 {
		t.Errorf("a moment is %d ms", r.retryMS)
	}
}

// TestAGrantLivesNoLongerThanTheIndexerAccepts shows the cap of the indexer's own
// configuration, and the one that stands without it.
func TestAGrantLivesNoLongerThanTheIndexerAccepts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	for _, tt := range []struct {
		name string
		max  time.Duration
		life time.Duration
		want string
	}{
		{"the default cap itself", 0, grants.MaxLifetime, ""},
		{"a cap of two days", 48 * time.Hour, 48 * time.Hour, ""},
		{"a second more than that", 48 * time.Hour, 48*time.Hour + time.Second, string(grants.ErrLifetime)},
		{"what Issue gives by default, under a cap of two days", 48 * time.Hour, 0, string(grants.ErrLifetime)},
	} {
		r.x.SetMaxGrant(tt.max)
		s := p.series("docs-1", site, func(d *grants.Draft) { d.Lifetime = tt.life })
		c := p.greeted()
		var got string
		for _, f := range c.announce(c.announcement(p.series("s"+fmt.Sprint(tt.life), fmt.Sprintf("%s%d/", site, tt.life), func(d *grants.Draft) { d.Lifetime = tt.life }))).Refusals {
			got = f.Reason
		}
		if got != tt.want {
			t.Errorf("%s: refused %q, want %q", tt.name, got, tt.want)
		}
		if life := s.pair.Grant.Object.ExpiresAt.Sub(s.pair.Grant.Object.IssuedAt); tt.life == 0 && life != grants.DefaultLifetime {
			t.Errorf("the default is %s", life)
		}
		c.close()
	}
}
