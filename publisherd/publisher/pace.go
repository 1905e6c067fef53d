package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The limits of a grant bind this side too: it knows them, and sends no more than
// they allow (TestAPushStopsAtTheLimitOfTheDay). What the indexer refuses all the
// same, because it counts from before a restore or by another clock, is waited for
// exactly as long as it says.

const (
	// maxPause is the longest wait within a session; longer ones end the push.
	maxPause = 5 * time.Second
	// maxPauses is how often one batch is offered again after such a wait.
	maxPauses = 5
	// maxLimitHint bounds how long a limit may keep a series waiting: a day, and
	// what two clocks may differ by.
	maxLimitHint = 25 * time.Hour
)

// A pacing is what is believed to be used of the limits of a series.
type pacing struct {
	Used grants.Usage `json:"used,omitzero"`
	// Until is when the rest may go, if a limit stopped the last push.
	Until envelope.Time `json:"until,omitzero"`
}

func (a agreement) pacing(r durable.Reader) (p pacing, err error) {
	_, err = durable.ReadJSON(r, rowKey('A', a.rel.Series, 'l'), &p)
	return p, err
}

func (a agreement) setPacing(p pacing) error {
	b := a.store.NewBatch()
	defer b.Close()
	if err := durable.WriteJSON(b, rowKey('A', a.rel.Series, 'l'), p); err != nil {
		return err
	}
	return b.Commit()
}

// limits are those of the grant under which the series is pushed.
func (a agreement) limits() grants.Constraints { return a.rel.Pair.Grant.Body.Constraints }

func limited(c grants.Constraints) bool { return c.MaxBytesPerDay > 0 || c.MaxFetchPerSecond > 0 }

// A pacer cuts drafts to what the limits allow. The drafter owns it.
type pacer struct {
	limits grants.Constraints
	used   grants.Usage // with the drafts that were made
	pages  uint64       // in the draft in hand
}

// never reports whether a page is larger than what may come in a whole day.
func (p *pacer) never(octets int) bool {
	return p.limits.MaxBytesPerDay > 0 && uint64(octets) > p.limits.MaxBytesPerDay
}

// takes counts a page into the draft in hand, unless that has as many as a second
// allows (full), or the day has no room for it (spent).
func (p *pacer) takes(octets int, now time.Time) (full, spent bool) {
	if rate := p.limits.MaxFetchPerSecond; rate > 0 && p.pages >= rate {
		return true, false
	}
	next, _, err := p.used.Take(grants.Constraints{MaxBytesPerDay: p.limits.MaxBytesPerDay}, now, uint64(octets), 0)
	if err != nil {
		return false, true
	}
	p.used = next
	p.pages++
	return false, false
}

// ends reports whether a draft of size octets ends before a row of the journal,
// and notes in it what that means.
func (d *drafter) ends(dr *draft, row pageRow, size int, alone bool) bool {
	full := len(dr.items) > 0 && (alone || size+row.Size > d.maxBytes() || len(dr.items) >= d.maxItems())
	if !full && !row.Deleted {
		full, dr.spent = d.pace.takes(row.Size, d.p.now())
	}
	if full || dr.spent {
		dr.last, dr.through = dr.spent, row.Revision-1 // what was passed over is not looked at again
	}
	return full || dr.spent
}

// payload is how many pages a draft brings, and how large they are together.
func (dr *draft) payload() (octets, pages uint64) {
	for _, it := range dr.items {
		if it.Op == translog.OpPut {
			pages++
		}
	}
	return uint64(dr.rawBytes - dr.itemsBytes), pages
}

// paced has a draft offered once the limits allow it, and again after a wait that
// the indexer asks for. What has to wait for longer than maxPause is refused.
func (s *session) paced(ctx context.Context, a agreement, dr *draft, offer func() (cursor, error)) (cursor, error) {
	if !limited(a.limits()) {
		return offer()
	}
	for try := 1; ; try++ {
		before, err := s.waitTurn(ctx, a, dr)
		if err != nil {
			return cursor{}, err
		}
		c, err := offer()
		var refused *Refused
		if !errors.As(err, &refused) || refused.Reason != grants.ErrLimit {
			return c, err
		}
		wait := time.Duration(refused.RetryMS) * time.Millisecond
		if wait > maxPause {
			before.Until = envelope.At(s.p.now().Add(min(wait, maxLimitHint)))
		}
		if err := a.setPacing(before); err != nil {
			return c, err
		}
		if wait == 0 || wait > maxPause || try > maxPauses {
			return c, err
		}
		if err := pause(ctx, wait); err != nil {
			return c, err
		}
	}
}

// waitTurn waits until the limits allow a draft, and notes it as sent. It returns
// what was noted before.
func (s *session) waitTurn(ctx context.Context, a agreement, dr *draft) (pacing, error) {
	for {
		before, err := a.pacing(s.p.store)
		if err != nil {
			return before, err
		}
		octets, pages := dr.payload()
		now := s.p.now()
		next, wait, err := before.Used.Take(a.limits(), now, octets, pages)
		if err == nil {
			return before, a.setPacing(pacing{Used: next})
		}
		if wait == 0 || wait > maxPause {
			return before, s.stopAt(a, now, wait)
		}
		if err := pause(ctx, wait); err != nil {
			return before, err
		}
	}
}

// stopAt notes and says that the rest of a push has to wait, from now on.
func (s *session) stopAt(a agreement, now time.Time, wait time.Duration) error {
	p, err := a.pacing(s.p.store)
	if err != nil {
		return err
	}
	p.Until = envelope.At(now.Add(wait + time.Second - 1)) // in whole seconds, and none too early
	if err := a.setPacing(p); err != nil {
		return err
	}
	return &Refused{
		Reason: grants.ErrLimit, RetryMS: uint32((min(wait, maxLimitHint) + time.Millisecond - 1) / time.Millisecond),
		Detail: fmt.Sprintf("the grant allows %d octets a day, and what is left of them is too little for the next page; the rest goes from %s on",
			a.limits().MaxBytesPerDay, p.Until),
	}
}

// stopForToday is stopAt until the day is over.
func (s *session) stopForToday(a agreement) error {
	p, err := a.pacing(s.p.store)
	if err != nil {
		return err
	}
	now := s.p.now()
	_, reopens, _ := p.Used.Left(a.limits(), now)
	return s.stopAt(a, now, reopens)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
