package publisher

import (
	"context"
	"errors"
	"log/slog"
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
	every time.Duration
	scan  func(ctx context.Context, massDelete bool) (*scanned, error)
	wake  func() // called after each scan that may have changed the journal

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

func sameSource(a, b Source) bool {
	same := func(x, y []string) bool {
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if x[i] != y[i] {
				return false
			}
		}
		return true
	}
	return a.Name == b.Name && a.Kind == b.Kind && a.Location == b.Location && a.BaseURL == b.BaseURL &&
		a.StripExt == b.StripExt && same(a.SkipClasses, b.SkipClasses) && same(a.SkipIDs, b.SkipIDs)
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
		if s, err := ReadSource(l.dir, l.name); err == nil {
			w.tree(s.folder(l.dir))
		}
		err := l.once(ctx, q)
		if errors.Is(err, durable.ErrFailed) {
			return err
		}
		timer := time.NewTimer(l.every)
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

// folder is where the source's files are.
func (s Source) folder(dir string) string {
	if filepath.IsAbs(s.Location) {
		return s.Location
	}
	return filepath.Join(dir, s.Location)
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
