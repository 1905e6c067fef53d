package gitroot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// A Kind says what an entry of a tree is.
type Kind uint8

// The kinds of entries.
const (
	Regular Kind = iota + 1
	Executable
	Symlink
	Submodule
	Folder
)

func (k Kind) String() string {
	return map[Kind]string{Regular: "file", Executable: "executable file", Symlink: "symlink", Submodule: "submodule", Folder: "folder"}[k]
}

// A File is an entry of a tree. ID names its content, or a submodule's commit.
type File struct {
	Path string // slash-separated, relative to the Tree
	Kind Kind
	ID   ID
	Size int64 // octets; 0 for folders and submodules
}

// A Tree is the files of one commit, or those below one of its folders. It never
// changes. It may be used by several goroutines, as long as its Repository is
// open.
type Tree struct {
	Commit Commit
	repo   *Repository
	root   plumbing.Hash
}

// Tree returns the files of a commit that is held, below a path as rbt.ParsePath
// returns it. No symlink may stand on the way there.
func (r *Repository) Tree(id ID, path string) (*Tree, error) {
	c, err := r.Commit(id)
	if err != nil {
		return nil, err
	}
	t := &Tree{Commit: c, repo: r, root: c.tree}
	if path == "." {
		return t, nil
	}
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	w := &way{repo: r, root: c.tree, links: -1}
	e, err := w.resolve(path)
	if err != nil {
		return nil, fmt.Errorf("%.200q in commit %s: %w", path, id, err)
	}
	if kindOf(e) != Folder {
		return nil, fmt.Errorf("%.200q in commit %s: %w: a %s", path, id, ErrNotRegular, kindOf(e))
	}
	t.root = e.Hash
	return t, nil
}

// Lookup finds an entry. Symlinks on the way and at the end are followed, within
// the tree alone; File.Path says where they led.
func (t *Tree) Lookup(path string) (File, error) {
	t.repo.storageMu.Lock()
	defer t.repo.storageMu.Unlock()
	return t.lookup(path)
}

func (t *Tree) lookup(path string) (File, error) {
	w := &way{repo: t.repo, root: t.root, links: maxLinks}
	e, err := w.resolve(path)
	if err != nil {
		return File{}, fmt.Errorf("%.200q: %w", path, err)
	}
	f := File{Path: strings.Join(w.names, "/"), Kind: kindOf(e), ID: ID(e.Hash)}
	if f.Kind == Regular || f.Kind == Executable {
		f.Size, err = t.repo.size(e.Hash)
	}
	return f, err
}

// Read returns a file's content, of at most limit octets. It is an *LFSError if
// that is only a pointer; other errors that a caller may tell apart are
// ErrNotFound, ErrOutside, ErrLoop, ErrSubmodule, ErrNotRegular and ErrTooLarge.
func (t *Tree) Read(path string, limit int64) ([]byte, File, error) {
	t.repo.storageMu.Lock()
	defer t.repo.storageMu.Unlock()
	f, err := t.lookup(path)
	switch {
	case err != nil:
		return nil, f, err
	case f.Kind == Submodule:
		return nil, f, fmt.Errorf("%.200q: %w", path, ErrSubmodule)
	case f.Kind == Folder:
		return nil, f, fmt.Errorf("%.200q: %w: a folder", path, ErrNotRegular)
	}
	data, err := t.repo.readBlob(plumbing.Hash(f.ID), limit)
	if err != nil {
		return nil, f, fmt.Errorf("%.200q: %w", path, err)
	}
	if pointer := parseLFS(data); pointer != nil {
		return nil, f, fmt.Errorf("%.200q: %w", path, pointer)
	}
	return data, f, nil
}

// Files yields all that is no folder, in git's own order, and symlinks as such.
// It holds one path of folders in memory. Limits.Files and Limits.Depth bound it.
func (t *Tree) Files(ctx context.Context) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		count := 0
		if _, err := t.files(ctx, t.root, "", 0, &count, yield); err != nil {
			yield(File{}, err)
		}
	}
}

func (t *Tree) files(ctx context.Context, folder plumbing.Hash, prefix string, depth int, count *int, yield func(File, error) bool) (more bool, err error) {
	if depth > t.repo.limits.Depth {
		return false, fmt.Errorf("%.200q: %w: more than %d folders deep", prefix, ErrTooLarge, t.repo.limits.Depth)
	}
	entries, err := t.repo.lockedTree(folder)
	if err != nil {
		return false, fmt.Errorf("%.200q: %w", prefix, err)
	}
	for _, e := range entries {
		if *count++; *count > t.repo.limits.Files {
			return false, fmt.Errorf("%w: more than %d files and folders", ErrTooLarge, t.repo.limits.Files)
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if kindOf(e) == Folder {
			if more, err := t.files(ctx, e.Hash, prefix+e.Name+"/", depth+1, count, yield); err != nil || !more {
				return more, err
			}
			continue
		}
		f, err := t.repo.file(e, prefix)
		if err != nil {
			return false, err
		}
		if !yield(f, nil) {
			return false, nil
		}
	}
	return true, nil
}

// file describes an entry.
func (r *Repository) file(e object.TreeEntry, prefix string) (File, error) {
	f := File{Path: prefix + e.Name, Kind: kindOf(e), ID: ID(e.Hash)}
	if f.Kind == Submodule || f.Kind == Folder {
		return f, nil
	}
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	var err error
	f.Size, err = r.size(e.Hash)
	return f, err
}

func (r *Repository) lockedTree(h plumbing.Hash) ([]object.TreeEntry, error) {
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	return r.readTree(h)
}

// size returns that of a blob. The caller holds storageMu.
func (r *Repository) size(h plumbing.Hash) (int64, error) {
	n, err := r.storage.EncodedObjectSize(h)
	if r.client == nil && errors.Is(err, plumbing.ErrObjectNotFound) {
		var o plumbing.EncodedObject
		if o, err = r.object(plumbing.BlobObject, h, r.limits.Object); err == nil {
			n = o.Size()
		}
	}
	return n, err
}

// readBlob reads a blob into memory. The caller holds storageMu.
func (r *Repository) readBlob(h plumbing.Hash, limit int64) ([]byte, error) {
	o, err := r.object(plumbing.BlobObject, h, limit)
	if err != nil {
		return nil, err
	}
	return readAll(o)
}

// readAll reads an object whose size is known to be bearable.
func readAll(o plumbing.EncodedObject) ([]byte, error) {
	content, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	data := make([]byte, o.Size())
	if _, err := io.ReadFull(content, data); err != nil {
		return nil, err
	}
	return data, nil
}

func kindOf(e object.TreeEntry) Kind {
	switch e.Mode {
	case filemode.Dir:
		return Folder
	case filemode.Symlink:
		return Symlink
	case filemode.Submodule:
		return Submodule
	case filemode.Executable:
		return Executable
	}
	return Regular // and what old versions of git called one
}

// checkTree refuses names that are no names, and folders that name one thing
// twice: then two readers could see two things.
func checkTree(entries []object.TreeEntry) error {
	last := ""
	for i, e := range entries {
		if e.Name == "" || e.Name == "." || e.Name == ".." || strings.EqualFold(e.Name, ".git") || strings.ContainsAny(e.Name, "/\x00") {
			return fmt.Errorf("name %.80q", e.Name)
		}
		if sortName(e) <= last {
			return fmt.Errorf("name %.80q is twice there, or in the wrong place", e.Name)
		}
		last = sortName(e)
		if kindOf(e) == Folder { // a file of its name would sort before it
			_, twice := slices.BinarySearchFunc(entries[:i], e.Name, func(e object.TreeEntry, name string) int { return strings.Compare(sortName(e), name) })
			if twice {
				return fmt.Errorf("name %.80q is twice there", e.Name)
			}
		}
	}
	return nil
}

// maxCachedEntries bounds a treeCache.
const maxCachedEntries = 100_000

// A treeCache remembers folders that were read.
type treeCache struct {
	entries map[plumbing.Hash][]object.TreeEntry
	size    int
}

func (c *treeCache) add(h plumbing.Hash, entries []object.TreeEntry) {
	if c.entries == nil || c.size+len(entries) > maxCachedEntries {
		c.entries, c.size = make(map[plumbing.Hash][]object.TreeEntry), 0
	}
	c.entries[h] = entries
	c.size += len(entries) + 1
}
