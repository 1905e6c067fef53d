// Package tally counts what happens, for whoever watches a program: how large
// or how long something is (Histogram), and how often it came for which reason
// (Counts). Everything is bounded, and nothing of it is durable: a program begins
// at zero. TestReasonsBeyondTheBoundAreOthers and TestAHistogramCountsEachOnce
// show it.
package tally

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// A Histogram counts observations by their size, as Prometheus does.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets []Bucket // ascending; the last bound is below infinity
}

// A Bucket counts the observations that are at most UpperBound.
type Bucket struct {
	UpperBound float64
	Count      uint64
}

// A Meter is a Histogram that is being written. It is safe for concurrent use.
type Meter struct {
	bounds []float64
	counts []atomic.Uint64 // one more than bounds, for what is above the last
	sum    atomic.Uint64   // the bits of a float64
}

// NewMeter makes a meter with n bounds, each factor times the one before.
func NewMeter(first, factor float64, n int) *Meter {
	m := &Meter{bounds: make([]float64, n), counts: make([]atomic.Uint64, n+1)}
	for i := range m.bounds {
		m.bounds[i] = first
		first *= factor
	}
	return m
}

// Observe counts one.
func (m *Meter) Observe(v float64) {
	i := 0
	for i < len(m.bounds) && v > m.bounds[i] {
		i++
	}
	m.counts[i].Add(1)
	for old := m.sum.Load(); !m.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)); {
		old = m.sum.Load()
	}
}

// Since observes the seconds from start until now.
func (m *Meter) Since(start time.Time) { m.Observe(time.Since(start).Seconds()) }

// Read gives what was counted.
func (m *Meter) Read() Histogram {
	out := Histogram{Buckets: make([]Bucket, len(m.bounds)), Sum: math.Float64frombits(m.sum.Load())}
	for i := range m.counts {
		out.Count += m.counts[i].Load()
		if i < len(m.bounds) {
			out.Buckets[i] = Bucket{m.bounds[i], out.Count}
		}
	}
	return out
}

// maxReasons bounds the reasons of one Counts. Those beyond it count as "other":
// another side may make up as many as it likes.
const maxReasons = 64

// Other stands for the reasons beyond the bound.
const Other = "other"

// Counts are how often something came, by its reason. The zero value is ready,
// and safe for concurrent use.
type Counts struct {
	byReasonMu sync.Mutex
	byReason   map[string]uint64
}

// Add counts one.
func (c *Counts) Add(reason string) {
	c.byReasonMu.Lock()
	defer c.byReasonMu.Unlock()
	if c.byReason == nil {
		c.byReason = make(map[string]uint64)
	}
	if _, known := c.byReason[reason]; !known && len(c.byReason) >= maxReasons {
		reason = Other
	}
	c.byReason[reason]++
}

// Read gives what was counted.
func (c *Counts) Read() map[string]uint64 {
	c.byReasonMu.Lock()
	defer c.byReasonMu.Unlock()
	return maps.Clone(c.byReason)
}

// A Recent keeps the newest few of what happened. It is safe for concurrent use.
type Recent[T any] struct {
	ringMu sync.Mutex
	ring   []T
	next   int // where the next one goes, once the ring is full
	most   int
}

// NewRecent keeps at most so many.
func NewRecent[T any](most int) *Recent[T] { return &Recent[T]{most: most} }

// Add keeps v, in place of the oldest if there is no room.
func (r *Recent[T]) Add(v T) {
	r.ringMu.Lock()
	defer r.ringMu.Unlock()
	if len(r.ring) < r.most {
		r.ring = append(r.ring, v)
		return
	}
	r.ring[r.next] = v
	r.next = (r.next + 1) % r.most
}

// List gives what is kept, the oldest first.
func (r *Recent[T]) List() []T {
	r.ringMu.Lock()
	defer r.ringMu.Unlock()
	return append(append(make([]T, 0, len(r.ring)), r.ring[r.next:]...), r.ring[:r.next]...)
}
