package indexer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// An Allowance is what this indexer lets each publisher use, whatever its grants
// say. 0 is no limit.
type Allowance struct {
	Pages  uint64 // held, over all series
	Octets uint64 // of payload held, over all series
	// Rate is octets of batches a second, decompressed, and Batches is batches a
	// second. Who sends faster waits before anything of the next batch is read, so
	// that it costs nobody else anything (TestWhoSendsTooFastWaits).
	Rate, Batches float64
}

// What each publisher may ask for besides. Who asks faster waits.
const (
	callsPerSecond  = 20 // of unary calls, sessions that begin, and revocations
	callsAtOnce     = 100
	framesPerSecond = 1000 // of frames of a session that bring no content
	framesAtOnce    = 1000
)

// retryStorage is when somebody may come back whose storage is used up, in
// milliseconds: only a person, or a deletion, changes that.
const retryStorage = 5 * 60 * 1000

// SetAllowance sets what each publisher may use from now on, at any time. What is
// held already stays.
func (x *Indexer) SetAllowance(a Allowance) { x.allowance.Store(&a) }

// paces holds how fast each publisher goes. It outlives sessions, and knows only
// publishers that were trusted.
type paces struct {
	// byNameMu guards what follows.
	byNameMu sync.Mutex
	byName   map[envelope.Name]*pace
	// Who delivered last, and who did last of all others.
	last, other delivery
}

// A delivery is when a publisher delivered a batch last, by the machine's clock.
type delivery struct {
	name envelope.Name
	at   time.Time
}

// While several publishers deliver, each is asked for batches of at most sharedItems:
// the others wait for every one of them. They do while each has delivered something in
// sharedFor.
const (
	sharedItems = 500
	sharedFor   = 5 * time.Second
)

// share notes that a publisher delivers, and is how many items a batch of it should
// have at the most; 0: as many as are taken.
func (x *Indexer) share(name envelope.Name, now time.Time) uint32 {
	p := &x.paces
	p.byNameMu.Lock()
	defer p.byNameMu.Unlock()
	if p.last.name != name {
		p.other = p.last
	}
	p.last = delivery{name, now}
	if p.other.name == "" || now.Sub(p.other.at) > sharedFor {
		return 0
	}
	return sharedItems
}

// A pace is that of one publisher.
type pace struct{ batches, octets, calls, frames *rate.Limiter }

// pace is that of a publisher, by what is allowed now.
func (x *Indexer) pace(name envelope.Name) pace {
	a, largest := x.allowance.Load(), float64(x.cfg.Limits.largest())
	x.paces.byNameMu.Lock()
	defer x.paces.byNameMu.Unlock()
	if x.paces.byName == nil {
		x.paces.byName = make(map[envelope.Name]*pace)
	}
	one := x.paces.byName[name]
	if one == nil {
		one = &pace{calls: rate.NewLimiter(callsPerSecond, callsAtOnce), frames: rate.NewLimiter(framesPerSecond, framesAtOnce)}
		x.paces.byName[name] = one
	}
	one.batches = adapt(one.batches, a.Batches, 1)
	one.octets = adapt(one.octets, a.Rate, largest) // whatever is taken can be taken at once
	return *one
}

// largest is the most octets of one batch.
func (l Limits) largest() uint64 { return max(l.BatchBytes, l.PageBytes) + itemBytes }

// adapt is l, if it has the rate of n a second, and twice that, or least, at once;
// 0 is no limit. Else, or if there is none, it is a new one, which is full.
func adapt(l *rate.Limiter, n, least float64) *rate.Limiter {
	limit, burst := rate.Limit(n), int(max(2*n, least))
	if n == 0 {
		limit = rate.Inf
	}
	if l == nil || l.Limit() != limit || l.Burst() != burst {
		return rate.NewLimiter(limit, burst)
	}
	return l
}

// turn waits until the publisher may send a batch of so many octets. Who would
// wait longer than a batch is waited for may come back then.
func (x *Indexer) turn(ctx context.Context, name envelope.Name, octets uint64) error {
	p, now := x.pace(name), time.Now()
	batch, size := p.batches.ReserveN(now, 1), p.octets.ReserveN(now, int(min(octets, x.cfg.Limits.largest())))
	wait := max(batch.DelayFrom(now), size.DelayFrom(now))
	if wait > x.patience {
		batch.CancelAt(now)
		size.CancelAt(now)
		return retryAfter(&refusal{reason: grants.ErrExhausted, detail: "this publisher sends faster than it may here"}, wait)
	}
	return rest(ctx, wait)
}

// rest waits for d, or for the end of ctx.
func rest(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// call waits until the publisher may ask for one thing more.
func (x *Indexer) call(ctx context.Context, name envelope.Name) error {
	return rest(ctx, x.pace(name).calls.Reserve().Delay())
}

// fits refuses a batch that would have its publisher use more than it may. One
// that takes nothing more than it gives back is taken in any case.
func (in *ingest) fits(tx *translog.Tx) error {
	var octets, pages int64
	for i := range in.items {
		it := &in.items[i]
		if it.decision == translog.Include || it.decision == translog.Update {
			octets, pages = octets+int64(it.length), pages+1
		}
		if it.old != nil && it.old.Held {
			octets, pages = octets-int64(it.old.Length), pages-1
		}
	}
	return in.s.x.beyond(tx.Batch(), in.rec.Publisher, octets, pages)
}

// fitsAlone is fits for a page alone, before its payload comes: what is held may
// still change, but who is over its quota does not send 100 MiB to hear so.
func (in *ingest) fitsAlone() error {
	x, it := in.s.x, &in.items[0]
	octets, pages := int64(it.length), int64(1)
	var old catalogueRow
	known, err := readRow(x.store, sidKey('C', in.held.rec.SID, it.h[:]...), &old)
	if err != nil {
		return err
	}
	if known && old.Held {
		octets, pages = octets-int64(old.Length), 0
	}
	return x.beyond(x.store, in.held.rec.Publisher, octets, pages)
}

// beyond refuses what a publisher would hold more, where that is over its quota.
func (x *Indexer) beyond(r durable.Reader, name envelope.Name, octets, pages int64) error {
	a := x.allowance.Load()
	tooMany, tooLarge := a.Pages > 0 && pages > 0, a.Octets > 0 && octets > 0
	if !tooMany && !tooLarge {
		return nil
	}
	heldOctets, heldPages, err := heldOf(r, name)
	if err != nil {
		return err
	}
	octets, pages = octets+heldOctets, pages+heldPages
	detail := ""
	switch {
	case tooMany && pages > int64(a.Pages):
		detail = fmt.Sprintf("with this batch there would be %d pages of this publisher, over all its series, and at most %d are held", pages, a.Pages)
	case tooLarge && octets > int64(a.Octets):
		detail = fmt.Sprintf("with this batch there would be %d octets of this publisher, over all its series, and at most %d are held", octets, a.Octets)
	default:
		return nil
	}
	return &refusal{reason: grants.ErrQuota, detail: detail, retryMS: retryStorage}
}

// heldOf is what is held of a publisher, over all its series.
func heldOf(r durable.Reader, name envelope.Name) (octets, pages int64, err error) {
	recs, err := seriesOf(r, name)
	for _, rec := range recs {
		octets, pages = octets+int64(rec.PayloadBytes), pages+int64(rec.Pages)
	}
	return octets, pages, err
}
