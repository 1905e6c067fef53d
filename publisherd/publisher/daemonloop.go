package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A conn is what a loop needs of a session.
type conn interface {
	// bring pushes one series; see session.bring.
	bring(ctx context.Context, stop <-chan struct{}, r *Relationship, sc *scanned) (Result, error)
	// answerOnly does no more for one series than to answer what the indexer asked for.
	answerOnly(ctx context.Context, stop <-chan struct{}, r *Relationship, sc *scanned) (Result, error)
	// idle waits for what the indexer says by itself, and returns it as an
	// error; or the cause of ctx's end.
	idle(ctx context.Context) error
	// outdated is closed when another session is to take the place of this one.
	outdated() <-chan struct{}
	close()
}

// An indexerLoop keeps one indexer up to date: it dials, pushes what there is,
// keeps the session open, and begins again when that breaks.
type indexerLoop struct {
	name   envelope.Name
	log    *slog.Logger
	dial   func(ctx context.Context, rels []*Relationship) (conn, error)
	series func() ([]*Relationship, error) // those in force now, by name
	// deliver brings revocations that are not settled to the indexer, and
	// counts them.
	deliver func(ctx context.Context) (int, error)
	newest  func(collection string) *scanned
	back    backoff
	pulse   *peerPulse
	draw    func(n int64) int64
	wake    chan struct{} // look again; at most one note waits
	anew    chan struct{} // the configuration changed: what failed may work now

	// roundsMu guards rounds and closed.
	roundsMu sync.Mutex
	rounds   []*round
	closed   bool
	// lingering are rounds that wait for what the indexer still asks for.
	lingering []*round

	// The rest is owned by run.
	lost    error               // not nil: the indexer is given up until the restart
	stopped map[string]error    // series that are given up until the restart
	held    map[string]*holding // series that have to wait
	last    time.Time           // the last attempt
	told    complaint           // what was logged last of attempts that failed
	waiting int                 // revocations that were not settled when last looked at
	late    string              // what was logged last as an error of a revocation
	partial map[string]Result   // of the rounds that go on in the next session, by series
}

// A round is one wish that every series be pushed now.
type round struct {
	results []Result
	err     error
	done    chan struct{}
	until   time.Time // when it lingers no more; zero while it does not
}

func (l *indexerLoop) ask() *round {
	r := &round{done: make(chan struct{})}
	l.roundsMu.Lock()
	defer l.roundsMu.Unlock()
	if l.closed {
		r.err = ErrStopping
		close(r.done)
		return r
	}
	l.rounds = append(l.rounds, r)
	nudge(l.wake)
	return r
}

func (l *indexerLoop) asked() bool {
	l.roundsMu.Lock()
	defer l.roundsMu.Unlock()
	return len(l.rounds) > 0
}

// take empties the list of rounds; they have to be answered.
func (l *indexerLoop) take() []*round {
	l.roundsMu.Lock()
	defer l.roundsMu.Unlock()
	all := append(l.lingering, l.rounds...)
	l.rounds, l.lingering = nil, nil
	return all
}

func answer(all []*round, results []Result, err error) {
	for _, r := range all {
		r.results, r.err = results, err
		close(r.done)
	}
}

// errChanged ends a session whose set of series is not the right one any more.
var errChanged = errors.New("the series have changed")

// run works until stop ends, and finishes the batch that is in flight then,
// unless hard ends. Only a failed store is an error.
func (l *indexerLoop) run(stop, hard context.Context) error {
	defer func() {
		l.roundsMu.Lock()
		l.closed = true
		l.roundsMu.Unlock()
		answer(l.take(), nil, ErrStopping)
	}()
	for stop.Err() == nil {
		l.forgive()
		l.last = time.Now()
		// Withdrawn consent goes before anything else.
		err := l.revoke(stop)
		var rels []*Relationship
		if err == nil {
			rels, err = l.active()
		}
		if err == nil && len(rels) == 0 {
			answer(l.take(), nil, l.why())
			due := l.due()
			select {
			case <-l.wake:
			case <-due.C:
			case <-stop.Done():
			}
			due.Stop()
			continue
		}
		if err == nil {
			err = l.attempt(stop, hard, rels)
			l.pulse.closed(time.Now(), err)
		}
		if errors.Is(err, durable.ErrFailed) {
			return err
		}
		if stop.Err() != nil {
			return nil
		}
		if !replaced(err) {
			answer(l.take(), nil, err)
		}
		l.wait(stop, l.after(err))
	}
	return nil
}

// forgive begins anew, but for what was given up, if the configuration has
// changed. It reports whether it has.
func (l *indexerLoop) forgive() bool {
	select {
	case <-l.anew:
		for series := range l.held {
			l.release(series)
		}
		l.back.reset()
		return true
	default:
		return false
	}
}

// revoke delivers revocations. An error is one of the connection; what else
// goes wrong is logged, and tried again later.
func (l *indexerLoop) revoke(stop context.Context) error {
	var err error
	l.waiting, err = l.deliver(stop)
	if err == nil || judge(err).session {
		return err
	}
	level := slog.LevelInfo
	if text := err.Error(); text != l.late {
		l.late, level = text, slog.LevelError
	}
	l.log.Log(context.Background(), level, "revocation", "indexer", l.name, "error", err)
	return nil
}

// active lists the series to announce. One that is held is among them when a
// round was asked for.
func (l *indexerLoop) active() ([]*Relationship, error) {
	all, err := l.series()
	if err != nil || l.lost != nil {
		return nil, err
	}
	asked, now := l.asked(), time.Now()
	l.forget(all)
	return slices.DeleteFunc(all, func(r *Relationship) bool {
		h := l.held[r.Series]
		return l.stopped[r.Series] != nil || h != nil && !h.apart && !asked && now.Before(h.until)
	}), nil
}

// why is the answer to a round when there is nothing to announce.
func (l *indexerLoop) why() error {
	errs := []error{l.lost}
	for _, err := range l.stopped {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || l.waiting > 0 {
		return err
	}
	return ErrNothingToPush
}

// attempt runs one session.
func (l *indexerLoop) attempt(stop, hard context.Context, rels []*Relationship) error {
	ctx, cancel := context.WithCancelCause(hard)
	defer cancel(nil)
	opening := context.AfterFunc(stop, func() { cancel(ErrStopping) })
	c, err := l.dial(ctx, rels)
	if s, ok := c.(*session); ok {
		l.pulse.opened(time.Now(), s.wire)
	}
	if !opening() && err == nil {
		c.close()
		return ErrStopping
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", l.name, err)
		if judge(err).alarm {
			l.lost = err
		}
		return err
	}
	defer c.close()
	l.log.Info("session open", "indexer", l.name, "series", len(rels))
	defer func(since time.Time) {
		if time.Since(since) >= backoffStable {
			l.back.reset()
		}
	}(time.Now())
	l.told = complaint{}
	quit, leave := context.WithCancelCause(stop)
	var leaving sync.WaitGroup
	leaving.Go(func() {
		select {
		case <-c.outdated():
			leave(errAnew)
		case <-quit.Done():
		}
	})
	defer leaving.Wait()
	defer leave(nil)
	for {
		if err := l.bring(ctx, quit, c, rels); err != nil {
			if errors.Is(err, ErrSplitView) {
				l.lost = err
			}
			return err
		}
		if err := l.idle(quit, c, rels); err != nil {
			return err
		}
	}
}

// bring pushes all series, and answers the rounds that were asked for before.
func (l *indexerLoop) bring(ctx, stop context.Context, c conn, rels []*Relationship) error {
	rounds := l.take()
	var results []Result
	var apart []error // of series that wait while the session goes on
	for _, r := range rels {
		sc := l.newest(r.Collection)
		if sc == nil {
			continue // the first scan is under way
		}
		push, waits := c.bring, len(rounds) == 0 && l.waits(r, sc)
		if waits {
			push = c.answerOnly
		}
		result, err := Result{}, stop.Err()
		if err == nil {
			result, err = push(ctx, stop.Done(), r, sc)
			l.report(result)
			if before, ok := l.partial[r.Series]; ok {
				result = before.plus(result)
			}
			results = append(results, result)
		}
		err = ended(stop, err)
		if errors.Is(err, errAnew) && len(rounds) > 0 {
			l.giveBack(rounds, rels, results)
			return err
		}
		if err != nil && judge(err).apart {
			l.blame(r, sc, err)
			apart = append(apart, err)
			continue
		}
		if err != nil {
			if !errors.Is(err, errAnew) {
				l.blame(r, sc, err)
			}
			l.answerAll(rounds, results, err)
			return err
		}
		if !waits {
			l.release(r.Series)
		}
		l.room(result)
	}
	if apart == nil && l.linger(rounds, rels, results) {
		return nil
	}
	l.answerAll(rounds, results, errors.Join(apart...))
	return nil
}

func (l *indexerLoop) report(r Result) {
	if len(r.Receipts) == 0 && len(r.Refused) == 0 {
		return
	}
	l.log.Info("pushed", "indexer", r.Indexer, "collection", r.Collection, "revision", r.Revision, "sent", r.Sent,
		"deleted", r.Deleted, "refused", r.RefusedCount, "tree_size", r.TreeSize, "wire_bytes_out", r.WireOut, "seconds", r.Seconds)
}

// idle waits until there is a reason to push again, or to end the session.
func (l *indexerLoop) idle(stop context.Context, c conn, rels []*Relationship) error {
	woken := errors.New("woken")
	ctx, cancel := context.WithCancelCause(stop)
	var waking sync.WaitGroup
	due := l.due()
	defer due.Stop()
	waking.Go(func() {
		select {
		case <-l.wake:
			cancel(woken)
		case <-due.C:
			cancel(woken)
		case <-ctx.Done():
		}
	})
	err := c.idle(ctx)
	cancel(nil)
	waking.Wait()
	if !errors.Is(err, woken) {
		if judge(err).alarm {
			l.lost = err
		}
		return err
	}
	l.forgive()
	if err := l.revoke(stop); err != nil {
		return err
	}
	if now, err := l.active(); err == nil && !sameSeries(now, rels) {
		return errChanged
	}
	return nil
}

func sameSeries(a, b []*Relationship) bool {
	return slices.EqualFunc(a, b, func(x, y *Relationship) bool {
		return x.Series == y.Series && x.Pair.Grant.Object.ID == y.Pair.Grant.Object.ID && x.listed() == y.listed()
	})
}

// after logs the end of an attempt and says how long to wait for the next.
func (l *indexerLoop) after(err error) time.Duration {
	if replaced(err) {
		l.log.Info("session ended", "indexer", l.name, "reason", err)
		return attemptGap
	}
	v := judge(err)
	if !v.session && !v.alarm && l.aside(err) {
		return attemptGap // the next session is without that series
	}
	wait := l.back.next(v)
	if v.alarm {
		l.log.Error("alarm: stopped until the restart", "indexer", l.name, "error", err)
		return attemptGap
	}
	l.complain(v, err, wait)
	return wait
}

// wait ends after d, or at a round that is asked for, or when grants or
// configuration have changed; but not before attemptGap has passed.
func (l *indexerLoop) wait(stop context.Context, d time.Duration) {
	before, _ := l.series()
	l.pulse.tries(time.Now().Add(d))
	timer := time.NewTimer(d)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-timer.C:
			waiting = false
		case <-l.wake:
			now, err := l.series()
			waiting = !l.forgive() && !l.asked() && (err != nil || sameSeries(now, before))
		case <-stop.Done():
			return
		}
	}
	gap := time.NewTimer(attemptGap - time.Since(l.last))
	defer gap.Stop()
	select {
	case <-gap.C:
	case <-stop.Done():
	}
}
