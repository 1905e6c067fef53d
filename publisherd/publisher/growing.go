package publisher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A scanned collection is one with what its last scan found.
type scanned struct {
	col     *collection
	report  ScanReport // see found
	growing *growing   // nil unless the scan may still be under way
}

// growing is a first scan under way, of which what is in the journal can be pushed. That
// is for a journal that was empty when the scan began, so that nothing can be gone, and
// for indexers that hold what the receipts say: who has to be compared with the journal
// waits for the end, since what has not been read yet would look like deleted
// (TestNothingIsDeletedBecauseItIsNotReadYet).
type growing struct {
	over   chan struct{} // closed at the end of the scan
	report ScanReport    // set before
	err    error         // likewise

	mu    sync.Mutex // guards what follows
	steps int        // how often pages have come, and the end as one more
	step  chan struct{}
}

// stepped says that pages have come.
func (g *growing) stepped() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.steps++
	close(g.step)
	g.step = make(chan struct{})
}

func (g *growing) ended(report ScanReport, err error) {
	g.report, g.err = report, err
	close(g.over)
	g.stepped()
}

// state gives how many steps there were, and what is closed with the next.
func (g *growing) state() (steps int, next <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.steps, g.step
}

// grows reports whether the scan is still under way.
func (sc *scanned) grows() bool {
	if sc.growing == nil {
		return false
	}
	select {
	case <-sc.growing.over:
		return false
	default:
		return true
	}
}

// found is what the scan has found; nothing while it is under way.
func (sc *scanned) found() ScanReport {
	switch {
	case sc.growing == nil:
		return sc.report
	case sc.grows():
		return ScanReport{}
	}
	return sc.growing.report
}

// end waits for the end of the scan, and gives its error.
func (sc *scanned) end() error {
	if sc.growing == nil {
		return nil
	}
	<-sc.growing.over
	return sc.growing.err
}

// scanBeside is scanOne that may return when the first pages of a first scan are in the
// journal, and leaves the scan going on until end returns.
func (p *Publisher) scanBeside(ctx context.Context, name string, massDelete bool) (*scanned, error) {
	c, err := p.collection(name)
	if err != nil {
		return nil, err
	}
	g := &growing{over: make(chan struct{}), step: make(chan struct{})}
	sc := &scanned{col: c, growing: g}
	_, first := g.state()
	go func() {
		report, err := p.scanned(ctx, c, massDelete, g.stepped)
		if err == nil {
			p.logSkipped(name, &scanned{report: report}, nil)
		}
		g.ended(report, err)
	}()
	if <-first; sc.grows() {
		return sc, nil
	}
	return sc, sc.end()
}

// bringGrowing is bring, again and again while the scan goes on, and once behind it.
func (s *session) bringGrowing(ctx context.Context, stop <-chan struct{}, r *Relationship, sc *scanned) (Result, error) {
	if sc.growing == nil {
		return s.bring(ctx, stop, r, sc)
	}
	var all Result
	for begun := false; ; begun = true {
		seen, next := sc.growing.state() // before what is pushed is looked at
		over := !sc.grows()
		result, err := s.bring(ctx, stop, r, sc)
		if begun {
			result = all.plus(result)
		}
		if over || err != nil {
			return result, err
		}
		all = result
		if now, _ := sc.growing.state(); now == seen {
			err = s.idleUntil(ctx, r.Series, next)
		}
		if err != nil {
			return all, fmt.Errorf("%s, collection %s: %w", r.Indexer, r.Collection, s.p.judged([]*Relationship{r}, err))
		}
	}
}

// idleUntil waits until next is closed, or the indexer asks for something of the series;
// what it asks of another waits for that one's turn. What else it says ends the wait with
// an error, if it is the end of the session.
func (s *session) idleUntil(ctx context.Context, series string, next <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var waking sync.WaitGroup
	waking.Go(func() {
		select {
		case <-next:
			cancel(errQuiet)
		case <-ctx.Done():
		}
	})
	defer waking.Wait()
	defer cancel(nil)
	for s.asking.requests[series] == nil {
		if err := s.listen(ctx); errors.Is(err, errQuiet) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// A firstPush is what a session keeps from one push of a growing collection to the next.
type firstPush struct {
	series string
	seen   uint64     // the journal's revision from which it began
	filter heldFilter // see heldFilter
	room   uint64     // pages that filter still has room for
}

func (f *firstPush) begin(series string, seen uint64) {
	if f.series != series {
		*f = firstPush{series: series, seen: seen}
	}
}

// from is the revision from which the push of a series began, of which a part begins at
// seen.
func (f *firstPush) from(series string, seen uint64) uint64 {
	if f.series != series {
		return seen
	}
	return min(f.seen, seen)
}

// held is newHeldFilter, or the one of the part before: to fill it anew for each part
// would read the state as often. It is made for twice as many pages as there are, while
// there will be more.
func (f *firstPush) held(r durable.Reader, a agreement, more uint64, early bool) (heldFilter, error) {
	if f.series != a.rel.Series {
		return newHeldFilter(r, a.tree(), more)
	}
	if f.filter == nil || f.room < more {
		f.filter, f.room = nil, more
		if early {
			_, held, err := a.tree().Root(r)
			if err != nil {
				return nil, err
			}
			f.room = held + 2*more
		}
		var err error
		if f.filter, err = newHeldFilter(r, a.tree(), f.room); err != nil {
			return nil, err
		}
	}
	f.room -= more
	return f.filter, nil
}
