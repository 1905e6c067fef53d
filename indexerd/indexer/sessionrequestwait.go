package indexer

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// askFull is for how long nothing is asked for that there was no room for, unless
// there is some before: asking costs the content.
const askFull = time.Hour

// A fullness is what was held of a publisher, and might be, when there was no room
// for what had been asked for.
type fullness struct {
	octets, pages int64
	may           *Allowance
}

// leaveAlone decides for how long nothing of a series is asked for: until a limit
// is over, until there is room, or, where pages were left out without a reason, for
// a while.
func (s *session) leaveAlone(f *oiv1.ContentAnswer, open int) error {
	var wait time.Duration
	var full *fullness
	switch {
	case f.Refused.GetReason() == string(grants.ErrCancelled):
	case f.Refused.GetReason() == string(grants.ErrQuota):
		var err error
		wait, full = askFull, &fullness{may: s.x.allowance.Load()}
		if full.octets, full.pages, err = heldOf(s.x.store, s.peer.Card.Identity); err != nil {
			return err
		}
	case f.Refused != nil && f.Refused.RetryMs > 0:
		wait = min(time.Duration(f.Refused.RetryMs)*time.Millisecond, askLimited)
	case f.Refused != nil, open > 0:
		wait = askAgain
	}
	s.asks.outMu.Lock()
	defer s.asks.outMu.Unlock()
	s.asks.until[f.Series] = time.Now().Add(wait)
	if delete(s.asks.full, f.Series); full != nil {
		s.asks.full[f.Series] = full
	}
	return nil
}

// roomAgain ends the wait of a series for room when less is held of its publisher,
// or another allowance counts.
func (s *session) roomAgain(series string) error {
	s.asks.outMu.Lock()
	full := s.asks.full[series]
	s.asks.outMu.Unlock()
	if full == nil {
		return nil
	}
	octets, pages, err := heldOf(s.x.store, s.peer.Card.Identity)
	if err != nil || octets >= full.octets && pages >= full.pages && s.x.allowance.Load() == full.may {
		return err
	}
	s.asks.outMu.Lock()
	defer s.asks.outMu.Unlock()
	delete(s.asks.full, series)
	delete(s.asks.until, series)
	return nil
}
