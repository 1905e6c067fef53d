package translog

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// run is the writer. It ends when Close was called or when a commit failed: the
// state of the store is then unknown, and only a new Open may go on from it.
func (l *Log) run() {
	defer close(l.done)
	defer func() { l.abandon(cmp.Or(l.err, ErrClosed)) }()
	tick := time.NewTicker(l.cfg.Publish)
	defer tick.Stop()
	for preferred, over := false, false; !over; {
		var r *request
		var err error
		if !preferred { // of two turns one is everybody's
			r = l.urgentFirst()
		}
		if preferred = r != nil; preferred {
			err = l.commitGroup(r)
		} else {
			over, err = l.turn(tick.C)
		}
		if err != nil {
			if also := l.settle(); !errors.Is(err, also) { // for it may be why this one ended
				err = errors.Join(err, also)
			}
			l.setErr(err)
			return
		}
	}
}

// turn waits for the next thing to do, and does it. over means that it was to
// end.
func (l *Log) turn(tick <-chan time.Time) (over bool, err error) {
	var arrived chan struct{} // nil, which nobody closes, if nothing is on its way
	if len(l.way) > 0 {
		arrived = l.way[0].arrived
	}
	select {
	case <-l.stop:
		return true, l.settled(l.publishLast)
	case r := <-l.urgent:
		return false, l.commitGroup(l.received(r))
	case r := <-l.queue:
		return false, l.commitGroup(l.received(r))
	case <-arrived:
		return false, l.room(mostOnTheirWay)
	case <-tick:
		return false, l.settled(l.publishNow)
	case r := <-l.cosigned:
		return false, l.settled(func() error { return l.land(r) })
	case answer := <-l.freeze:
		err := l.settle()
		l.abandon(ErrReadOnly)
		close(answer)
		if err == nil {
			l.frozen()
		}
		return true, err
	case answer := <-l.publish:
		l.waiters = append(l.waiters, waiter{l.edge.size, answer})
		return false, l.settled(l.publishNow)
	}
}

// fatal is err unless it only says that the clock is behind, or that witnesses
// are missing: then nothing was done, and it may be set right.
func fatal(err error) error {
	if errors.Is(err, ErrClock) || errors.Is(err, ErrHeld) {
		return nil
	}
	return err
}

func (l *Log) setErr(err error) {
	if err != nil {
		l.err = fmt.Errorf("%w: %w", ErrFailed, err)
		l.counters.note(l.err, l.cfg.Now())
		l.cfg.Logger.Error("the log has failed", "origin", l.cfg.Origin, "size", l.edge.size, "error", err)
	}
}

// clock returns the issued_at of what is signed now: it never goes back.
func (l *Log) clock() (time.Time, error) {
	now := l.cfg.Now().UTC().Truncate(time.Second)
	if now.Before(l.highest.Add(-envelope.Skew)) {
		l.outcomes.clock.Add(1)
		return time.Time{}, fmt.Errorf("%w: it shows %s, and %s was seen before. Set the clock right",
			ErrClock, envelope.At(now), envelope.At(l.highest))
	}
	if now.After(l.highest) {
		l.highest = now
	}
	if now.Before(l.last) {
		return l.last, nil
	}
	return now, nil
}

// A group is the proposals of one commit. It belongs to run until it is on its way, and
// then to commit.
type group struct {
	l       *Log
	now     time.Time
	began   time.Time // by the machine's clock
	before  *group    // whose rows it sees, nil if none is on its way; until it has arrived
	batch   *durable.Batch
	last    *durable.Batch // of the last member, nil if it asked for none
	size    uint64         // of the tree with the entries so far
	signs   bool           // entries are to be signed
	members []*member
	places  []place // their entries
	hashed  int     // how many of these are already
	mem     *memory // of members and places

	next    *edge             // with its entries
	grown   bool              // there are any
	highest time.Time         // for the mark
	head    signed            // the checkpoint of its size
	mark    []byte            // to be written; nil if the tree has not grown
	rows    *durable.Snapshot // of the store, to be released

	begun   chan struct{} // closed when the next may read its rows, or it has failed; nil until it is on its way
	unbegun bool          // it has; set before
	arrived chan struct{} // closed when it is released, or has failed; nil until it is on its way
	err     error         // why it has; set before
}

type member struct {
	r         *request
	tx        Tx
	committed Committed
	object    [1]*envelope.Object // where its Entries begin: most proposals have one
}

// commitGroup commits first and what waits behind it. An error is fatal, and
// the answer to every member.
func (l *Log) commitGroup(first *request) error {
	now, err := l.clock()
	if err != nil {
		first.answer(err)
		return nil
	}
	g := &group{l: l, now: now, began: time.Now(), batch: l.store.NewBatch(), size: l.edge.size, mem: memories.Get().(*memory)}
	if n := len(l.way); n > 0 {
		g.before = l.way[n-1]
	}
	g.members, g.places = g.mem.list[:0], g.mem.places[:0]
	defer func() {
		if g.arrived == nil {
			_ = g.batch.Close()
		}
		if g.last != nil {
			_ = g.last.Close() // merged, or never to be
		}
	}()
	if err := g.collect(first); err != nil {
		return nil // answered; nothing was committed
	}
	if len(g.members) == 0 {
		g.mem.giveBack(g)
		return nil
	}
	// What was prepared is read no more: what comes now goes behind it.
	err = g.seal()
	if err == nil {
		err = g.enter()
	}
	if err != nil {
		g.refuse(fmt.Errorf("%w: %w", ErrGroup, err))
		return nil
	}
	if err := g.start(); err != nil {
		err = fmt.Errorf("commit at size %d: %w", l.edge.size, err)
		g.answer(err)
		return err
	}
	return nil
}

// answer answers r unless its caller has withdrawn it.
func (r *request) answer(err error) {
	if r.taken.CompareAndSwap(false, true) {
		r.done <- err
	}
}

// collect prepares first and whatever waits behind it, within the bounds of a
// group. An error means that all were refused.
func (g *group) collect(first *request) error {
	l := g.l
	defer func() { l.took = [...]int{l.took[1], len(g.members)} }()
	for r := first; ; {
		if r.taken.CompareAndSwap(false, true) {
			if err := g.prepare(r); err != nil {
				g.refuse(err)
				return err
			}
		}
		n := len(g.members)
		if g.last != nil || n >= l.cfg.MaxGroup || g.signs && !l.fair(n) || g.batch.Len() >= l.cfg.MaxGroupBytes {
			return nil
		}
		var waits bool
		if r, waits = g.comes(); !waits {
			return nil
		}
	}
}

// comes takes what waits. A group that has entries to sign goes when nothing does, so
// that the processors have something to do during a sync, unless as many are on their
// way as may be: then it stays open for what comes until one has arrived. One that has
// none stays open until all have, and takes along those who were answered when they come
// again: what it costs to commit is shared by twice as many.
func (g *group) comes() (r *request, ok bool) {
	l := g.l
	n := l.onTheirWay()
	if n == 0 || g.signs && n < mostOnTheirWay {
		return l.waiting()
	}
	for again := true; again; again = g.hashAhead() {
		if r, ok = l.waits(); ok {
			return r, ok
		}
	}
	until := l.way[len(l.way)-1].arrived
	if g.signs {
		until = l.way[len(l.way)-n].arrived
	}
	select {
	case r = <-l.urgent:
		return l.received(r), true
	case r = <-l.queue:
		return l.received(r), true
	case <-until: // for room to look at
		return l.waiting()
	}
}

// waiting takes what waits, what is urgent first. Those whose commit has just been
// answered are about to come again: they get the processor once before the
// group goes without them.
func (l *Log) waiting() (r *request, ok bool) {
	if r, ok = l.waits(); !ok {
		runtime.Gosched()
		r, ok = l.waits()
	}
	return r, ok
}

// waits takes what waits at this moment, what is urgent first.
func (l *Log) waits() (r *request, ok bool) {
	if r = l.urgentFirst(); r != nil {
		return r, true
	}
	select {
	case r = <-l.queue:
		return l.received(r), true
	default:
		return nil, false
	}
}

// prepare takes r into the group, or answers it with its own error. It returns
// an error if r has left traces and so spoilt the group.
func (g *group) prepare(r *request) error {
	m := g.mem.members.take()
	m.r = r
	tx := &m.tx
	*tx = Tx{l: g.l, g: g, now: g.now, batch: g.batch, first: g.size, open: true}
	tx.entries = tx.one[:0]
	before := g.batch.Len()
	err := r.p.Prepare(tx)
	tx.open, g.last = false, tx.last
	if tx.unseen != nil { // it has decided without the rows of the group before
		err = fmt.Errorf("%w: %w", ErrFailed, tx.unseen)
		r.done <- err
		return err
	}
	switch {
	case err == nil:
		g.members = append(g.members, m)
		for i := range tx.entries {
			g.places = append(g.places, place{&tx.entries[i], g.size})
			g.size++
		}
		g.signs = g.signs || slices.ContainsFunc(tx.entries, func(e pending) bool { return e.raw == nil })
		return nil
	case g.batch.Len() != before || g.last != nil || len(tx.entries) > 0:
		r.done <- err
		return fmt.Errorf("%w: a proposal wrote rows or entries and then failed", ErrGroup)
	default:
		r.done <- err
		return nil
	}
}

func (g *group) refuse(err error) {
	g.l.cfg.Logger.Error("a group was refused", "origin", g.l.cfg.Origin, "proposals", len(g.members), "error", err)
	g.l.counters.note(err, g.now)
	for _, m := range g.members {
		m.r.done <- err
	}
}

// parallel calls f for 0 to n-1 on all cores and returns the errors.
func parallel(n int, f func(i int) error) error {
	if n == 0 {
		return nil
	}
	workers := min(n, runtime.GOMAXPROCS(0))
	var next atomic.Int64
	errs := make([]error, workers)
	work := func(w int) {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if err := f(i); err != nil && errs[w] == nil {
				errs[w] = err
			}
		}
	}
	var wg sync.WaitGroup
	for w := range workers - 1 {
		wg.Go(func() { work(w) })
	}
	work(workers - 1)
	wg.Wait()
	return errors.Join(errs...)
}
