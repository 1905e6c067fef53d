package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// maxLogs is how many logs one process follows.
const maxLogs = 256

// longestPause is the longest wait for a log that does not answer, unless every
// round waits longer.
const longestPause = 15 * time.Minute

// Options of a Set. Dir, Logger, Now and Rand must be given.
type Options struct {
	Dir    string // where the state is kept
	Logger *slog.Logger
	Now    func() time.Time
	Rand   func(n int64) int64 // 0 <= result < n; any goroutine calls it

	// Every is the time between two rounds over one log. 0 means a minute.
	Every time.Duration
	// Stale is how old a checkpoint, a quorum of witnesses, or the last round
	// that found all well may be. 0 means two hours.
	Stale time.Duration
	// Limit bounds a round, which goes on in the next one. 0 means an hour.
	Limit time.Duration
	// Confirm is how often a log is asked for what would be an alert without two
	// signatures that show it, ConfirmAfter apart. 0 means 3, and 2 s.
	Confirm      int
	ConfirmAfter time.Duration
	// Remote is how logs are asked.
	Remote remote.Options

	disk disk // nil means the operating system's
}

func (o Options) withDefaults() Options {
	if o.Every == 0 {
		o.Every = time.Minute
	}
	if o.Stale == 0 {
		o.Stale = 2 * time.Hour
	}
	if o.Limit == 0 {
		o.Limit = time.Hour
	}
	if o.Confirm == 0 {
		o.Confirm = 3
	}
	if o.ConfirmAfter == 0 {
		o.ConfirmAfter = 2 * time.Second
	}
	if o.disk == nil {
		o.disk = system{}
	}
	return o
}

// A Set is the logs that one process follows. It must be closed.
type Set struct {
	o         Options
	followers []*follower
	lock      io.Closer
}

// Open locks the folder, reads what is remembered of each log, and refuses what
// cannot be used. Errors: ErrLocked, ErrState.
func Open(o Options, logs []Log) (_ *Set, err error) {
	if len(logs) == 0 || len(logs) > maxLogs {
		return nil, fmt.Errorf("%d logs, want 1 to %d", len(logs), maxLogs)
	}
	s := &Set{o: o.withDefaults()}
	if s.lock, err = lock(o.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := tidy(s.o.disk, o.Dir); err != nil {
		return nil, err
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	taken := make(map[string]bool)
	for _, log := range logs {
		f, err := newFollower(&s.o, log, slots)
		if err != nil {
			return nil, err
		}
		s.followers = append(s.followers, f)
		if taken[f.origin()] {
			return nil, fmt.Errorf("the log %s stands there twice", f.origin())
		}
		taken[f.origin()] = true
		if err := f.load(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close gives up connections and lock.
func (s *Set) Close() error {
	for _, f := range s.followers {
		f.http.Close()
	}
	return s.lock.Close()
}

// Once makes one round over each log, all at the same time, and returns the
// reports in the order of the logs.
func (s *Set) Once(ctx context.Context) []*Report {
	reports := make([]*Report, len(s.followers))
	var all sync.WaitGroup
	for i, f := range s.followers {
		all.Go(func() { reports[i] = f.round(ctx) })
	}
	all.Wait()
	return reports
}

// Run makes rounds until ctx ends, and calls report after each; it may be called
// by several goroutines at a time.
func (s *Set) Run(ctx context.Context, report func(*Report)) {
	var all sync.WaitGroup
	for _, f := range s.followers {
		all.Go(func() { s.follow(ctx, f, report) })
	}
	all.Wait()
}

// follow makes rounds over one log.
func (s *Set) follow(ctx context.Context, f *follower, report func(*Report)) {
	failures := 0
	for ctx.Err() == nil {
		r := f.round(ctx)
		if ctx.Err() != nil {
			return
		}
		report(r)
		failures++
		if r.Reason != Unavailable {
			failures = 0
		}
		if pause(ctx, s.wait(failures)) != nil {
			return
		}
	}
}

// wait is the time until the next round: Every, and after failures in a row a
// random time between that and one that doubles, up to longestPause.
func (s *Set) wait(failures int) time.Duration {
	most := s.o.Every
	for range failures {
		if most *= 2; most >= longestPause {
			most = max(longestPause, s.o.Every)
			break
		}
	}
	return s.o.Every + time.Duration(s.o.Rand(int64(most-s.o.Every)+1))
}

// Figures are those of each log, in their order.
func (s *Set) Figures() []Figures {
	all := make([]Figures, len(s.followers))
	for i, f := range s.followers {
		all[i] = f.copyFigures()
	}
	return all
}
