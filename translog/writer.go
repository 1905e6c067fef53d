package translog

import (
	"errors"
	"fmt"
	"runtime"
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
	tick := time.NewTicker(l.cfg.Publish)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-l.stop:
			l.setErr(fatal(l.publishNow()))
			return
		case r := <-l.queue:
			err = l.commitGroup(r)
		case <-tick.C:
			err = fatal(l.publishNow())
		case answer := <-l.publish:
			err = l.publishNow()
			answer <- err
			err = fatal(err)
		}
		if err != nil {
			l.setErr(err)
			return
		}
	}
}

// fatal is err unless it only says that the clock is behind: then nothing was
// done, and it may be set right.
func fatal(err error) error {
	if errors.Is(err, ErrClock) {
		return nil
	}
	return err
}

func (l *Log) setErr(err error) {
	if err != nil {
		l.err = fmt.Errorf("%w: %w", ErrFailed, err)
		l.cfg.Logger.Error("the log has failed", "origin", l.cfg.Origin, "size", l.edge.size, "error", err)
	}
}

// clock returns the issued_at of what is signed now: it never goes back.
func (l *Log) clock() (time.Time, error) {
	now := l.cfg.Now().UTC().Truncate(time.Second)
	if now.Before(l.highest.Add(-envelope.Skew)) {
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

// A group is the proposals of one commit.
type group struct {
	l       *Log
	now     time.Time
	batch   *durable.Batch
	size    uint64 // of the tree with the entries so far
	members []*member
}

type member struct {
	r  *request
	tx *Tx
}

// commitGroup commits first and what waits behind it. An error is fatal, and
// the answer to every member.
func (l *Log) commitGroup(first *request) error {
	now, err := l.clock()
	if err != nil {
		first.answer(err)
		return nil
	}
	g := &group{l: l, now: now, batch: l.store.NewBatch(), size: l.edge.size}
	defer g.batch.Close() // a commit tells whether the batch is well
	if err := g.collect(first); err != nil {
		return nil // answered; nothing was committed
	}
	if len(g.members) == 0 {
		return nil
	}
	if err := g.signEntries(); err != nil {
		g.refuse(fmt.Errorf("%w: %w", ErrGroup, err))
		return nil
	}
	err = g.commit()
	if err != nil {
		err = fmt.Errorf("commit at size %d: %w", l.edge.size, err)
	}
	for _, m := range g.members {
		if err != nil {
			m.r.done <- fmt.Errorf("%w: %w", ErrFailed, err)
		} else {
			m.r.done <- nil
		}
	}
	return err
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
	for r := first; ; {
		if r.taken.CompareAndSwap(false, true) {
			if err := g.prepare(r); err != nil {
				g.refuse(err)
				return err
			}
		}
		if len(g.members) >= l.cfg.MaxGroup || g.batch.Len() >= l.cfg.MaxGroupBytes {
			return nil
		}
		var waits bool
		if r, waits = l.waiting(); !waits {
			return nil
		}
	}
}

// waiting takes what waits in the queue. Those whose commit has just been
// answered are about to come again: they get the processor once before the
// group goes without them.
func (l *Log) waiting() (r *request, ok bool) {
	for range 2 {
		select {
		case r = <-l.queue:
			return r, true
		default:
			runtime.Gosched()
		}
	}
	return nil, false
}

// prepare takes r into the group, or answers it with its own error. It returns
// an error if r has left traces and so spoilt the group.
func (g *group) prepare(r *request) error {
	tx := &Tx{l: g.l, now: g.now, batch: g.batch, first: g.size}
	before := g.batch.Len()
	err := r.p.Prepare(tx)
	tx.closed = true
	switch {
	case err == nil:
		g.members = append(g.members, &member{r: r, tx: tx})
		g.size += uint64(len(tx.entries))
		return nil
	case g.batch.Len() != before || len(tx.entries) > 0:
		r.done <- err
		return fmt.Errorf("%w: a proposal wrote rows or entries and then failed", ErrGroup)
	default:
		r.done <- err
		return nil
	}
}

func (g *group) refuse(err error) {
	g.l.cfg.Logger.Error("a group was refused", "origin", g.l.cfg.Origin, "proposals", len(g.members), "error", err)
	for _, m := range g.members {
		m.r.done <- err
	}
}

// commit brings the group, whose entries are signed, through the steps whose
// order the package documentation gives. Nothing may be moved ahead of what
// stands before it.
func (g *group) commit() error {
	l := g.l
	// Root, and the checkpoint of this very size.
	next, head, err := g.grow()
	if err != nil {
		return err
	}
	// Receipts name entries and checkpoint, so they come now.
	if err := g.finish(head); err != nil {
		return err
	}
	// One batch, one sync. From here on the commit may be durable.
	if err := g.batch.Commit(); err != nil {
		return err
	}
	// The mark follows the store and leads what is shown: were it first, a
	// crash would leave a store that looks older than the mark; were it last, a
	// store replaced in between could contradict what was shown.
	if next.size > l.edge.size {
		if err := l.mark.Write(mark{next.size, head.tree.Root, l.highest}.bytes()); err != nil {
			return err
		}
	}
	l.edge, l.head, l.last = next, head, g.now
	// Released: readers may see it, and the callers are answered.
	return l.release()
}

// signEntries signs the entries, which have their indexes, on all cores.
func (g *group) signEntries() error {
	type place struct {
		e     *pending
		index uint64
	}
	places := make([]place, 0, g.size-g.l.edge.size)
	for _, m := range g.members {
		for i := range m.tx.entries {
			places = append(places, place{&m.tx.entries[i], m.tx.first + uint64(i)})
		}
	}
	return parallel(len(places), func(i int) error {
		return g.l.signEntry(places[i].e, places[i].index, g.now)
	})
}

// grow adds the entries to a copy of the edge, writes their rows and those of
// the tiles they fill, and signs the checkpoint. A group without entries keeps
// the checkpoint there was.
func (g *group) grow() (*edge, signed, error) {
	l := g.l
	next, err := l.edge.clone()
	if err != nil || g.size == l.edge.size {
		return next, l.head, err
	}
	tile := func(level int, index uint64, tile []byte) error {
		return g.batch.Set(tileKey(level, index), tile)
	}
	for _, m := range g.members {
		for _, e := range m.tx.entries {
			index := next.size
			err := errors.Join(next.grow(LeafHash(e.raw), tile), g.batch.Set(entryKey(index), e.raw))
			if len(e.leaves) > 0 {
				err = errors.Join(err, g.batch.Set(setKeyOf(index), joinHashes(e.leaves)))
			}
			if err != nil {
				return nil, signed{}, err
			}
		}
	}
	root, err := next.root()
	if err != nil {
		return nil, signed{}, err
	}
	head, err := l.signCheckpoint(Tree{l.cfg.Origin, next.size, root}, envelope.Hash{}, g.now)
	if err != nil {
		return nil, signed{}, err
	}
	return next, head, head.write(g.batch, rowHead)
}

// finish calls every Finish, at the same time and each on a batch of its own,
// and then merges the batches in the order of the proposals.
func (g *group) finish(head signed) error {
	batches := make([]*durable.Batch, len(g.members))
	defer func() {
		for _, b := range batches {
			if b != nil {
				_ = b.Close() // merged, or never to be
			}
		}
	}()
	err := parallel(len(g.members), func(i int) error {
		m := g.members[i]
		batches[i] = g.l.store.NewBatch()
		m.tx.batch = batches[i]
		c := &Committed{Checkpoint: head.object, Note: head.note, Tree: head.tree}
		for j := range m.tx.entries {
			c.Entries = append(c.Entries, m.tx.entries[j].object)
		}
		if err := m.r.p.Finish(m.tx, c); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
		return nil
	})
	for _, b := range batches {
		if err == nil && b.Len() > 0 {
			err = g.batch.Merge(b)
		}
	}
	return err
}

// parallel calls f for 0 to n-1 on all cores and returns the errors.
func parallel(n int, f func(i int) error) error {
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
	if workers == 1 {
		work(0)
		return errs[0]
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { work(w) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
