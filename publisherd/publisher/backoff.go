package publisher

import (
	"context"
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
)

// Times between attempts to reach an indexer.
const (
	backoffBase   = time.Second
	backoffCap    = 5 * time.Minute
	backoffStable = time.Minute // a session of this length was a success
	attemptGap    = time.Second // between any two attempts

	// maxHint bounds how long an indexer may ask to be left alone.
	maxHint = time.Hour
)

// A backoff draws the wait before the next attempt: full jitter, uniform in
// [0, min(cap, base·2ⁿ)], where n counts failures since the last reset.
type backoff struct {
	failures int
	draw     func(n int64) int64 // uniform in [0, n)
}

// next is the wait after one more failure: at least what the other side asked
// for, and at least attemptGap. A failure that does not heal by itself is
// drawn from the full range at once.
func (b *backoff) next(v verdict) time.Duration {
	ceiling := backoffCap
	if shift := b.failures; !v.lasting && shift < 9 {
		ceiling = min(ceiling, backoffBase<<shift)
	}
	if v.exact { // no failure: it is known when it goes on
		return max(min(v.hint, maxLimitHint), attemptGap)
	}
	b.failures++
	if v.apart { // what is offered again is content: each time after twice as long
		return min(max(min(v.hint, maxHint), attemptGap)<<min(b.failures-1, 12), maxHint)
	}
	return max(time.Duration(b.draw(int64(ceiling)+1)), min(v.hint, maxHint), attemptGap)
}

func (b *backoff) reset() { b.failures = 0 }

// Draining is the ErrDraining of an indexer that says when to come back.
type Draining struct{ ComeBack time.Duration }

func (d *Draining) Error() string {
	return ErrDraining.Error() + "; come back in " + d.ComeBack.String()
}

func (d *Draining) Unwrap() error { return ErrDraining }

// ErrStopping is returned for what the daemon has no time left for.
var ErrStopping = errors.New("the daemon is shutting down")

// A verdict says what a failure means for the next attempt.
type verdict struct {
	hint    time.Duration // the other side wants to be left alone for so long
	lasting bool          // only a person can change it
	alarm   bool          // the other side is not honest, or not sound
	session bool          // it is about the session, not about one series
	exact   bool          // hint is neither more nor less than what has to be waited
	apart   bool          // the one series alone waits: its session is sound, and the others go on in it
}

// judge gives the verdict on a failure.
func judge(err error) verdict {
	var refused *Refused
	var reason grants.Reason
	var failure *evaluate.Failure
	var draining *Draining
	switch {
	case errors.Is(err, ErrProtocol), errors.Is(err, ErrSplitView), errors.Is(err, ErrProbe), errors.As(err, &failure):
		return verdict{alarm: true}
	case errors.As(err, &draining):
		return verdict{hint: draining.ComeBack, session: true}
	case errors.As(err, &refused) && refused.Reason == grants.ErrLimit && refused.RetryMS > 0:
		return verdict{hint: time.Duration(refused.RetryMS) * time.Millisecond, exact: true, apart: true}
	case errors.As(err, &refused) && refused.Reason == grants.ErrQuota:
		return verdict{hint: time.Duration(refused.RetryMS) * time.Millisecond, apart: true}
	case errors.As(err, &refused) && refused.RetryMS > 0:
		return verdict{hint: time.Duration(refused.RetryMS) * time.Millisecond, session: true}
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrDraining), errors.Is(err, ErrStopping),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return verdict{session: true}
	case errors.As(err, &refused), errors.As(err, &reason),
		errors.Is(err, ErrBehind), errors.Is(err, ErrRestored), errors.Is(err, ErrClock):
		return verdict{lasting: true}
	}
	return verdict{}
}
