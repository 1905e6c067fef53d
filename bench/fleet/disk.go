package fleet

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Allocated is how many octets of the disk the files below dir take. One that goes
// while it is looked at takes none.
func Allocated(dir string) (octets int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			octets += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	return octets, err
}
