// Package load puts a stated load on something for a stated time: adders, each
// of which adds one entry, waits until that is done, and adds the next. What
// takes long is thereby asked for less often; nothing queues up unseen.
//
// Durations are those of entries that were done within the measured time, and
// a quantile is off by less than two per cent (TestQuantilesAreWithinTwoPercent).
package load

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Load is how much is added, and for how long.
type Load struct {
	Adders int
	Size   int           // of an entry, in octets
	Warm   time.Duration // before anything is counted
	For    time.Duration // what is counted
}

// A Sample is what was measured.
type Sample struct {
	Rate     float64       // entries a second
	P50, P99 time.Duration // of one entry
	CPU      time.Duration // of all cores together, for one entry, with what the load itself costs
}

// Run lets the adders call add, with entries of random octets that are theirs
// until add returns. The first error stops all of them and is returned.
func (l Load) Run(ctx context.Context, add func(ctx context.Context, entry []byte) error) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	from, until := began.Add(l.Warm), began.Add(l.Warm+l.For)
	var took Histogram
	var done atomic.Int64
	var wg sync.WaitGroup
	var before, after time.Duration
	wg.Go(func() {
		sleep(ctx, time.Until(from))
		before = cpuTime()
		sleep(ctx, time.Until(until))
		after = cpuTime()
	})
	for i := range l.Adders {
		wg.Go(func() {
			next := Entries(uint64(i), l.Size)
			for ctx.Err() == nil {
				entry := next()
				start := time.Now()
				if start.After(until) {
					return
				}
				if err := add(ctx, entry); err != nil {
					cancel(err)
					return
				}
				if end := time.Now(); end.After(from) && !end.After(until) {
					done.Add(1)
					took.Add(end.Sub(start))
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return Sample{}, err
	}
	if done.Load() == 0 {
		return Sample{}, errors.New("not one entry was done in the measured time")
	}
	return Sample{
		Rate: float64(done.Load()) / l.For.Seconds(),
		P50:  took.Quantile(0.50), P99: took.Quantile(0.99),
		CPU: (after - before) / time.Duration(done.Load()),
	}, nil
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// cpuTime is what this process has used of the processors so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Grow lets the adders add n entries between them, however long it takes, and
// counts all of them. The entries differ for each seed.
func (l Load) Grow(ctx context.Context, seed, n uint64, add func(ctx context.Context, entry []byte) error) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var took Histogram
	var taken atomic.Uint64
	var wg sync.WaitGroup
	began := time.Now()
	for i := range l.Adders {
		wg.Go(func() {
			next := Entries(seed*uint64(l.Adders)+uint64(i), l.Size)
			for ctx.Err() == nil && taken.Add(1) <= n {
				start := time.Now()
				if err := add(ctx, next()); err != nil {
					cancel(err)
					return
				}
				took.Add(time.Since(start))
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return Sample{}, err
	}
	return Sample{
		Rate: float64(n) / time.Since(began).Seconds(),
		P50:  took.Quantile(0.50), P99: took.Quantile(0.99),
	}, nil
}

// Entries makes entries of random octets, other ones for each seed. Each is
// valid until the next call.
func Entries(seed uint64, size int) func() []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	source := rand.NewChaCha8(key)
	entry := make([]byte, size)
	return func() []byte {
		_, _ = source.Read(entry) // says that it never fails
		return entry
	}
}
