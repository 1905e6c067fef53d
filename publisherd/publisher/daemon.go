package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// Times of the daemon.
const (
	defaultRescan = 5 * time.Minute
	drainTime     = 15 * time.Second // for batches in flight at the end
	pollConfig    = 30 * time.Second
)

// DaemonOptions are the settings of a Daemon.
type DaemonOptions struct {
	// Rescan is how often a collection is scanned when nothing seems to have
	// changed; 0 means 5 minutes.
	Rescan time.Duration
}

// A Daemon keeps every indexer up to date for as long as it runs. Each
// collection has a goroutine that scans, each indexer one that holds the
// session: one that is down or slow holds up no other
// (TestASlowIndexerHoldsUpNoOther).
type Daemon struct {
	p       *Publisher
	rescan  atomic.Int64 // a time.Duration, see DaemonOptions
	dial    func(ctx context.Context, rels []*Relationship) (conn, error)
	changed chan struct{}      // files of the configuration changed; at most one note waits
	lookups chan chan struct{} // asks for one look at the configuration; closed when it is done
	over    chan struct{}      // closed when Run begins to end
	told    string             // what was logged last of the grants; owned by look
	unkept  string             // and of renewals and alerts; owned by configure

	// loopsMu guards loops and scans; only the goroutine of look adds to them.
	loopsMu sync.Mutex
	loops   map[envelope.Name]*indexerLoop
	scans   map[string]*scanLoop
}

// NewDaemon makes the daemon of p. Run turns it, once.
func NewDaemon(p *Publisher, o DaemonOptions) *Daemon {
	d := &Daemon{
		p: p, dial: p.dialConn,
		changed: make(chan struct{}, 1), lookups: make(chan chan struct{}), over: make(chan struct{}),
		loops: make(map[envelope.Name]*indexerLoop), scans: make(map[string]*scanLoop),
	}
	d.SetRescan(o.Rescan)
	return d
}

// SetRescan sets, at any time, how often a collection is scanned; see DaemonOptions.
// Each collection follows behind its next scan.
func (d *Daemon) SetRescan(every time.Duration) {
	d.rescan.Store(int64(cmp.Or(every, defaultRescan)))
}

func (d *Daemon) scanEvery() time.Duration { return time.Duration(d.rescan.Load()) }

// Run works until ctx ends. Then it lets each batch in flight come to its
// receipt, for at most 15 seconds, closes the sessions, and returns nil. An
// error means that the store has failed.
func (d *Daemon) Run(ctx context.Context) error {
	d.p.pulse.beats.Store(true)
	group, stop := errgroup.WithContext(ctx)
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	finished := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		<-stop.Done()
		timer := time.NewTimer(drainTime)
		defer timer.Stop()
		select {
		case <-finished:
		case <-timer.C:
			cut(ErrStopping)
		}
	})
	group.Go(func() error {
		defer close(d.over)
		d.configure(stop, group, hard)
		return nil
	})
	err := group.Wait()
	close(finished)
	cutting.Wait()
	return err
}

// configure follows the files of the configuration until stop ends.
func (d *Daemon) configure(stop context.Context, group *errgroup.Group, hard context.Context) {
	w := newWatch(d.p.log)
	defer w.close()
	var watching sync.WaitGroup
	watching.Go(func() { w.run(stop, false, d.changed) })
	defer watching.Wait()
	defer d.p.followFiles(stop, func() { nudge(d.changed) })()
	var asked chan struct{}
	for {
		// The folder itself tells when one of the others appears.
		for _, name := range []string{".", "grants", "sources", "revocations"} {
			w.folder(filepath.Join(d.p.dir, name))
		}
		next, err := d.p.keepGrants(pollConfig)
		if err != nil && err.Error() != d.unkept {
			d.p.log.Error("renewals and alerts", "error", err)
		}
		d.unkept = textOf(err)
		again := time.NewTimer(next)
		d.look(stop, group, hard)
		if asked != nil {
			close(asked)
			asked = nil
		}
		select {
		case <-d.changed:
			d.each(func(l *indexerLoop) { nudge(l.anew) })
		case <-again.C:
		case asked = <-d.lookups:
		case <-stop.Done():
			again.Stop()
			return
		}
		again.Stop()
	}
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// look starts the loops that are missing, and wakes all of them.
func (d *Daemon) look(stop context.Context, group *errgroup.Group, hard context.Context) {
	byIndexer, names, err := d.p.concerned("")
	if err != nil {
		if text := err.Error(); text != d.told {
			d.told = text
			d.p.log.Error("grants", "error", err)
		}
		return
	}
	d.told = ""
	for _, rels := range byIndexer {
		for _, r := range rels {
			if d.scanOf(r.Collection) == nil {
				l := d.newScan(r.Collection)
				group.Go(func() error { return l.run(stop) })
			}
		}
	}
	for _, name := range names {
		if d.loopOf(name) == nil {
			l := d.newLoop(name)
			group.Go(func() error { return l.run(stop, hard) })
		}
	}
	d.loopsMu.Lock()
	scans := d.scans
	d.loopsMu.Unlock()
	for _, l := range scans { // nobody else adds to it
		l.configured()
	}
	d.wake()
}

// concerned reads which indexers there is something to do for, by name: those
// with a grant in force, and those that a revocation has to be brought to.
func (p *Publisher) concerned(only envelope.Name) (map[envelope.Name][]*Relationship, []envelope.Name, error) {
	byIndexer, err := p.inForce(only, func(*Relationship, error) {})
	if err != nil {
		return nil, nil, err
	}
	revoked, err := Revocations(p.dir)
	if err != nil {
		return nil, nil, err
	}
	names := sortedNames(byIndexer)
	for _, v := range revoked {
		if v.due(p.now()) && (only == "" || only == v.Indexer) {
			names = append(names, v.Indexer)
		}
	}
	slices.Sort(names)
	return byIndexer, slices.Compact(names), nil
}

func (d *Daemon) scanOf(collection string) *scanLoop {
	d.loopsMu.Lock()
	defer d.loopsMu.Unlock()
	return d.scans[collection]
}

func (d *Daemon) loopOf(indexer envelope.Name) *indexerLoop {
	d.loopsMu.Lock()
	defer d.loopsMu.Unlock()
	return d.loops[indexer]
}

// each calls f for the loop of each indexer; f must not block.
func (d *Daemon) each(f func(*indexerLoop)) {
	d.loopsMu.Lock()
	defer d.loopsMu.Unlock()
	for _, l := range d.loops {
		f(l)
	}
}

func (d *Daemon) wake() { d.each(func(l *indexerLoop) { nudge(l.wake) }) }

func (d *Daemon) newScan(name string) *scanLoop {
	l := &scanLoop{
		name: name, dir: d.p.dir, log: d.p.log, every: d.scanEvery, wake: d.wake, draw: rand.Int64N,
		requests: make(chan scanRequest), sourced: make(chan struct{}, 1),
	}
	l.scan = func(ctx context.Context, massDelete bool) (*scanned, error) {
		sc, err := d.p.scanOne(ctx, name, massDelete)
		if err == nil {
			d.p.logSkipped(name, sc, l.newest.Load())
		}
		return sc, err
	}
	l.source, _ = ReadSource(d.p.dir, name) // the first scan tells what is wrong with it
	d.loopsMu.Lock()
	defer d.loopsMu.Unlock()
	d.scans[name] = l
	return l
}

func (d *Daemon) newLoop(name envelope.Name) *indexerLoop {
	l := newIndexerLoop(name, d.p.log)
	l.pulse = d.p.pulse.peer(name)
	l.dial = d.dial
	l.series = func() ([]*Relationship, error) {
		byIndexer, err := d.p.inForce(name, func(*Relationship, error) {})
		return byIndexer[name], err
	}
	l.deliver = func(ctx context.Context) (int, error) { return d.p.DeliverPending(ctx, name) }
	l.newest = func(collection string) *scanned {
		if s := d.scanOf(collection); s != nil {
			return s.newest.Load()
		}
		return nil
	}
	d.loopsMu.Lock()
	defer d.loopsMu.Unlock()
	d.loops[name] = l
	return l
}

// dialConn is dial; no session comes with an error.
func (p *Publisher) dialConn(ctx context.Context, rels []*Relationship) (conn, error) {
	s, err := p.dial(ctx, rels)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newIndexerLoop makes a loop that has still to be told what it works on.
func newIndexerLoop(name envelope.Name, log *slog.Logger) *indexerLoop {
	return &indexerLoop{
		name: name, log: log, draw: rand.Int64N, back: backoff{draw: rand.Int64N}, pulse: new(peerPulse),
		wake: make(chan struct{}, 1), anew: make(chan struct{}, 1),
		stopped: make(map[string]error), held: make(map[string]*holding),
	}
}

// idle waits until the indexer speaks unasked, or ctx ends.
func (s *session) idle(ctx context.Context) error { return s.p.judged(s.rels, s.listen(ctx)) }

func (s *session) listen(ctx context.Context) error {
	if len(s.asking.requests) > 0 { // one came while the others were pushed
		return pause(ctx, askedPause)
	}
	f, err := s.link.Recv(ctx)
	if err != nil {
		return s.explain(ctx, err)
	}
	if x := f.GetFault(); x != nil {
		return endedBy(x)
	}
	if x := f.GetDrain(); x != nil {
		return &Draining{time.Duration(x.ComeBackMs) * time.Millisecond}
	}
	if s.byItself(f) {
		return s.asking.violated // the next push hears of it
	}
	return s.violation("a frame that nobody asked for")
}

// Push has the collections scanned and every indexer, or the one that is
// named, brought up to date, in the sessions that are open or at once in new
// ones, and returns what Publisher.Push returns.
func (d *Daemon) Push(ctx context.Context, o PushOptions) ([]Result, error) {
	byIndexer, names, err := d.p.concerned(o.Indexer)
	if err == nil && len(names) == 0 {
		err = ErrNothingToPush
	}
	if err != nil {
		return nil, err
	}
	if err := d.lookup(ctx); err != nil {
		return nil, err
	}
	if err := d.scanNow(ctx, byIndexer, o.AllowMassDelete); err != nil {
		return nil, err
	}
	rounds := make([]*round, len(names))
	for i, name := range names {
		l := d.loopOf(name)
		if l == nil {
			return nil, fmt.Errorf("%s: %w", name, ErrNothingToPush)
		}
		rounds[i] = l.ask()
	}
	var all []Result
	var errs []error
	for _, r := range rounds {
		select {
		case <-r.done:
			all, errs = append(all, r.results...), append(errs, r.err)
		case <-ctx.Done():
			return all, context.Cause(ctx)
		}
	}
	return all, errors.Join(errs...)
}

// lookup has the configuration looked at.
func (d *Daemon) lookup(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case d.lookups <- done:
		<-done
		return nil
	case <-d.over:
		return ErrStopping
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// scanNow scans each collection once, side by side.
func (d *Daemon) scanNow(ctx context.Context, byIndexer map[envelope.Name][]*Relationship, massDelete bool) error {
	wanted := make(map[string]bool)
	var group errgroup.Group
	for _, rels := range byIndexer {
		for _, r := range rels {
			l := d.scanOf(r.Collection)
			if wanted[r.Collection] || l == nil {
				continue
			}
			wanted[r.Collection] = true
			group.Go(func() error { return l.now(ctx, massDelete, d.over) })
		}
	}
	return group.Wait()
}
