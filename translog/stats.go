package translog

import (
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/tally"
)

// Stats are the figures of a log that an operator watches. Counters begin at
// zero when the log is opened. They are read one after the other, so that two
// of them may be a commit apart.
type Stats struct {
	Queued, QueueBound           int    // proposals that wait for the writer, and how many may
	QueuedBytes, QueueBytesBound int64  // what they say that they weigh, and how much it may be
	Overloaded                   uint64 // proposals refused with ErrOverloaded

	Commits   uint64          // groups that were committed
	Proposals uint64          // proposals that were committed in them
	Entries   uint64          // entries that were committed in them
	Commit    tally.Histogram // seconds from the first Prepare of a group to its release
	Sync      tally.Histogram // seconds of a group's one write and fsync
	Group     tally.Histogram // proposals of a group

	Size        uint64    // entries of the last commit
	Released    uint64    // entries that readers see
	Published   uint64    // entries under the checkpoint that is served
	PublishedAt time.Time // issued_at of that checkpoint

	LastError   string    // of the writer, or of what it refused last; empty if there was none
	LastErrorAt time.Time // by the log's clock
}

// Stats reads the figures. It waits for nobody and costs about a microsecond.
func (l *Log) Stats() Stats {
	c := l.counters
	s := Stats{
		Queued: len(l.queue) + len(l.urgent), QueueBound: cap(l.queue) + cap(l.urgent),
		QueuedBytes: l.queuedBytes.Load(), QueueBytesBound: l.cfg.QueueBytes, Overloaded: c.overloaded.Load(),
		Commits: c.commits.Load(), Proposals: c.proposals.Load(), Entries: c.entries.Load(),
		Commit: c.commit.Read(), Sync: c.sync.Read(), Group: c.group.Read(),
		Size: c.size.Load(), Released: l.Released().Tree.Size,
	}
	published := l.Published()
	s.Published, s.PublishedAt = published.Tree.Size, published.Checkpoint.IssuedAt
	if last := c.lastError.Load(); last != nil {
		s.LastError, s.LastErrorAt = last.text, last.at
	}
	return s
}

// counters are what Stats reads; each is written where it happens.
type counters struct {
	overloaded, commits, proposals, entries, size atomic.Uint64
	commit, sync, group                           *tally.Meter
	lastError                                     atomic.Pointer[seenError]
}

type seenError struct {
	text string
	at   time.Time
}

// note keeps the last error.
func (c *counters) note(err error, at time.Time) { c.lastError.Store(&seenError{err.Error(), at}) }

// committed counts a group that was released.
func (c *counters) committed(g *group) {
	n := g.size
	c.commits.Add(1)
	c.proposals.Add(uint64(len(g.members)))
	c.entries.Add(n - c.size.Swap(n))
	c.group.Observe(float64(len(g.members)))
	c.commit.Since(g.began)
}

// newCounters fixes the buckets: times from 0.1 ms to 26 s, groups from 1 to
// 2,048, each bound twice the one before.
func newCounters() *counters {
	return &counters{
		commit: tally.NewMeter(0.0001, 2, 19), sync: tally.NewMeter(0.0001, 2, 19), group: tally.NewMeter(1, 2, 12),
	}
}
