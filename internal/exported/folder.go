package exported

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Folder is the successor of an export while it is made. It belongs to one
// goroutine.
type Folder struct {
	Dir  string // of the successor, to be written to
	into string
	had  bool
	lock *os.File // held until Finish or Abandon
}

// ErrBusy says that another export is being made into the same folder.
var ErrBusy = errors.New("another export is being made into the folder")

// lockSuffix makes the name of the file whose lock is held while a successor is made.
// It stays: who removed it could not know who has opened it meanwhile.
const lockSuffix = ".lock"

// lock takes the lock of a folder, or returns ErrBusy.
func lock(into string) (*os.File, error) {
	f, err := os.OpenFile(into+lockSuffix, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%s: %w", into, ErrBusy)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Begin makes the successor of the export in a folder, which may not be there, or be
// empty. Its files are those of the export: whoever changes one has to replace it.
//
// Two successors of one folder are never made at once: the second is ErrBusy.
func Begin(into string) (_ *Folder, err error) {
	f := &Folder{Dir: filepath.Clean(into) + ".next", into: filepath.Clean(into)}
	if err := os.MkdirAll(filepath.Dir(f.into), 0o755); err != nil {
		return nil, err
	}
	if f.lock, err = lock(f.into); err != nil {
		return nil, err
	}
	if err := f.begin(); err != nil {
		return nil, errors.Join(err, f.lock.Close())
	}
	return f, nil
}

func (f *Folder) begin() error {
	into := f.into
	names, err := os.ReadDir(into)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.had = len(names) > 0; f.had {
		if _, err := os.Lstat(filepath.Join(into, ManifestFile)); err != nil {
			return fmt.Errorf("export to %s: %w; name an empty one", into, ErrNotExport)
		}
	}
	// What an export left that did not come to its end is in the way, and is ours by
	// its mark alone.
	if err := removeMarked(f.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f.Dir, markFile), nil, 0o644); err != nil {
		return err
	}
	if f.had {
		if err := link(into, f.Dir); err != nil {
			return errors.Join(err, discard(f.Dir))
		}
	}
	return nil
}

// markFile marks a successor that may be removed.
const markFile = ".export-next"

func removeMarked(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, markFile)); err != nil {
		if _, err := os.Lstat(filepath.Join(dir, ManifestFile)); err != nil {
			return fmt.Errorf("%s: %w, and in the way of one", dir, ErrNotExport)
		}
	}
	return discard(dir)
}

// discard removes a folder under its mark, which goes last: whatever a crash leaves of
// it can be told from a folder of somebody else.
func discard(dir string) error {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, markFile), nil, 0o644)
	}
	if err != nil {
		return err
	}
	for _, n := range names {
		if n.Name() == markFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, n.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// link makes a tree of hard links. What is neither a file nor a folder is left out.
func link(from, to string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(name string, d fs.DirEntry, err error) error {
		target := filepath.Join(to, filepath.FromSlash(name))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type().IsRegular():
			return os.Link(filepath.Join(from, filepath.FromSlash(name)), target)
		}
		return nil
	})
}

// Abandon removes the successor.
func (f *Folder) Abandon() error {
	return errors.Join(discard(f.Dir), f.lock.Close())
}

// Ready makes every file and folder of the successor durable. Exchange comes next.
func (f *Folder) Ready() error {
	if err := os.Remove(filepath.Join(f.Dir, markFile)); err != nil {
		return err
	}
	return syncFolders(f.Dir)
}

// Exchange puts the successor in the place of the export, in one step of the file
// system. From here on readers see it.
func (f *Folder) Exchange() error {
	if !f.had {
		// An empty folder may be there, which os.Rename would not replace.
		if err := syscall.Rename(f.Dir, f.into); err != nil {
			return &os.LinkError{Op: "rename", Old: f.Dir, New: f.into, Err: err}
		}
		return nil
	}
	return exchange(f.Dir, f.into)
}

// Finish makes the exchange durable; only then what was there goes.
func (f *Folder) Finish() error {
	err := durable.SyncDir(filepath.Dir(f.into))
	if err == nil && f.had {
		err = discard(f.Dir)
	}
	return errors.Join(err, f.lock.Close())
}

func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return durable.SyncDir(path)
	})
}
