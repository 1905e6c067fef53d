package durable

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Folder holds what is too large for rows: one file each, written whole and
// made durable before a commit names it, and removed after a commit that no
// longer does. What no commit names is left over from a crash; who keeps the
// folder finds it by Names. A write that fails here fails that file alone.
// TestAKeptFileOutlivesACrash shows the order of things.
type Folder struct {
	fs  FS
	dir string
}

// OpenFolder is the folder dir, which is made when the first file is. inside is
// the file system, nil means the operating system's.
func OpenFolder(inside FS, dir string) *Folder {
	if inside == nil {
		inside = vfs.Default
	}
	return &Folder{inside, dir}
}

// Sub is the folder name within f.
func (f *Folder) Sub(name string) *Folder { return &Folder{f.fs, f.fs.PathJoin(f.dir, name)} }

// Names lists what is in the folder, none if it was never made.
func (f *Folder) Names() ([]string, error) {
	names, err := f.fs.List(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// Open reads a file. Errors: fs.ErrNotExist.
func (f *Folder) Open(name string) (io.ReadCloser, error) {
	return f.fs.Open(f.fs.PathJoin(f.dir, name), vfs.SequentialReadsOption)
}

// Remove removes files, and returns once that is durable. What is gone already
// is no error.
func (f *Folder) Remove(names ...string) error {
	if len(names) == 0 {
		return nil
	}
	for _, name := range names {
		if err := f.fs.Remove(f.fs.PathJoin(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncDir(f.fs, f.dir)
}

// A NewFile is a file that is being written. It ends with Keep or Drop.
type NewFile struct {
	f    *Folder
	name string
	file vfs.File
	own  []byte // a copy of what is written
}

// Create begins a file, whose name must not have been used before.
func (f *Folder) Create(name string) (*NewFile, error) {
	if err := makeDir(f.fs, f.dir); err != nil {
		return nil, err
	}
	file, err := f.fs.Create(f.fs.PathJoin(f.dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &NewFile{f: f, name: name, file: file}, nil
}

// Write appends to the file. A vfs.File may change what it is given, which a
// Writer must not.
func (n *NewFile) Write(b []byte) (int, error) {
	n.own = append(n.own[:0], b...)
	return n.file.Write(n.own)
}

// Keep returns once the file and its name are durable. On an error the file is
// dropped: a sync that failed is not tried again.
func (n *NewFile) Keep() error {
	err := n.file.Sync()
	if err = errors.Join(err, n.file.Close()); err == nil {
		err = syncDir(n.f.fs, n.f.dir)
	}
	if err != nil {
		return errors.Join(err, n.f.Remove(n.name))
	}
	return nil
}

// Drop removes the file.
func (n *NewFile) Drop() error { return errors.Join(n.file.Close(), n.f.Remove(n.name)) }
