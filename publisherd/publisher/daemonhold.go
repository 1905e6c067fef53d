package publisher

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
)

// A holding keeps one series out of sessions for a while.
type holding struct {
	back  backoff
	until time.Time
	err   error
	apart bool     // it is a series of the session all the same; see verdict
	scan  *scanned // of its collection, when it was held
	told  string   // what was logged last as an error
}

// blame decides what a failure means for the one series that it happened to.
func (l *indexerLoop) blame(r *Relationship, sc *scanned, err error) {
	v := judge(err)
	switch {
	case v.session:
	case v.alarm:
		l.stopped[r.Series] = err
	default:
		h := l.held[r.Series]
		if h == nil {
			h = &holding{back: backoff{draw: l.draw}}
			l.held[r.Series] = h
		}
		wait := h.back.next(v)
		h.err, h.until, h.apart, h.scan = err, time.Now().Add(wait), v.apart, sc
		l.pulse.holds(r.Series, h.until)
		level := slog.LevelInfo
		if err.Error() != h.told {
			h.told, level = err.Error(), slog.LevelError
		}
		l.log.Log(context.Background(), level, "series held", "indexer", l.name, "series", r.Series, "error", err, "retry_ms", wait.Milliseconds())
	}
}

// waits reports whether a series of the session is left alone for now. It waits no
// longer once its collection has lost pages: that may be what there was no room for.
func (l *indexerLoop) waits(r *Relationship, sc *scanned) bool {
	h := l.held[r.Series]
	return h != nil && time.Now().Before(h.until) && (sc == h.scan || sc.report.Deleted == 0)
}

// release ends the hold on a series that went well.
func (l *indexerLoop) release(series string) {
	delete(l.held, series)
	l.pulse.holds(series, time.Time{})
}

// room has series go on that wait for room at the indexer, when another one has
// made some.
func (l *indexerLoop) room(r Result) {
	if r.Deleted == 0 {
		return
	}
	for _, h := range l.held {
		if errors.Is(h.err, grants.ErrQuota) {
			h.until = time.Now()
		}
	}
}

// forget takes away what is known of series that are not in force any more.
func (l *indexerLoop) forget(inForce []*Relationship) {
	for series := range l.held {
		if !slices.ContainsFunc(inForce, func(r *Relationship) bool { return r.Series == series }) {
			l.release(series)
		}
	}
}

// aside reports whether err was put to the account of one series.
func (l *indexerLoop) aside(err error) bool {
	for _, h := range l.held {
		if h.err == err {
			return true
		}
	}
	return false
}

// sayAgain is how often a failure is logged that goes on and on: an indexer that is
// down for a day is two dozen lines (TestAnIndexerThatIsDownForADayIsCaughtUpWithin).
const sayAgain = time.Hour

// A complaint is what was logged last of attempts that failed.
type complaint struct {
	what  string
	since time.Time // the first such failure without a session between
	at    time.Time
	tries int // since then
}

// complain logs a failed attempt: as news, or as what goes on still, once in a while.
func (l *indexerLoop) complain(v verdict, err error, wait time.Duration) {
	what, now := endOf(err), time.Now()
	if !v.session {
		what = clean(err.Error())
	}
	level := slog.LevelInfo
	switch t := &l.told; {
	case t.what != what:
		if !v.session {
			level = slog.LevelError
		}
		if t.since.IsZero() {
			t.since = now
		}
		t.what, t.at = what, now
	case now.Sub(t.at) >= sayAgain:
		level = slog.LevelWarn
		t.at = now
	default:
		level = slog.LevelDebug
	}
	l.told.tries++
	l.log.Log(context.Background(), level, "retry", "indexer", l.name, "error", err, "retry_ms", wait.Milliseconds(),
		"attempts", l.told.tries, "seconds", int(now.Sub(l.told.since).Seconds()))
}
