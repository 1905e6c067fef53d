package translog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// A fault is what one operation, and perhaps every later one, is answered.
type fault struct {
	err      error
	lasting  bool
	unsynced int // percent of what was not synced that the crash behind it keeps
}

// TestEveryFailedWriteEndsTheWriter fails each operation that changes the disk
// in turn, with readers running: create, write, sync, rename, remove, and so on;
// close alone cannot fail here. Nothing is acknowledged behind a failure; and
// when the log is opened again every entry that was acknowledged is at its
// index, and no size that was ever shown or answered has another root.
func TestEveryFailedWriteEndsTheWriter(t *testing.T) {
	whole := durabletest.New()
	kinds := make(map[string]int)
	whole.OnWrite(func(_ int64, op, _ string) error {
		kinds[op]++
		return nil
	})
	if err := shortLife(t, whole, durable.Room{}, newBystander()); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{durabletest.OpCreate, durabletest.OpWrite, durabletest.OpSync, durabletest.OpRemove, durabletest.OpOther} {
		if kinds[op] == 0 {
			t.Errorf("no %s among the operations of a life", op)
		}
	}
	for n := int64(1); n <= whole.Writes(); n++ {
		for _, f := range faults() {
			d, seen := durabletest.New(), newBystander()
			d.FailAt(n, f.err, f.lasting)
			if err := shortLife(t, d, durable.Room{}, seen); err != nil && !errors.Is(err, f.err) {
				t.Errorf("operation %d: %v does not name its cause", n, err)
			}
			goesOn(t, fmt.Sprintf("operation %d, %+v", n, f), d.Crash(random(uint64(n)), f.unsynced), seen)
		}
	}
	t.Logf("%d operations failed, %v, each in %d ways", whole.Writes(), kinds, len(faults()))
}

// TestAFullDiskWithBallastEndsNoLog fills the disk at each operation in turn:
// what finds no room is made again in that of the ballast.
func TestAFullDiskWithBallastEndsNoLog(t *testing.T) {
	room := durable.Room{Ballast: 4096, LowWater: 1 << 20}
	whole := durabletest.New()
	if err := shortLife(t, whole, room, newBystander()); err != nil {
		t.Fatal(err)
	}
	given := 0
	for n := int64(1); n <= whole.Writes(); n += fullStride {
		d, seen := durabletest.New(), newBystander()
		var refusals atomic.Int64
		d.OnWrite(func(i int64, op, _ string) error {
			_, err := d.Size("/data/store.ballast")
			if i < n || err != nil || op == durabletest.OpSync || op == durabletest.OpRemove {
				return nil
			}
			refusals.Add(1)
			return durabletest.ENOSPC
		})
		err := shortLife(t, d, room, seen)
		if err != nil && (!errors.Is(err, durabletest.ENOSPC) || len(seen.released) > 0) { // but for one that could not begin
			t.Errorf("full at operation %d: %v", n, err)
		}
		if err == nil && refusals.Load() > 0 {
			given++
		}
		d.OnWrite(func(int64, string, string) error { return nil })
		goesOn(t, fmt.Sprintf("full at operation %d", n), d.Crash(random(uint64(n)), 0), seen)
	}
	if given < int(whole.Writes()/fullStride)/2 {
		t.Errorf("%d of %d lives were given the ballast", given, whole.Writes()/fullStride)
	}
}

// goesOn opens the log on what a crash has left, and compares it with what was
// seen before, and with itself once it has grown.
func goesOn(t *testing.T, what string, d *durabletest.Disk, seen *bystander) {
	t.Helper()
	r := open(t, d, nil)
	seen.holds(t, what, r.Log)
	seen.look(t, r.Log)
	r.grow(t, 1, true)
	r.publishNow(t)
	seen.look(t, r.Log)
	seen.holds(t, what, r.Log)
	r.close(t)
}

// shortLife commits and publishes, with readers running, until something fails;
// then it tries again, which must fail too.
func shortLife(t *testing.T, d *durabletest.Disk, room durable.Room, seen *bystander) error {
	s, err := durable.Open("/data/store", durable.Options{FS: d.FS(), Logger: quiet, CacheBytes: 1 << 20, Room: room})
	if err != nil {
		return err
	}
	r := &rig{store: s, disk: d, clock: newClock(noon)}
	if err := r.reopen(nil); err != nil {
		return err
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Microsecond):
					seen.look(t, r.Log)
				}
			}
		})
	}
	defer readers.Wait()
	defer close(stop)
	for range 4 {
		p := &proposal{n: 2, opaque: make([][]byte, 100)}
		if err = r.Commit(context.Background(), p); err == nil {
			seen.answered(p.got.Entries)
			seen.shown(t, p.got.Tree)
			err = r.Publish(context.Background())
		}
		if err != nil {
			if again := r.Commit(context.Background(), &proposal{n: 1}); !errors.Is(again, ErrFailed) {
				return fmt.Errorf("after %w: Commit = %v", err, again)
			}
			<-r.Done()
			break
		}
	}
	return errors.Join(err, r.Log.Close(), r.store.Close())
}
