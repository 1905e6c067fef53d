package exported

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Folder is the successor of an export while it is made. It belongs to one
// goroutine.
type Folder struct {
	Dir  string // of the successor, to be written to
	into string
	had  bool
}

// Begin makes the successor of the export in a folder, which may not be there, or be
// empty. Its files are those of the export: whoever changes one has to replace it.
func Begin(into string) (*Folder, error) {
	f := &Folder{Dir: filepath.Clean(into) + ".next", into: filepath.Clean(into)}
	names, err := os.ReadDir(into)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if f.had = len(names) > 0; f.had {
		if _, err := os.Lstat(filepath.Join(into, ManifestFile)); err != nil {
			return nil, fmt.Errorf("export to %s: %w; name an empty one", into, ErrNotExport)
		}
	}
	// What an export left that did not come to its end is in the way, and is ours by
	// its mark alone.
	if err := removeMarked(f.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(f.Dir, markFile), nil, 0o644); err != nil {
		return nil, err
	}
	if f.had {
		if err := link(into, f.Dir); err != nil {
			return nil, errors.Join(err, f.Abandon())
		}
	}
	return f, nil
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
func (f *Folder) Abandon() error { return os.RemoveAll(f.Dir) }

// Swap puts the successor in the place of the export. Every file of it is durable
// before, and the place is when Swap returns; only then what was there goes.
func (f *Folder) Swap() error {
	if err := os.Remove(filepath.Join(f.Dir, markFile)); err != nil {
		return err
	}
	if err := syncFolders(f.Dir); err != nil {
		return err
	}
	parent := filepath.Dir(f.into)
	if !f.had {
		if err := os.Rename(f.Dir, f.into); err != nil { // an empty folder may be there
			return err
		}
		return durable.SyncDir(parent)
	}
	if err := exchange(f.Dir, f.into); err != nil {
		return err
	}
	if err := durable.SyncDir(parent); err != nil {
		return err
	}
	return os.RemoveAll(f.Dir)
}

func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return durable.SyncDir(path)
	})
}
