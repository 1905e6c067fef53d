package walk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// A folderPlace is a plain folder of this machine. Nothing outside it is read,
// whatever a symbolic link says.
type folderPlace struct{ dir string }

// isFolder reports whether a folder holds a manifest and is no repository.
func isFolder(l *Local) bool {
	for _, name := range []string{".git", "HEAD"} {
		if _, err := os.Lstat(filepath.Join(l.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	info, err := os.Stat(l.Dir)
	return err == nil && info.IsDir() && l.Ref == ""
}

func newFolder(l *Local) *folderPlace {
	return &folderPlace{filepath.Join(l.Dir, filepath.FromSlash(l.Path))}
}

func (p *folderPlace) read(ctx context.Context, target rbt.Target, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(target.Path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: %w", target.Path, fs.ErrNotExist)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: %s has more than %d octets", fetch.ErrTooLarge, target.Path, limit)
	}
	return data, err
}

func (p *folderPlace) document(ctx context.Context, target rbt.Target) ([]byte, error) {
	return p.read(ctx, target, rbt.MaxManifest)
}

func (p *folderPlace) url(rbt.Target) string { return "" }
func (p *folderPlace) kind() string          { return "folder" }
func (p *folderPlace) root() rbt.Root        { return rbt.Root{} }
