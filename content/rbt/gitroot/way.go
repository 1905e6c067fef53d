package gitroot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	maxLinks  = 40 // symlinks on one way, as Linux has it
	maxTarget = 4 << 10
	maxPath   = 4 << 10
	maxSteps  = 4096 // names on one way, those of symlinks included
)

// A way leads from the root of a tree to one of its entries. The caller of its
// methods holds storageMu.
type way struct {
	repo  *Repository
	root  plumbing.Hash
	links int // symlinks that may still be followed; negative: none may be

	folders []plumbing.Hash // that were entered, below root
	names   []string        // of what was entered, the last entry included
}

// resolve goes along a path. Whatever it holds, it stays below root.
func (w *way) resolve(path string) (object.TreeEntry, error) {
	if len(path) > maxPath || strings.HasPrefix(path, "/") || strings.IndexByte(path, 0) >= 0 {
		return object.TreeEntry{}, ErrOutside
	}
	rest := strings.Split(path, "/")
	at := object.TreeEntry{Mode: filemode.Dir, Hash: w.root}
	for steps := 0; len(rest) > 0; steps++ {
		if steps > maxSteps {
			return object.TreeEntry{}, ErrLoop
		}
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			if kindOf(at) != Folder {
				return object.TreeEntry{}, fmt.Errorf("%w: %.100q is no folder", ErrNotFound, strings.Join(w.names, "/"))
			}
			continue
		case "..":
			if len(w.names) == 0 {
				return object.TreeEntry{}, ErrOutside
			}
			w.names, w.folders = w.names[:len(w.names)-1], w.folders[:len(w.folders)-1]
			at = object.TreeEntry{Mode: filemode.Dir, Hash: w.folder()}
			continue
		}
		next, err := w.enter(at, name)
		if err != nil {
			return object.TreeEntry{}, err
		}
		if kindOf(next) == Symlink {
			target, err := w.follow(next)
			if err != nil {
				return object.TreeEntry{}, err
			}
			rest = slices.Concat(target, rest)
			continue
		}
		at = next
		w.names, w.folders = append(w.names, name), append(w.folders, next.Hash)
	}
	return at, nil
}

// folder is the hash of where the way stands.
func (w *way) folder() plumbing.Hash {
	if len(w.folders) == 0 {
		return w.root
	}
	return w.folders[len(w.folders)-1]
}

// enter finds a name where the way stands.
func (w *way) enter(at object.TreeEntry, name string) (object.TreeEntry, error) {
	switch kindOf(at) {
	case Folder:
	case Submodule:
		return object.TreeEntry{}, fmt.Errorf("%w: %.100q", ErrSubmodule, strings.Join(w.names, "/"))
	default:
		return object.TreeEntry{}, fmt.Errorf("%w: %.100q is no folder", ErrNotFound, strings.Join(w.names, "/"))
	}
	entries, err := w.repo.readTree(at.Hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return object.TreeEntry{}, fmt.Errorf("tree %s is missing: %w", at.Hash, ErrNoCommit)
	} else if err != nil {
		return object.TreeEntry{}, err
	}
	if i := slices.IndexFunc(entries, func(e object.TreeEntry) bool { return e.Name == name }); i >= 0 {
		return entries[i], nil
	}
	return object.TreeEntry{}, fmt.Errorf("%w: no %.100q", ErrNotFound, name)
}

// follow returns the names that a symlink stands for.
func (w *way) follow(link object.TreeEntry) ([]string, error) {
	if w.links < 0 {
		return nil, fmt.Errorf("%w: symlink %.100q", ErrOutside, link.Name)
	}
	if w.links == 0 {
		return nil, ErrLoop
	}
	w.links--
	target, err := w.repo.readBlob(link.Hash, maxTarget)
	if err != nil {
		return nil, err
	}
	if len(target) == 0 || target[0] == '/' || bytes.IndexByte(target, 0) >= 0 {
		return nil, fmt.Errorf("%w: symlink %.100q to %.100q", ErrOutside, link.Name, target)
	}
	return strings.Split(string(target), "/"), nil
}

const lfsVersion = "version https://git-lfs.github.com/spec/v1\n"

// parseLFS reads a pointer of Git LFS, or returns nil for any other content.
func parseLFS(data []byte) *LFSError {
	if len(data) >= 1024 || !bytes.HasPrefix(data, []byte(lfsVersion)) {
		return nil
	}
	pointer := &LFSError{Size: -1}
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "oid":
			pointer.OID, _ = strings.CutPrefix(value, "sha256:")
		case "size":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
				pointer.Size = n
			}
		}
	}
	if raw, err := hex.DecodeString(pointer.OID); err != nil || len(raw) != 32 || pointer.Size < 0 || pointer.OID != strings.ToLower(pointer.OID) {
		return nil
	}
	return pointer
}
