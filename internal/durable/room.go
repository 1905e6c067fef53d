package durable

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrFull: little room is left on the disk. What is left is kept for what must
// not wait; whoever has something large to write comes back later.
var ErrFull = errors.New("the disk is nearly full")

// Room is what a store keeps free of its disk. The zero value keeps nothing:
// the first write that finds no room ends the store.
type Room struct {
	// Ballast is the size of the file that is given up when a write finds the
	// disk full, in octets; 0 is none. Open refuses a disk without room for it.
	Ballast int64
	// LowWater is how many octets have to be free for Room to be nil; once
	// there were fewer, a quarter more have to be. 0 does not look.
	LowWater int64
	// Every is how often the disk is looked at, beside after each commit; 0
	// means 2 s.
	Every time.Duration
}

// IsFull reports whether err says that a disk, or what a quota leaves of it, is
// full.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// leastLook bounds how often commits have the disk looked at.
const leastLook = 50 * time.Millisecond

// refillAgain is how many looks later a ballast is tried again that could not
// be made.
const refillAgain = 30

// A room watches the disk of one store.
//
//	enough ─ free < LowWater, or the ballast given up ─▸ full
//	full ─ ballast made anew, free ≥ 1.25 LowWater ─▸ enough
type room struct {
	Room
	fs     vfs.FS // the one below vfs.OnDiskFull
	dir    string
	file   ballast
	log    *slog.Logger
	looks  chan struct{} // asks for a look; at most one waits
	notYet time.Time     // when the ballast may be tried again; owned by watch
	full   atomic.Pointer[error]
	free   atomic.Uint64
	held   atomic.Int64
	given  atomic.Uint64
	fileMu sync.Mutex // guards the ballast's file
}

// newRoom makes the ballast, or refuses the disk. What the disk holds besides
// does not matter yet: a store can be read, and emptied, on a full disk.
func newRoom(want Room, fs vfs.FS, dir string, log *slog.Logger) (*room, error) {
	want.Every = cmp.Or(want.Every, 2*time.Second)
	r := &room{
		Room: want, fs: fs, dir: dir, log: log, looks: make(chan struct{}, 1),
		file: ballast{fs, dir + ".ballast", want.Ballast},
	}
	if want.Ballast > 0 {
		if err := r.file.build(); IsFull(err) {
			return nil, fmt.Errorf("no room on the disk of %s: the %d octets that are to be held back could not be; free some room and start again: %w",
				dir, want.Ballast, err)
		} else if err != nil {
			return nil, fmt.Errorf("ballast: %w", err)
		}
		r.held.Store(want.Ballast)
	}
	r.look()
	return r, nil
}

// err is nil, or ErrFull with its reason.
func (r *room) err() error {
	if p := r.full.Load(); p != nil {
		return *p
	}
	return nil
}

// release is called by a write that found no room, which is then made again.
func (r *room) release() {
	r.fileMu.Lock()
	defer r.fileMu.Unlock()
	if r.held.Load() == 0 {
		return // the write fails, and with it the store
	}
	err := r.file.remove()
	r.held.Store(0)
	r.given.Add(1)
	r.close(fmt.Errorf("%w: a write found no room in %s, and the ballast was given up for it", ErrFull, r.dir))
	if err != nil {
		r.log.Error("ballast", "error", err)
	}
	r.ask()
}

// close begins the time in which only what is small is written.
func (r *room) close(why error) {
	if r.full.Swap(&why) == nil {
		r.log.Error("the disk is nearly full; what is large is refused", "error", why)
	}
}

// committed has the disk looked at behind a commit.
func (r *room) committed() {
	if r.LowWater > 0 {
		r.ask()
	}
}

// ask has the disk looked at soon.
func (r *room) ask() {
	select {
	case r.looks <- struct{}{}:
	default:
	}
}

// watch looks at the disk until stop is closed.
func (r *room) watch(stop <-chan struct{}) {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		case <-r.looks:
		}
		r.look()
		pause := time.NewTimer(min(leastLook, r.Every))
		select {
		case <-stop:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// look compares what is free with what has to be.
func (r *room) look() {
	free, known := r.measure()
	if r.err() == nil {
		if known && free < uint64(r.LowWater) {
			r.close(fmt.Errorf("%w: %d octets are free on the disk of %s, and %d have to be", ErrFull, free, r.dir, r.LowWater))
		}
		return
	}
	enough := uint64(r.LowWater + r.LowWater/4)
	if known && free < enough+uint64(r.Ballast-r.held.Load()) {
		return
	}
	// The ballast comes first, so that the next full disk finds it.
	if time.Now().Before(r.notYet) {
		return
	}
	if err := r.refill(); err != nil {
		// What was free is not for us. Each try takes room that a write may need.
		r.notYet = time.Now().Add(refillAgain * r.Every)
		r.log.Debug("ballast", "error", err)
		return
	}
	if free, known = r.measure(); known && free < enough {
		return
	}
	r.full.Store(nil)
	r.log.Info("the disk has room again", "free", free)
}

func (r *room) refill() error {
	r.fileMu.Lock()
	defer r.fileMu.Unlock()
	if r.Ballast == 0 || r.held.Load() == r.Ballast {
		return nil
	}
	if err := r.file.build(); err != nil {
		return err
	}
	r.held.Store(r.Ballast)
	return nil
}

// measure asks how much is free. Not every file system can tell; then only a
// write that fails does.
func (r *room) measure() (free uint64, known bool) {
	usage, err := r.fs.GetDiskUsage(r.dir)
	if err != nil {
		usage, err = r.fs.GetDiskUsage(r.fs.PathDir(r.dir)) // the folder is not there yet
	}
	if err != nil {
		return 0, false
	}
	r.free.Store(usage.AvailBytes)
	return usage.AvailBytes, true
}

// fits reports whether so many octets may be allocated ahead of their use: they
// leave as much again as has to be free. Where nobody can tell they may.
func (r *room) fits(octets int64) bool {
	if r.LowWater == 0 || r.err() != nil {
		return r.err() == nil
	}
	free, known := r.measure()
	return !known || free >= uint64(octets+2*r.LowWater)
}
