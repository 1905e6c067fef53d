package durable

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// beginWriting has the system begin to write what is written to f. It makes nothing
// durable, and waits for nothing. Its error is that of what was begun; a sync may not
// say it again.
func beginWriting(f vfs.File) error {
	fd := f.Fd()
	if fd == vfs.InvalidFd { // no file of the system
		return nil
	}
	err := unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	for _, cannot := range []error{unix.ENOSYS, unix.EINVAL, unix.ESPIPE, unix.EOPNOTSUPP} {
		if errors.Is(err, cannot) {
			return nil
		}
	}
	return err
}
