package gitroot

import (
	"context"
	"fmt"
	"iter"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// A Change is one path at which two trees differ: in content, in kind, or in
// that only one has it. The side that has no file there is the zero File.
type Change struct {
	Path     string
	Old, New File
}

// Changes yields the paths, other than those of folders, at which t differs from
// an earlier tree of the same repository, in git's own order; folders that are
// the same are not read. A symlink counts as changed when its own target does,
// not when what lies there does. It holds one path of folders in memory.
func (t *Tree) Changes(ctx context.Context, from *Tree) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		d := &difference{repo: t.repo, yield: yield}
		if from.repo != t.repo {
			yield(Change{}, fmt.Errorf("trees of two repositories: %w", ErrNoCommit))
			return
		}
		if _, err := d.folders(ctx, from.root, t.root, "", 0); err != nil {
			yield(Change{}, err)
		}
	}
}

type difference struct {
	repo  *Repository
	count int
	yield func(Change, error) bool
}

// folders compares two folders; the zero hash stands for none.
func (d *difference) folders(ctx context.Context, before, after plumbing.Hash, prefix string, depth int) (more bool, err error) {
	if before == after {
		return true, nil
	}
	if depth > d.repo.limits.Depth {
		return false, fmt.Errorf("%.200q: %w: more than %d folders deep", prefix, ErrTooLarge, d.repo.limits.Depth)
	}
	olds, err := d.read(before)
	if err != nil {
		return false, err
	}
	news, err := d.read(after)
	if err != nil {
		return false, err
	}
	for len(olds)+len(news) > 0 {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if d.count++; d.count > d.repo.limits.Files {
			return false, fmt.Errorf("%w: more than %d files and folders differ", ErrTooLarge, d.repo.limits.Files)
		}
		var one, other object.TreeEntry
		switch {
		case len(news) == 0 || len(olds) > 0 && sortName(olds[0]) < sortName(news[0]):
			one, olds = olds[0], olds[1:]
		case len(olds) == 0 || sortName(olds[0]) > sortName(news[0]):
			other, news = news[0], news[1:]
		default:
			one, other, olds, news = olds[0], news[0], olds[1:], news[1:]
		}
		if more, err := d.entries(ctx, one, other, prefix, depth); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

// entries compares what lies under one name; the zero entry is nothing. A folder
// and a file of the same name are never compared: they sort apart.
func (d *difference) entries(ctx context.Context, before, after object.TreeEntry, prefix string, depth int) (more bool, err error) {
	if before.Hash == after.Hash && before.Mode == after.Mode {
		return true, nil
	}
	name := before.Name + after.Name
	if before.Name == after.Name {
		name = before.Name
	}
	if before.Name != "" && kindOf(before) == Folder || after.Name != "" && kindOf(after) == Folder {
		return d.folders(ctx, before.Hash, after.Hash, prefix+name+"/", depth+1)
	}
	c := Change{Path: prefix + name}
	if before.Name != "" {
		if c.Old, err = d.repo.file(before, prefix); err != nil {
			return false, err
		}
	}
	if after.Name != "" {
		if c.New, err = d.repo.file(after, prefix); err != nil {
			return false, err
		}
	}
	return d.yield(c, nil), nil
}

func (d *difference) read(h plumbing.Hash) ([]object.TreeEntry, error) {
	if h.IsZero() {
		return nil, nil
	}
	return d.repo.lockedTree(h)
}

// sortName is by what git sorts: a folder as if its name ended in a slash.
func sortName(e object.TreeEntry) string {
	if kindOf(e) == Folder {
		return e.Name + "/"
	}
	return e.Name
}
