package indexer

import (
	"testing"
	"time"
)

// A batch that finds no memory waits; it is neither refused nor read, and what
// it reserved comes back, also after a refusal.
func TestABatchWaitsForMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	all := r.x.cfg.Limits.batchMemory()
	// What the first batch reserved comes back after it was answered.
	r.eventually("no memory to be in use", func() bool { return r.x.memory.TryAcquire(all) })
	answered := make(chan bool, 1)
	b := s.parcel(puts("later", urls(site, 2)...)...).pack()
	go func() { answered <- c.deliver(b).Committed != nil }()
	select {
	case <-answered:
		t.Fatal("a batch was answered without memory")
	case <-time.After(300 * time.Millisecond):
	}
	r.x.memory.Release(all)
	if !<-answered {
		t.Error("the batch was not committed")
	}
	b.take()
	r.eventually("all memory to come back", func() bool {
		free := r.x.memory.TryAcquire(all)
		if free {
			r.x.memory.Release(all)
		}
		return free
	})
}

func TestTheLargestBatchFitsTheMemoryOfOne(t *testing.T) {
	for _, batches := range []int{1, 4} {
		l := DefaultLimits()
		l.Batches = batches
		if largest := int64(l.BatchBytes+itemBytes) * 2; l.batchMemory() < largest {
			t.Errorf("%d batches: %d octets, the largest batch asks for %d", batches, l.batchMemory(), largest)
		}
	}
}
