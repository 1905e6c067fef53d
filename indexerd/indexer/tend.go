package indexer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// tendEvery is how often the clock is looked at: a grant that expires closes
// its exits by itself, and is in the log within about this time.
const tendEvery = time.Second

// sweepEvery is how often files of large pages are looked for that nothing names.
// Those that an update or a deletion leaves behind are removed at once; these are
// what failed then.
const sweepEvery = 10 * time.Minute

// A tender is the goroutine that does what no session asks for: the log's
// entries about grants that expired, deletions, and what goes at the end of its
// retention.
type tender struct {
	asked chan struct{} // at most one request waits
	stop  context.CancelFunc
	ended sync.WaitGroup
	// telling is the publisher whose deletion is under way, until it was told of its end.
	telling atomic.Pointer[envelope.Name]
	// once keeps two rounds from running at the same time.
	once sync.Mutex
	// ends holds when each grant that is in use ends, so that a round reads none.
	ends map[envelope.Hash]time.Time
	// duties holds when something of a series may be due, by its number, and waits
	// at what stand a deletion that waits was looked at.
	duties map[uint32]duty
	waits  map[envelope.Hash]standing
	pruned time.Time // when the feed's tombstones were looked at last
	// rows is the most rows of one step of a deletion.
	rows int
	// before, when set, is called before each step of a deletion, and stops the
	// deletion there by an error. Tests set both.
	before func() error
}

func (t *tender) start(x *Indexer) {
	ctx, cancel := context.WithCancel(context.Background())
	t.rows = deletionStep
	t.asked, t.stop, t.ends = make(chan struct{}, 1), cancel, make(map[envelope.Hash]time.Time)
	t.duties, t.waits = make(map[uint32]duty), make(map[envelope.Hash]standing)
	t.ended.Go(func() {
		tick := time.NewTicker(tendEvery)
		defer tick.Stop()
		sweep := time.NewTicker(sweepEvery)
		defer sweep.Stop()
		x.sweepFiles()
		for {
			x.tend(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-t.asked:
			case <-sweep.C:
				x.sweepFiles()
			}
		}
	})
}

// hurry asks for a round now.
func (t *tender) hurry() {
	select {
	case t.asked <- struct{}{}:
	default:
	}
}

// close ends the goroutine between two steps.
func (t *tender) close() {
	if t.stop == nil { // never started
		return
	}
	t.stop()
	t.ended.Wait()
}

// pause is where a deletion may stop, to be gone on with later.
func (t *tender) pause(ctx context.Context) error {
	if t.before != nil {
		if err := t.before(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// tend is one round. What fails is tried again in the next.
func (x *Indexer) tend(ctx context.Context) {
	x.tender.once.Lock()
	defer x.tender.once.Unlock()
	if err := x.expire(ctx); err != nil && ctx.Err() == nil {
		x.log.Error("expiry", "error", err)
	}
	if err := x.ripen(ctx); err != nil && ctx.Err() == nil {
		x.log.Error("retention after a revocation", "error", err)
	}
	left, err := deletions(x.store)
	if err != nil {
		x.log.Error("deletions", "error", err)
	}
	// A session that stays for the end of a deletion stays until it was told of it.
	defer x.tender.telling.Store(nil)
	for _, d := range left {
		if ctx.Err() != nil {
			return
		}
		x.tender.telling.Store(&d.Publisher)
		if err := x.delete(ctx, d); err != nil {
			if ctx.Err() == nil && !errors.Is(err, durable.ErrFull) {
				x.log.Error("deletion", "publisher", d.Publisher, "error", err)
			}
			continue
		}
		x.pulse.deletions.Add(1)
		x.log.Info("deleted", "publisher", d.Publisher, "series", d.Series, "revocation", d.Revocation)
		x.tell(d.Publisher, d.Revocation)
		x.tender.telling.Store(nil)
		x.sessions.wake(d.Publisher)
	}
	if err := x.pruneFeed(ctx); err != nil && ctx.Err() == nil {
		x.log.Error("tombstones", "error", err)
	}
	more, err := x.retain(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, durable.ErrFull) {
		x.log.Error("retention", "error", err)
	}
	if more {
		x.tender.hurry()
	}
}
