package translog

import (
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// settle waits until no group is on its way to the disk. Its error is fatal.
func (l *Log) settle() error {
	g := l.syncing
	if g == nil {
		return nil
	}
	<-g.arrived // and so those before it
	l.syncing = nil
	return g.err
}

// settled calls f when no group is on its way: what is then the head is released.
func (l *Log) settled(f func() error) error {
	if err := l.settle(); err != nil {
		return err
	}
	return f()
}

// synced waits until the next group may be begun: the last one is in the store for
// good, and the one before it is released. Its error is fatal.
func (l *Log) synced() error {
	if l.syncing == nil {
		return nil
	}
	<-l.syncing.synced
	return l.syncing.unsynced
}

// arrive is the second half of commit, in a goroutine of its own for which synced
// and settle wait, while run makes the next group ready. Before, if there is
// one, is the group before; it may still be on its way.
func (g *group) arrive(before *group) {
	defer close(g.arrived)
	rows, err := g.sync(before)
	g.unsynced = err
	close(g.synced)
	if err == nil {
		err = g.show(rows)
	}
	if err != nil {
		g.err = fmt.Errorf("commit to size %d: %w", g.size, err)
	} else {
		g.l.counters.committed(g)
	}
	_ = g.batch.Close() // sync tells whether it is well
	g.answer(g.err)
}

// sync returns once the group is durable in the store, and the group before it is
// released. No other has been begun: what the store shows now is what this
// group will show.
func (g *group) sync(before *group) (*durable.Snapshot, error) {
	began := time.Now()
	if err := g.batch.Wait(); err != nil {
		return nil, err
	}
	g.l.counters.sync.Since(began)
	if before != nil {
		if <-before.arrived; before.err != nil {
			return nil, before.err
		}
	}
	return g.l.store.Snapshot()
}

// show releases the group, which is in the store for good. The group behind it may
// be on its way to the store by now, and is not to be seen.
func (g *group) show(rows *durable.Snapshot) error {
	// The mark follows the store and leads what is shown: were it first, a
	// crash would leave a store that looks older than the mark; were it last, a
	// store replaced in between could contradict what was shown.
	if g.mark != nil {
		if err := g.l.mark.Write(g.mark); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	// Released: readers may see it, and the callers are answered.
	g.l.release(g.view, rows)
	return nil
}

// seal puts what was prepared into a batch that is only written to.
func (g *group) seal() error {
	prepared := g.batch
	if g.last != nil && len(g.members) == 1 { // no other has written a row of these
		g.batch, g.last = g.last, nil
		return errors.Join(g.batch.Merge(prepared), prepared.Close())
	}
	g.batch = g.l.store.NewBlindBatch()
	err := errors.Join(g.batch.Merge(prepared), prepared.Close())
	if g.last != nil {
		err = errors.Join(err, g.batch.Merge(g.last))
	}
	return err
}

// answer tells the members what became of the commit.
func (g *group) answer(err error) {
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	for _, m := range g.members {
		m.r.done <- err
	}
}
