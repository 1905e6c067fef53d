package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrStalled: the disk has not answered a write or a sync.
var ErrStalled = errors.New("the disk does not answer")

// lastingStall is how many times Options.Stall a write may take before the
// store gives up: nobody knows what became of it, as of one that failed.
const lastingStall = 4

// stalls watches the writes and syncs that are under way. One that takes longer
// than limit is reported, and counted; after lastingStall times that, or after
// limit once the program is closing, the store fails, so that nobody waits for
// a dead disk for ever. Reads are not watched.
type stalls struct {
	limit   time.Duration
	log     *slog.Logger
	fail    func(error)
	closing atomic.Bool
	count   atomic.Uint64
	now     atomic.Pointer[error] // what stalls; nil while nothing does

	underwayMu sync.Mutex
	underway   map[*operation]struct{}
}

// An operation is one that the disk has not answered yet.
type operation struct {
	op, name string
	since    time.Time
	reported bool
}

func newStalls(fail func(error)) *stalls {
	return &stalls{fail: fail, underway: make(map[*operation]struct{})}
}

// begin notes an operation; end forgets it.
func (s *stalls) begin(op, name string) *operation {
	o := &operation{op: op, name: name, since: time.Now()}
	s.underwayMu.Lock()
	defer s.underwayMu.Unlock()
	s.underway[o] = struct{}{}
	return o
}

func (s *stalls) end(o *operation) {
	s.underwayMu.Lock()
	defer s.underwayMu.Unlock()
	delete(s.underway, o)
}

// err is nil, or ErrStalled with what has stalled.
func (s *stalls) err() error {
	if p := s.now.Load(); p != nil {
		return *p
	}
	return nil
}

// watch looks until stop is closed or the store has failed.
func (s *stalls) watch(stop, failed <-chan struct{}) {
	tick := time.NewTicker(max(time.Millisecond, min(time.Second, s.limit/4)))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-failed:
			return
		case now := <-tick.C:
			s.look(now)
		}
	}
}

// look finds the operation that has been under way for the longest time.
func (s *stalls) look(now time.Time) {
	s.underwayMu.Lock()
	defer s.underwayMu.Unlock()
	var oldest *operation
	for o := range s.underway {
		if oldest == nil || o.since.Before(oldest.since) {
			oldest = o
		}
	}
	if oldest == nil || now.Sub(oldest.since) < s.limit {
		if s.now.Swap(nil) != nil {
			s.log.Info("the disk answers again")
		}
		return
	}
	age := now.Sub(oldest.since)
	err := fmt.Errorf("%w: %s %s has taken %s", ErrStalled, oldest.op, oldest.name, age.Round(time.Millisecond))
	s.now.Store(&err)
	if !oldest.reported {
		oldest.reported = true
		s.count.Add(1)
		s.log.Error("disk", "error", err)
	}
	if age >= lastingStall*s.limit || s.closing.Load() {
		s.fail(err)
	}
}
