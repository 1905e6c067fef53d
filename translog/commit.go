package translog

import (
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// start sends the group, whose entries are in its tree, on its way. The next goes on from
// that tree.
func (g *group) start() error {
	l := g.l
	// One after the other.
	if err := g.seesBefore(); err != nil {
		return err
	}
	// What a stalled disk holds up is bounded.
	if err := l.room(mostOnTheirWay); err != nil {
		return err
	}
	g.grown, g.highest = g.size > l.edge.size, l.highest
	l.edge, l.last = g.next, g.now
	g.begun, g.arrived = make(chan struct{}), make(chan struct{})
	l.way = append(l.way, g)
	go g.commit()
	return nil
}

// seesBefore waits until the rows of the group before can be read. Its error is fatal.
func (g *group) seesBefore() error {
	if g.before == nil {
		return nil
	}
	<-g.before.begun
	if !g.before.unbegun {
		return nil
	}
	<-g.before.arrived
	return g.before.err
}

// commit brings the group through the steps whose order the package documentation gives,
// from the root on, in a goroutine of its own for which room waits, while run makes the
// next group ready.
func (g *group) commit() {
	defer close(g.arrived)
	err := g.begin()
	g.unbegun = err != nil
	close(g.begun)
	if err == nil {
		err = g.arrive()
	}
	if err != nil {
		g.err = fmt.Errorf("commit to size %d: %w", g.size, err)
	} else {
		g.l.counters.committed(g)
	}
	g.before = nil      // or each would keep all that were
	_ = g.batch.Close() // arrive tells whether it is well
	g.answer(g.err)
	if g.err == nil { // or the log has failed, and memory does not matter
		g.mem.giveBack(g)
	}
}

// begin is the first half of commit, up to the sync: the group before has its own behind
// it. Nothing may be moved ahead of what stands before it.
func (g *group) begin() error {
	l := g.l
	// Root, and the checkpoint of this very size.
	if err := g.signHead(); err != nil {
		return err
	}
	// Receipts name entries and checkpoint, so they come now.
	if err := g.finish(); err != nil {
		return err
	}
	// One batch, one sync. From here on the commit may be durable, though never
	// without those before it. The next group goes on from it, and sees its rows;
	// nobody else does.
	if err := g.batch.Begin(); err != nil {
		return err
	}
	// No other has been begun: what the store shows now is what this group will.
	var err error
	g.rows, err = l.store.Snapshot()
	return err
}

// arrive is the second half. The group before may still be on its way.
func (g *group) arrive() error {
	err := g.sync()
	// The mark follows the store and leads what is shown: were it first, a
	// crash would leave a store that looks older than the mark; were it last, a
	// store replaced in between could contradict what was shown.
	if err == nil && g.mark != nil {
		err = g.l.mark.Write(g.mark)
	}
	if err != nil {
		return errors.Join(err, g.rows.Close())
	}
	// Released: readers may see it, and the callers are answered.
	g.l.release(viewOf(g.head, g.next.tree(g.l.rows)), g.rows)
	return nil
}

// sync returns once the group is durable in the store, and the group before it is
// released.
func (g *group) sync() error {
	began := time.Now()
	if err := g.batch.Wait(); err != nil {
		return err
	}
	g.l.counters.sync.Since(began)
	if g.before != nil {
		<-g.before.arrived
		return g.before.err
	}
	return nil
}

// signHead signs the checkpoint. A group without entries keeps the one there was.
func (g *group) signHead() error {
	l := g.l
	if !g.grown {
		g.head = l.head
		return nil
	}
	root, err := g.next.root()
	if err != nil {
		return err
	}
	if g.head, err = l.signCheckpoint(Tree{l.cfg.Origin, g.size, root}, envelope.Hash{}, g.now); err != nil {
		return err
	}
	l.head = g.head
	g.mark = mark{size: g.size, root: root, highest: g.highest}.bytes()
	return g.head.write(g.batch, l.rows, rowHead)
}

// finish calls every Finish, at the same time and each on a batch of its own,
// and then merges the batches in the order of the proposals.
func (g *group) finish() error {
	head := g.head
	for _, m := range g.members {
		m.tx.batch = nil // one of its own, once it asks
	}
	err := parallel(len(g.members), func(i int) error {
		m := g.members[i]
		c := &m.committed
		*c = Committed{Entries: m.object[:0], Checkpoint: head.object, Note: head.note, Tree: head.tree}
		for j := range m.tx.entries {
			c.Entries = append(c.Entries, m.tx.entries[j].object)
		}
		if err := m.r.p.Finish(&m.tx, c); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
		return nil
	})
	for _, m := range g.members {
		if m.tx.batch == nil {
			continue
		}
		if err == nil {
			err = g.batch.Merge(m.tx.batch)
		}
		_ = m.tx.batch.Close() // merged, or never to be
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
