package translog

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// A bystander writes down what a log shows to anybody, and what it answers.
type bystander struct {
	mu        sync.Mutex
	released  map[uint64][32]byte
	published map[uint64][32]byte
	acked     map[uint64][]byte // entries
}

func newBystander() *bystander {
	return &bystander{released: map[uint64][32]byte{}, published: map[uint64][32]byte{}, acked: map[uint64][]byte{}}
}

// sees notes one root, and finds a contradiction at once.
func sees(t *testing.T, roots map[uint64][32]byte, tree Tree) {
	if old, ok := roots[tree.Size]; ok && old != tree.Root {
		t.Errorf("size %d was shown with two roots", tree.Size)
	}
	roots[tree.Size] = tree.Root
}

func (w *bystander) look(t *testing.T, l *Log) {
	released, published := l.Released().Tree, l.Published().Tree
	w.mu.Lock()
	defer w.mu.Unlock()
	sees(t, w.released, released)
	sees(t, w.published, published)
}

// shown notes a tree that was answered.
func (w *bystander) shown(t *testing.T, tree Tree) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sees(t, w.released, tree)
}

func (w *bystander) answered(entries []*envelope.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range entries {
		if o != nil { // not opaque
			w.acked[o.Sequence] = o.Raw
		}
	}
}

// copy is what had been seen at this moment.
func (w *bystander) copy() *bystander {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := newBystander()
	for n, r := range w.released {
		c.released[n] = r
	}
	for n, r := range w.published {
		c.published[n] = r
	}
	for n, e := range w.acked {
		c.acked[n] = e
	}
	return c
}

// holds checks that v contradicts nothing that was seen.
func (w *bystander) holds(t *testing.T, what string, l *Log) {
	t.Helper()
	v, published := l.Released(), l.Published().Tree.Size
	for size, root := range w.released {
		if got, err := v.RootAt(size); err != nil || got != root {
			t.Errorf("%s: released was size %d with root %x, now %x, %v", what, size, root, got, err)
		}
	}
	for size, root := range w.published {
		if got, err := v.RootAt(size); err != nil || got != root || size > published {
			t.Errorf("%s: published was size %d with root %x, now %d, %x, %v", what, size, root, published, got, err)
		}
		if _, err := l.store.Get(publishedKey(size)); err != nil {
			t.Errorf("%s: what was published at size %d: %v", what, size, err)
		}
	}
	for index, raw := range w.acked {
		if got, err := v.Entry(index); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%s: the acknowledged entry %d: %v", what, index, err)
		}
	}
}

// TestCrashesNeverContradictWhatWasReleased cuts the power at a random write,
// with writers and readers running, keeps a random part of what was not synced,
// and goes on from there, twice.
func TestCrashesNeverContradictWhatWasReleased(t *testing.T) {
	for _, seed := range durabletest.Seeds(t, crashSeeds) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d, seen := durabletest.New(), newBystander()
		for life := range 2 {
			what := fmt.Sprintf("seed %d, life %d", seed, life)
			before := seen
			if d, seen = oneLife(t, rng, d, seen); t.Failed() {
				t.Fatalf("%s (%s=%d runs it alone)", what, durabletest.SeedVariable, seed)
			}
			r := open(t, d.Crash(rng, 100), nil)
			before.holds(t, what, r.Log)
			seen.holds(t, what, r.Log)
			r.close(t)
		}
	}
}

// oneLife opens a log on d, lets it work, and returns the disk after a crash
// with what had been seen until then.
func oneLife(t *testing.T, rng *rand.Rand, d *durabletest.Disk, seen *bystander) (*durabletest.Disk, *bystander) {
	at, unsynced := int64(1+rng.IntN(250)), rng.IntN(101)
	crashRNG := random(rng.Uint64())
	var crashed *durabletest.Disk
	var then *bystander
	w := seen.copy()
	d.OnWrite(func(n int64, _, _ string) error {
		if n == at {
			then = w.copy() // seen before the crash
			crashed = d.Crash(crashRNG, unsynced)
		}
		return nil
	})
	r := open(t, d, func(c *Config) { c.MaxGroup = 4 })
	w.copy().holds(t, "at start", r.Log)
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Microsecond):
					w.look(t, r.Log)
				}
			}
		})
	}
	for i := range 5 {
		writers.Go(func() {
			for j := range 8 {
				p := &proposal{n: 1, opaque: make([][]byte, (i+j)%5*7)} // enough to fill tiles
				if err := r.Commit(context.Background(), p); err != nil {
					t.Error(err)
					return
				}
				w.answered(p.got.Entries)
				if i == 0 {
					if err := r.Publish(context.Background()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	r.close(t)
	if crashed == nil { // the life was too short
		return d.Crash(crashRNG, 0), w
	}
	return crashed, then
}
