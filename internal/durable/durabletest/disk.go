// Package durabletest simulates disks for tests of what lives in a
// durable.Store: power failures that keep what was synced and a random part of
// the rest, and writes that fail.
package durabletest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Disk holds files in memory and knows which of their octets were synced.
type Disk struct {
	files  *disk
	faulty durable.FS
	writes atomic.Int64
	onOp   atomic.Pointer[func(n int64, op, path string) error]
}

// New is an empty disk.
func New() *Disk { return on(vfs.NewCrashableMem()) }

func on(m *vfs.MemFS) *Disk {
	d := &Disk{files: &disk{MemFS: m}}
	d.faulty = errorfs.Wrap(d.files, errorfs.InjectorFunc(d.before))
	return d
}

// FS is the disk as a file system, for durable.Options.
func (d *Disk) FS() durable.FS { return d.faulty }

// Crash is a disk as it may be after a loss of power now: all that was synced,
// and each block and name that was not with a probability of unsynced percent.
// d itself goes on.
func (d *Disk) Crash(rng *rand.Rand, unsynced int) *Disk {
	d.files.reuse.Lock()
	defer d.files.reuse.Unlock()
	return on(d.files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng}))
}

// SetFree says how many octets are free, to who asks; at first nobody can tell.
func (d *Disk) SetFree(octets uint64) {
	d.files.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: octets, TotalBytes: 1 << 50, UsedBytes: 1})
}

// Writes is how many operations have changed the disk, or were to.
func (d *Disk) Writes() int64 { return d.writes.Load() }

// OnWrite has f called before each operation that changes the disk, with its
// number from 1 on; what f returns is returned in place of the operation.
func (d *Disk) OnWrite(f func(n int64, op, path string) error) { d.onOp.Store(&f) }

// FailAt makes the n-th write return err, and those after it if it is to last.
func (d *Disk) FailAt(n int64, err error, lasting bool) {
	d.OnWrite(func(i int64, _, _ string) error {
		if i == n || (lasting && i > n) {
			return err
		}
		return nil
	})
}

// EIO is what a broken disk says.
const EIO = syscall.EIO

// ENOSPC is what a full disk says.
const ENOSPC = syscall.ENOSPC

func (d *Disk) before(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	n := d.writes.Add(1)
	if f := d.onOp.Load(); f != nil {
		return (*f)(n, opName(op.Kind), op.Path)
	}
	return nil
}

// Names of operations that tests wait for.
const (
	OpCreate   = "create"
	OpWrite    = "write"
	OpSync     = "sync"
	OpAllocate = "allocate"
	OpRemove   = "remove"
	OpOther    = "other"
)

func opName(k errorfs.OpKind) string {
	switch k {
	case errorfs.OpCreate, errorfs.OpReuseForWrite:
		return OpCreate
	case errorfs.OpFilePreallocate:
		return OpAllocate
	case errorfs.OpRemove, errorfs.OpRemoveAll:
		return OpRemove
	case errorfs.OpFileWrite, errorfs.OpFileWriteAt:
		return OpWrite
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		return OpSync
	}
	return OpOther
}

// Damage flips one bit of the octet at offset of the file at path.
func (d *Disk) Damage(path string, offset int) error {
	b, err := d.files.UnsafeGetFileDataBuffer(path)
	if err != nil {
		return err
	}
	b[offset] ^= 0x01
	return nil
}

// Size is the size of the file at path in octets.
func (d *Disk) Size(path string) (int64, error) {
	info, err := d.files.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// List names the files of the folder dir.
func (d *Disk) List(dir string) ([]string, error) { return d.files.List(dir) }

// Remove removes the file at path.
func (d *Disk) Remove(path string) error { return d.files.Remove(path) }

// disk keeps a clone from being taken while a file is reused: MemFS takes the
// read half of its lock twice there, and would wait for itself for ever.
type disk struct {
	*vfs.MemFS
	reuse sync.RWMutex
}

func (d *disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.reuse.RLock()
	defer d.reuse.RUnlock()
	return d.MemFS.ReuseForWrite(from, to, c)
}
