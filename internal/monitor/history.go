package monitor

import (
	"sync"
	"time"
)

// SampleEvery is the time between two samples of a daemon's history, and
// historySamples how many are kept: an hour.
const (
	SampleEvery    = 5 * time.Second
	historySamples = 720
)

// A History is what a daemon's figures were during the last hour, in memory. It is
// safe for concurrent use.
type History struct {
	// ringMu guards ring and next.
	ringMu sync.Mutex
	ring   []sample
	next   int // where the next one goes, once the ring is full
}

type sample struct {
	at     time.Time
	values []float64
}

// Add keeps the values of one moment. Each call has as many, in the same order.
func (h *History) Add(at time.Time, values ...float64) {
	h.ringMu.Lock()
	defer h.ringMu.Unlock()
	if len(h.ring) < historySamples {
		h.ring = append(h.ring, sample{at, values})
		return
	}
	h.ring[h.next] = sample{at, values}
	h.next = (h.next + 1) % historySamples
}

// A point is one value of a chart.
type point struct {
	at time.Time
	v  float64
}

// list is the samples, the oldest first.
func (h *History) list() []sample {
	h.ringMu.Lock()
	defer h.ringMu.Unlock()
	return append(append(make([]sample, 0, len(h.ring)), h.ring[h.next:]...), h.ring[:h.next]...)
}

// levels are the values at index i.
func (h *History) levels(i int) []point {
	all := h.list()
	points := make([]point, len(all))
	for n, s := range all {
		points[n] = point{s.at, s.values[i]}
	}
	return points
}

// rates are how much the value at index i, a counter, rose each second between two
// samples.
func (h *History) rates(i int) []point {
	all := h.list()
	var points []point
	for n := 1; n < len(all); n++ {
		seconds := all[n].at.Sub(all[n-1].at).Seconds()
		if seconds <= 0 {
			continue
		}
		points = append(points, point{all[n].at, max(0, all[n].values[i]-all[n-1].values[i]) / seconds})
	}
	return points
}
