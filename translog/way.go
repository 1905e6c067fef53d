package translog

import (
	"cmp"
	"errors"
	"slices"
)

// mostOnTheirWay is how many groups may be on their way to the disk: one whose mark is
// written, say, and one that is synced. The next is made ready meanwhile.
const mostOnTheirWay = 2

// settle waits until no group is on its way to the disk. Its error is fatal.
func (l *Log) settle() error {
	err := l.room(1)
	for _, g := range l.way { // those behind one that has failed, if any
		<-g.arrived
	}
	return err
}

// settled calls f when no group is on its way: what is then the head is released.
func (l *Log) settled(f func() error) error {
	if err := l.settle(); err != nil {
		return err
	}
	return f()
}

// room waits until fewer than most groups are on their way, and forgets those that
// have arrived. Its error is fatal.
func (l *Log) room(most int) error {
	for n := l.onTheirWay(); len(l.way) > n || n >= most; n = l.onTheirWay() {
		g := l.way[0]
		if <-g.arrived; g.err != nil {
			return g.err
		}
		l.way = slices.Delete(l.way, 0, 1)
	}
	return nil
}

// onTheirWay is how many have not arrived. They are the last ones of l.way.
func (l *Log) onTheirWay() (n int) {
	for _, g := range l.way {
		if !isClosed(g.arrived) {
			n++
		}
	}
	return n
}

// leastShare is how many proposals a group with entries to sign may always take.
const leastShare = 32

// fair reports whether a group with entries to sign may go on when it has taken n. It
// leaves half of those that there are: of those who were answered by the last two
// groups, since they are about to come again, or of what it has, waits and is on its way
// if that is more. Were all in one group, the processors would have nothing to do until it
// is back from the disk, and all would then come at once, again and again.
func (l *Log) fair(n int) bool {
	if n < leastShare {
		return true
	}
	there := n + len(l.urgent) + len(l.queue)
	for _, g := range l.way[len(l.way)-l.onTheirWay():] {
		there += len(g.members)
	}
	there = max(there, l.took[0]+l.took[1])
	return n < there-there/2
}

// seal puts what was prepared into a batch that is only written to.
func (g *group) seal() error {
	prepared := g.batch
	if g.last != nil && len(g.members) == 1 { // no other has written a row of these
		g.batch, g.last = g.last, nil
		return errors.Join(g.batch.Merge(prepared), prepared.Close())
	}
	g.batch = g.l.store.NewBlindBatchOf(prepared.Len() + g.octets())
	err := errors.Join(g.batch.Merge(prepared), prepared.Close())
	if g.last != nil {
		err = errors.Join(err, g.batch.Merge(g.last))
	}
	return err
}

// octets is about how much the rows of the entries will be.
func (g *group) octets() (n int) {
	const row, signed = 32, 1536 // beside its value; what is not signed yet
	for _, e := range g.places {
		n += cmp.Or(len(e.raw), signed) + 32*len(e.leaves) + 2*row
	}
	return n
}
