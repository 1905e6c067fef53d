package durable

import (
	"errors"
	"io/fs"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A ballast is a file that only takes up room. It lies beside the folder of the
// store, as dir.ballast, and is removed when a write finds the disk full: the
// write is then made again, and there is time to stop before the next one.
type ballast struct {
	fs   vfs.FS // the one below vfs.OnDiskFull
	path string
	size int64
}

// build makes the file, whole and allocated, or leaves none behind. One that is
// there already is only made sure of.
func (b ballast) build() (err error) {
	if info, err := b.fs.Stat(b.path); err == nil && info.Size() > b.size {
		if err := b.fs.Remove(b.path); err != nil {
			return err
		}
	}
	f, err := b.fs.OpenReadWrite(b.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.remove())
		}
	}()
	if err = b.fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syncDir(b.fs, b.fs.PathDir(b.path))
}

// fill allocates what is missing. The last octet comes last, so that a file of
// the full size is a whole one. A file system that cannot allocate is given
// octets that none can compress.
func (b ballast) fill(f vfs.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = f.Preallocate(0, b.size)
	switch {
	case IsFull(err):
		return err
	case err == nil && info.Size() == b.size:
		return nil
	case err == nil:
		_, err = f.WriteAt([]byte{0}, b.size-1)
		return err
	}
	random := rand.NewChaCha8([32]byte{'b'})
	chunk := make([]byte, 1<<20)
	for at := info.Size(); at < b.size; at += int64(len(chunk)) {
		chunk = chunk[:min(int64(len(chunk)), b.size-at)]
		_, _ = random.Read(chunk) // never fails
		if _, err := f.WriteAt(chunk, at); err != nil {
			return err
		}
	}
	return nil
}

// remove gives the room back; some file systems do so only once the folder is
// synced.
func (b ballast) remove() error {
	if err := b.fs.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(b.fs, b.fs.PathDir(b.path))
}
