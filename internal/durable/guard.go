package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system that a store lives on. Only tests set another one than
// the operating system's: see package durabletest.
type FS = vfs.FS

// A guard stands between Pebble and the file system, and decides what a failed
// write means.
//
// Pebble answers a failed write in several ways: it retries a flush, at once
// and for ever; it calls Logger.Fatalf and goes on if that returns; or it
// panics, in goroutines of its own and with locks out of step, which is the end
// of the process. After an fsync that failed none of them may go on, since
// nobody knows what the disk holds. So a write that fails never returns to
// Pebble: the goroutine that made it stalls, as if the disk had stopped to
// answer, and so does every later one that would change the store's folder.
// Callers do not stall with it, because the Store waits for Pebble and for the
// failure at once.
//
// The one exception is the goroutine that runs pebble.Open: what it meets is
// returned, so that Pebble cleans up and unlocks the folder.
type guard struct {
	vfs.FS
	dir    string // what is guarded; a backup elsewhere may fail on its own
	stalls *stalls
	room   *room

	writeStalls atomic.Uint64 // times that Pebble made writes wait

	failMu sync.Mutex
	cause  error
	failed chan struct{} // closed once cause is set
}

// newGuard guards dir on a disk that nobody watches; see keep.
func newGuard(inner vfs.FS, dir string) *guard {
	g := &guard{FS: inner, dir: dir, room: new(room), failed: make(chan struct{})}
	g.stalls = newStalls(g.fail)
	return g
}

// fail records the first failure.
func (g *guard) fail(err error) {
	g.failMu.Lock()
	defer g.failMu.Unlock()
	if g.cause == nil {
		g.cause = err
		close(g.failed)
	}
}

// err is nil, or ErrFailed with the first failure.
func (g *guard) err() error {
	select {
	case <-g.failed:
		return fmt.Errorf("%w: %w", ErrFailed, g.cause)
	default:
		return nil
	}
}

// fatal is for what Pebble finds and cannot go on from. It does not return.
func (g *guard) fatal(err error) {
	if opening() {
		panic(err) // Open recovers it
	}
	g.fail(err)
	g.stall()
}

// stall never returns.
func (g *guard) stall() { select {} }

// opening reports whether the calling goroutine is inside pebble.Open. It is
// asked only when something has failed.
func opening() bool {
	pc := make([]uintptr, 256)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "/pebble/v2.Open") {
			return true
		}
		if !more {
			return false
		}
	}
}

func (g *guard) covers(name string) bool {
	return name == g.dir || strings.HasPrefix(name, g.dir+string(os.PathSeparator))
}

// before holds back every change once the store has failed.
func (g *guard) before() {
	if g.err() != nil {
		g.stall()
	}
}

// after lets success pass, and lets a failure pass to pebble.Open alone.
func (g *guard) after(op, name string, err error) error {
	if err == nil || opening() {
		return err
	}
	if IsFull(err) {
		err = fmt.Errorf("the disk is full, and nothing is left to give up for it; free some room and start again: %w", err)
	}
	g.fail(fmt.Errorf("%s %s: %w", op, name, err))
	g.stall()
	return err
}

// change runs one operation that changes what name holds.
func (g *guard) change(op, name string, f func() error) error {
	if !g.covers(name) {
		return f()
	}
	g.before()
	o := g.stalls.begin(op, name)
	err := f()
	g.stalls.end(o)
	return g.after(op, name, err)
}

func (g *guard) file(op, name string, open func() (vfs.File, error)) (f vfs.File, err error) {
	err = g.change(op, name, func() error {
		f, err = open()
		return err
	})
	if err != nil || !g.covers(name) {
		return f, err
	}
	return &guardedFile{f, g, name}, nil
}

// Create makes the name of a manifest durable at once. Pebble then writes a
// marker that points to it, and syncs both names together; a crash in between
// might keep the marker alone, and such a store cannot be opened. Tables, and files of
// values, are gathered.
func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.file("create", name, func() (vfs.File, error) {
		f, err := g.FS.Create(name, c)
		if err != nil || !strings.HasPrefix(g.PathBase(name), "MANIFEST-") {
			return f, err
		}
		if err := syncDir(g.FS, g.PathDir(name)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	})
	if err != nil || !gathers(name) {
		return f, err
	}
	return gathering(f), nil
}

func (g *guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.file("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

func (g *guard) OpenDir(name string) (vfs.File, error) {
	return g.file("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

func (g *guard) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file("reuse", to, func() (vfs.File, error) { return g.FS.ReuseForWrite(from, to, c) })
}

func (g *guard) Link(from, to string) error {
	return g.change("link", to, func() error { return g.FS.Link(from, to) })
}

func (g *guard) Rename(from, to string) error {
	return g.change("rename", to, func() error { return g.FS.Rename(from, to) })
}

// Remove may fail: what was to go is obsolete, and Pebble tries again.
func (g *guard) Remove(name string) error {
	if g.covers(name) {
		g.before()
	}
	return g.FS.Remove(name)
}

// Lock tells a lock that somebody holds from one that cannot be made: fcntl
// says the first with a bare EAGAIN or EACCES, Pebble within one process with a
// text, and os.Create the second with a PathError.
func (g *guard) Lock(name string) (io.Closer, error) {
	c, err := g.FS.Lock(name)
	if err == nil {
		return c, nil
	}
	var path *fs.PathError
	held := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES)
	if held && !errors.As(err, &path) || err.Error() == "lock held by current process" {
		err = fmt.Errorf("%s: %w", g.dir, ErrLocked)
	}
	return nil, err
}

func (g *guard) Unwrap() vfs.FS { return g.FS }

// A guardedFile is a file of the store's folder that is open for writing.
type guardedFile struct {
	vfs.File
	g    *guard
	name string
}

func (f *guardedFile) Write(p []byte) (n int, err error) {
	err = f.g.change("write", f.name, func() error { n, err = f.File.Write(p); return err })
	return n, err
}

func (f *guardedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.g.change("write", f.name, func() error { n, err = f.File.WriteAt(p, off); return err })
	return n, err
}

// Preallocate may fail: Pebble asks for room ahead, and does without. It is not
// asked of a disk that has little left, of which it might take all.
func (f *guardedFile) Preallocate(off, length int64) error {
	if !f.g.room.fits(length) {
		return syscall.ENOSPC
	}
	return f.File.Preallocate(off, length)
}

func (f *guardedFile) Sync() error { return f.g.change("sync", f.name, f.File.Sync) }

// SyncData waits for the disk in a call of the system, and whoever is in one keeps a
// processor from the program: Go takes it away only if that lasts. So it has the disk
// begin, and lends the processor once before it waits.
func (f *guardedFile) SyncData() error {
	return f.g.change("sync", f.name, func() error {
		if err := beginWriting(f.File); err != nil {
			return err
		}
		runtime.Gosched()
		return f.File.SyncData()
	})
}

func (f *guardedFile) SyncTo(length int64) (full bool, err error) {
	err = f.g.change("sync", f.name, func() error { full, err = f.File.SyncTo(length); return err })
	return full, err
}

func (f *guardedFile) Close() error { return f.g.change("close", f.name, f.File.Close) }
