package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// OpenReadOnly opens the store in dir, which must exist, and changes none of
// its rows; a Commit fails. It takes the lock all the same. Errors: ErrLocked;
// damage; what the file system says.
func OpenReadOnly(dir string, o Options) (*Store, error) {
	files := o.FS
	if files == nil {
		var err error
		if dir, err = realPath(dir); err != nil {
			return nil, err
		}
		files = vfs.Default
	}
	dir = filepath.Clean(dir)
	g := newGuard(files, dir)
	opts := pebbleOptions(o, g, cmp.Or(o.Logger, slog.Default()))
	defer opts.Cache.Unref()
	opts.ReadOnly = true
	db, err := openPebble(dir, opts, g)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	s := &Store{db: db, guard: g, fs: files, slots: make(map[string]bool)}
	s.reads = source{s, db}
	return s, nil
}

// ReadSlots is the newest value in the file of a Slots, or nil if there is no
// file or nothing in it. It changes nothing, and may be called while the Slots
// is open. A nil files is the operating system's. Errors: ErrSlots.
func ReadSlots(files FS, path string) ([]byte, error) {
	if files == nil {
		files = vfs.Default
	}
	f, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sl := &Slots{path: path, file: f}
	if err := errors.Join(sl.load(), f.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return sl.value, nil
}

// MakeFolder has fill make a folder under a name beside dir, makes everything
// in it durable, and then gives it the name dir: it is there whole or not at
// all. An error of fill removes it. dir must not exist. Errors: fs.ErrExist.
func MakeFolder(dir string, fill func(temp string) error) (err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := fill(temp); err != nil {
		return err
	}
	if err := syncTree(temp); err != nil {
		return err
	}
	// Rename would put the folder over an empty one that came meanwhile.
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, fs.ErrExist)
	}
	if err := os.Rename(temp, dir); err != nil {
		return err
	}
	return SyncDir(parent)
}

// syncTree syncs each file and folder below root, and root.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		return SyncDir(path) // what it does suits files as well
	})
}

// CopyFiles copies the regular files below from into the folder to, with their
// modes, but for those for which skip says so of their path relative to from; a
// folder that is skipped is not entered. A file that goes away meanwhile is
// passed over. Sockets and links are not copied.
func CopyFiles(to, from string, skip func(relative string) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		gone := errors.Is(err, fs.ErrNotExist)
		if gone && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case rel != "." && skip != nil && skip(rel):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		err = copyFile(filepath.Join(to, rel), path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// FolderSize is the sum of the sizes of the regular files below dir, in octets.
func FolderSize(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
