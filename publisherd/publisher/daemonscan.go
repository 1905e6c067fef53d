package publisher

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A scanLoop keeps one collection's journal up to its source.
type scanLoop struct {
	name  string
	dir   string // of the publisher
	log   *slog.Logger
	every func() time.Duration
	scan  func(ctx context.Context, massDelete bool) (*scanned, error)
	draw  func(n int64) int64 // uniform in [0, n)
	wake  func()              // called after each scan that may have changed the journal

	requests chan scanRequest
	sourced  chan struct{}           // the source's configuration changed
	newest   atomic.Pointer[scanned] // nil before the first scan

	source Source // owned by the goroutine that calls configured
}

// A scanRequest asks for a scan that begins after it.
type scanRequest struct {
	massDelete bool
	done       chan error // takes one
}

// configured looks at the source's file and asks for a scan if it changed.
func (l *scanLoop) configured() {
	s, err := ReadSource(l.dir, l.name)
	if err != nil || sameSource(s, l.source) {
		return
	}
	l.source = s
	nudge(l.sourced)
}

// run scans at once, when files have changed, on request and by the clock,
// until ctx ends. Only a failed store is an error.
func (l *scanLoop) run(ctx context.Context) error {
	w := newWatch(l.log)
	defer w.close()
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	watching.Go(func() { w.run(ctx, true, changed) })
	defer watching.Wait()
	var q scanRequest
	for {
		// Watched first, so that what changes during the scan is noticed.
		every := l.every()
		if s, err := ReadSource(l.dir, l.name); err == nil {
			deep, alone := s.watched(l.dir)
			for _, folder := range deep {
				w.tree(folder)
			}
			for _, folder := range alone {
				w.folder(folder)
			}
			every = l.pause(s)
		}
		err := l.once(ctx, q)
		if errors.Is(err, durable.ErrFailed) {
			return err
		}
		timer := time.NewTimer(every)
		q = scanRequest{}
		select {
		case <-changed:
		case <-l.sourced:
		case <-timer.C:
		case q = <-l.requests:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// pause is how long to wait for the next scan: that of a server a tenth more or
// less than is configured, so that many publishers do not ask it at once.
func (l *scanLoop) pause(s Source) time.Duration {
	every, err := s.interval()
	if !s.isRemote() || err != nil {
		return l.every()
	}
	tenth := int64(every / 10)
	return every + time.Duration(l.draw(2*tenth+1)-tenth)
}

// folder is where the source's files are; empty if they are on a server.
func (s Source) folder(dir string) string {
	path := s.path(dir)
	if s.isRemote() {
		return ""
	}
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return filepath.Dir(path)
	}
	return path
}

// once scans, shows the loops of the indexers what there is, and answers q.
func (l *scanLoop) once(ctx context.Context, q scanRequest) error {
	sc, err := l.scan(ctx, q.massDelete)
	if ctx.Err() != nil {
		err = ErrStopping
	} else if err != nil {
		l.log.Error("scan", "collection", l.name, "error", err)
	}
	// What the guard against deletions holds back does not hold up the rest.
	if err == nil || errors.Is(err, ErrMassDelete) {
		l.newest.Store(sc)
		l.wake()
	}
	if q.done != nil {
		q.done <- err
	}
	return err
}

// now asks for a scan and waits for its end. over is closed when the loop has
// ended.
func (l *scanLoop) now(ctx context.Context, massDelete bool, over <-chan struct{}) error {
	q := scanRequest{massDelete, make(chan error, 1)}
	select {
	case l.requests <- q:
	case <-over:
		return ErrStopping
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
