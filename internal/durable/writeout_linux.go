package durable

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// beginWriting has the system begin to write what is written to f. It makes nothing
// durable, and waits for nothing to be written. Its error is that of what was begun; a
// sync may not say it again. A system that has no such call, or does not allow it, begins
// with the sync.
func beginWriting(f vfs.File) error {
	fd := f.Fd()
	if fd == vfs.InvalidFd { // no file of the system
		return nil
	}
	err := unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	for _, cannot := range []error{unix.ENOSYS, unix.EPERM, unix.EINVAL, unix.ESPIPE, unix.EOPNOTSUPP} {
		if errors.Is(err, cannot) {
			return nil
		}
	}
	return err
}
