package translog

import (
	"errors"
	"fmt"
	"time"
)

// settle waits until no group is on its way to the disk. Its error is fatal.
func (l *Log) settle() error {
	g := l.syncing
	if g == nil {
		return nil
	}
	<-g.arrived
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

// arrive is the second half of commit, in a goroutine of its own for which settle
// waits, while run makes the next group ready.
func (g *group) arrive() {
	defer close(g.arrived)
	if err := g.sync(); err != nil {
		g.err = fmt.Errorf("commit to size %d: %w", g.size, err)
	} else {
		g.l.counters.committed(g)
	}
	_ = g.batch.Close() // sync tells whether it is well
	g.answer(g.err)
}

// sync returns nil once the group is durable and released.
func (g *group) sync() error {
	l, began := g.l, time.Now()
	if err := g.batch.Wait(); err != nil {
		return err
	}
	l.counters.sync.since(began)
	// The mark follows the store and leads what is shown: were it first, a
	// crash would leave a store that looks older than the mark; were it last, a
	// store replaced in between could contradict what was shown.
	if g.mark != nil {
		if err := l.mark.Write(g.mark); err != nil {
			return err
		}
	}
	// Released: readers may see it, and the callers are answered.
	return l.release(g.view)
}

// seal puts what was prepared into a batch that is only written to.
func (g *group) seal() error {
	prepared := g.batch
	g.batch = g.l.store.NewBlindBatch()
	return errors.Join(g.batch.Merge(prepared), prepared.Close())
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
