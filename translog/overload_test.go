package translog

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
)

// heavy is a proposal that holds memory.
type heavy struct {
	proposal
	held []byte
}

func (h *heavy) Weight() int64 { return int64(len(h.held)) }

// tiny is a proposal of one entry that costs no signature.
func tiny() *proposal { return &proposal{opaque: [][]byte{{1}}} }

// hold keeps the writer of r at a proposal until release is called.
func hold(r *rig) (release func()) {
	held, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- r.Commit(context.Background(), &proposal{prepare: func(*Tx) error {
			close(held)
			<-gate
			return nil
		}})
	}()
	<-held
	return func() {
		close(gate)
		<-done
	}
}

// waits is r.Commit or r.CommitUrgent in a goroutine, once it waits.
func waits(r *rig, commit func(context.Context, Proposal) error, p Proposal) <-chan error {
	before, done := r.Stats().Queued, make(chan error, 1)
	go func() { done <- commit(context.Background(), p) }()
	for r.Stats().Queued == before {
		runtime.Gosched()
	}
	return done
}

// TestOverloadIsRefusedAtOnceWithBoundedMemory: of 4,096 callers, each with 64
// KiB, 256 may wait, and hold 16 MiB; the others are refused while the writer
// stands still, and what they held is free again. All of them come again until
// they are taken, and nothing is lost.
func TestOverloadIsRefusedAtOnceWithBoundedMemory(t *testing.T) {
	const callers, places, weight = 4096, 256, 64 << 10
	r := open(t, durabletest.New(), func(c *Config) { c.Queue = places })
	defer r.close(t)
	release := hold(r)
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var refused atomic.Int64
	var again, all sync.WaitGroup
	again.Add(callers - places)
	comeBack := make(chan struct{})
	for range callers {
		all.Go(func() {
			err := r.Commit(context.Background(), &heavy{*tiny(), make([]byte, weight)})
			if errors.Is(err, ErrOverloaded) {
				refused.Add(1)
				again.Done()
				<-comeBack
			}
			for errors.Is(err, ErrOverloaded) {
				time.Sleep(50 * time.Millisecond)
				err = r.Commit(context.Background(), tiny())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	again.Wait() // though nothing can be committed
	runtime.GC()
	runtime.ReadMemStats(&during)
	s := r.Stats()
	if s.Queued != places || s.QueuedBytes != places*weight || s.Overloaded != callers-places {
		t.Errorf("%d wait with %d octets, %d were refused", s.Queued, s.QueuedBytes, s.Overloaded)
	}
	// The stacks of the callers are theirs: the heap alone counts.
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 4*places*weight {
		t.Errorf("the heap has grown by %d MiB, the queue holds %d", grown>>20, places*weight>>20)
	}
	release()
	close(comeBack)
	all.Wait()
	if size := r.Released().Tree.Size; size != callers || refused.Load() != callers-places {
		t.Errorf("%d entries of %d callers, %d of them refused at first", size, callers, refused.Load())
	}
	if s := r.Stats(); s.Queued != 0 || s.QueuedBytes != 0 {
		t.Errorf("at rest %d wait, with %d octets", s.Queued, s.QueuedBytes)
	}
}

func TestTheQueueIsBoundedInOctets(t *testing.T) {
	r := open(t, durabletest.New(), func(c *Config) { c.QueueBytes = 10_000 })
	defer r.close(t)
	release := hold(r)
	offer := func(weight int) Proposal { return &heavy{proposal{n: 1}, make([]byte, weight)} }
	first := waits(r, r.Commit, offer(20_000)) // alone it may be as large as it likes
	if err := r.Commit(context.Background(), offer(1)); !errors.Is(err, ErrOverloaded) {
		t.Errorf("behind one that fills the queue: %v", err)
	}
	urgent := waits(r, r.CommitUrgent, offer(50_000))
	release()
	if err := errors.Join(<-first, <-urgent); err != nil {
		t.Error(err)
	}
	release = hold(r)
	second, third := waits(r, r.Commit, offer(6_000)), waits(r, r.Commit, offer(4_000))
	if err := r.Commit(context.Background(), offer(1)); !errors.Is(err, ErrOverloaded) || !strings.Contains(err.Error(), "10000 octets") {
		t.Errorf("one octet too much: %v", err)
	}
	release()
	if err := errors.Join(<-second, <-third); err != nil {
		t.Error(err)
	}
	if s := r.Stats(); s.QueuedBytes != 0 || s.Overloaded != 2 {
		t.Errorf("%d octets wait, %d were refused", s.QueuedBytes, s.Overloaded)
	}
}

// TestUrgentProposalsPassAFullQueue: they are taken while others are refused,
// and come first in the next group. They are bounded too.
func TestUrgentProposalsPassAFullQueue(t *testing.T) {
	r := open(t, durabletest.New(), func(c *Config) { c.Queue = 3 })
	defer r.close(t)
	var order []string
	named := func(name string) Proposal {
		return &proposal{prepare: func(*Tx) error {
			order = append(order, name)
			return nil
		}}
	}
	release := hold(r)
	var all []<-chan error
	for range 3 {
		all = append(all, waits(r, r.Commit, named("usual")))
	}
	if err := r.Commit(context.Background(), named("refused")); !errors.Is(err, ErrOverloaded) {
		t.Errorf("behind a full queue: %v", err)
	}
	for range urgentPlaces {
		all = append(all, waits(r, r.CommitUrgent, named("urgent")))
	}
	if err := r.CommitUrgent(context.Background(), named("refused")); !errors.Is(err, ErrOverloaded) {
		t.Errorf("behind %d urgent ones: %v", urgentPlaces, err)
	}
	release()
	for _, done := range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	want := strings.Repeat("urgent ", urgentPlaces) + strings.Repeat("usual ", 3)
	if got := strings.Join(order, " ") + " "; got != want {
		t.Errorf("order %s", got)
	}
}

// TestAStreamOfUrgentProposalsStarvesNobody commits urgent ones without a pause
// and waits for one that is not, for a checkpoint, and for Close.
func TestAStreamOfUrgentProposalsStarvesNobody(t *testing.T) {
	r := open(t, durabletest.New(), func(c *Config) { c.MaxGroup = 1 })
	stop := make(chan struct{})
	var streams sync.WaitGroup
	for range 8 {
		streams.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := r.CommitUrgent(context.Background(), &proposal{}); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
	r.grow(t, 3, true)
	r.publishNow(t)
	if err := r.Log.Close(); err != nil {
		t.Error(err)
	}
	close(stop)
	streams.Wait()
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

func TestStatsTellWhatHappened(t *testing.T) {
	d := durabletest.New()
	r := open(t, d, nil)
	defer r.store.Close()
	for range 3 {
		r.grow(t, 2, false)
	}
	r.publishNow(t)
	r.grow(t, 1, true)
	s := r.Stats()
	if s.Commits != 4 || s.Proposals != 4 || s.Entries != 7 || s.Size != 7 || s.Released != 7 || s.Published != 6 || !s.PublishedAt.Equal(newTime(noon)) {
		t.Errorf("%+v", s)
	}
	for name, h := range map[string]tally.Histogram{"commit": s.Commit, "sync": s.Sync, "group": s.Group} {
		if last := h.Buckets[len(h.Buckets)-1]; h.Count != 4 || h.Sum <= 0 || last.Count > 4 || h.Buckets[0].Count > last.Count {
			t.Errorf("%s: %+v", name, h)
		}
	}
	if s.Group.Buckets[0] != (tally.Bucket{UpperBound: 1, Count: 4}) || s.Group.Sum != 4 {
		t.Errorf("groups: %+v", s.Group)
	}
	if s.LastError != "" || s.QueueBound != 4096+urgentPlaces || s.QueueBytesBound != 256<<20 {
		t.Errorf("%+v", s)
	}
	d.FailAt(d.Writes()+1, durabletest.EIO, true)
	if err := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
	<-r.Done()
	if s := r.Stats(); !strings.Contains(s.LastError, durabletest.EIO.Error()) || !s.LastErrorAt.Equal(time.Unix(noon, 999)) || s.Commits != 4 {
		t.Errorf("after a failure: %+v", s)
	}
	if err := r.Log.Close(); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
}
