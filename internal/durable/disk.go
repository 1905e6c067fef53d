package durable

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Disk is how the disk of a store does, for who decides what to take and for
// who watches it.
type Disk struct {
	Free     uint64 // octets, as last looked at; 0 where nobody can tell or nobody looks
	Ballast  int64  // octets that are held back now
	Released uint64 // times that the ballast was given up
	Stalls   uint64 // writes and syncs that took longer than Options.Stall
	Full     error  // nil, or ErrFull with its reason
	Stalled  error  // nil, or ErrStalled with what is under way
}

// Disk reads how the disk does; it asks the disk nothing.
func (s *Store) Disk() Disk {
	r, st := s.guard.room, s.guard.stalls
	return Disk{
		Free: r.free.Load(), Ballast: r.held.Load(), Released: r.given.Load(), Stalls: st.count.Load(),
		Full: r.err(), Stalled: st.err(),
	}
}

// Room is nil, or ErrFull with its reason: then only what is small and must not
// wait is to be written. It costs one load.
func (s *Store) Room() error { return s.guard.room.err() }

// Closing says that the program is about to end. A write or sync that has taken
// longer than Options.Stall then fails the store, instead of being waited for.
func (s *Store) Closing() { s.guard.stalls.closing.Store(true) }

// A keeper runs the two goroutines that watch a disk.
type keeper struct {
	stop    chan struct{}
	stopped sync.Once
	stalls  sync.WaitGroup
	room    chan struct{} // closed when its goroutine has ended
}

// keep wraps the file system of a store in what the disk needs, and watches it
// until end.
func keep(o Options, fs vfs.FS, dir string, log *slog.Logger) (*guard, *keeper, error) {
	k := &keeper{stop: make(chan struct{}), room: make(chan struct{})}
	if o.Room == (Room{}) {
		g := newGuard(fs, dir)
		close(k.room)
		k.watch(g, o.Stall, log)
		return g, k, nil
	}
	if err := makeDir(fs, fs.PathDir(dir)); err != nil {
		return nil, nil, err
	}
	r, err := newRoom(o.Room, fs, dir, log)
	if err != nil {
		return nil, nil, err
	}
	g := newGuard(vfs.OnDiskFull(fs, r.release), dir)
	g.room = r
	k.watch(g, o.Stall, log)
	go func() {
		defer close(k.room)
		r.watch(k.stop)
	}()
	return g, k, nil
}

func (k *keeper) watch(g *guard, limit time.Duration, log *slog.Logger) {
	g.stalls.limit, g.stalls.log = limit, log
	k.stalls.Go(func() { g.stalls.watch(k.stop, g.failed) })
}

// end waits for both goroutines, but for a disk that does not answer not for
// longer than limit: the process is about to end.
// A nil keeper, of a store that is only read, has nothing to end.
func (k *keeper) end(limit time.Duration) {
	if k == nil {
		return
	}
	k.stopped.Do(func() { close(k.stop) })
	k.stalls.Wait()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-k.room:
	case <-timer.C:
	}
}

// readable gives what a read-only file system says the words to act on.
func readable(err error) error {
	if errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("the file system can only be read; mount it for writing and start again: %w", err)
	}
	return err
}
