package translog

import (
	"context"
	"errors"
	"fmt"
)

// ErrOverloaded: as much waits for the writer as may. Nothing of the proposal
// remains; commit again later.
var ErrOverloaded = errors.New("too much waits for the log")

// A Weigher is a Proposal that says how many octets of memory it holds while it
// waits. Any other weighs lightWeight.
type Weigher interface{ Weight() int64 }

const lightWeight = 4 << 10

// urgentPlaces is how many urgent proposals may wait, beside Config.Queue.
const urgentPlaces = 64

// CommitUrgent is Commit for what must not wait behind the rest, such as a
// withdrawn consent, and holds little memory. It has urgentPlaces of its own,
// and is in the next group that begins, ahead of what came before it.
func (l *Log) CommitUrgent(ctx context.Context, p Proposal) error {
	return l.commit(ctx, p, l.urgent)
}

// enqueue puts r where the writer finds it, or refuses it at once: to wait here
// would only move the queue to where nobody bounds it.
func (l *Log) enqueue(r *request, queue chan *request) error {
	r.weight = lightWeight
	if w, ok := r.p.(Weigher); ok {
		r.weight = w.Weight()
	}
	bytes := l.queuedBytes.Add(r.weight)
	// One proposal alone may be as large as it likes, or it would never pass.
	if queue == l.queue && bytes > l.cfg.QueueBytes && bytes > r.weight {
		return l.overloaded(r, "%d octets, at most %d", bytes-r.weight, l.cfg.QueueBytes)
	}
	select {
	case queue <- r:
		return nil
	default:
		return l.overloaded(r, "%d proposals", cap(queue))
	}
}

func (l *Log) overloaded(r *request, format string, args ...any) error {
	l.queuedBytes.Add(-r.weight)
	l.counters.overloaded.Add(1)
	return fmt.Errorf("%w: "+format, append([]any{ErrOverloaded}, args...)...)
}

// received counts a request that was taken out of its queue.
func (l *Log) received(r *request) *request {
	l.queuedBytes.Add(-r.weight)
	return r
}

// urgentFirst takes an urgent request if one waits.
func (l *Log) urgentFirst() *request {
	select {
	case r := <-l.urgent:
		return l.received(r)
	default:
		return nil
	}
}
