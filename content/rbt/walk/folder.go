package walk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/gitroot"
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
	name := filepath.FromSlash(target.Path)
	if info, err := root.Stat(name); err != nil {
		return nil, folderError(err)
	} else if !info.Mode().IsRegular() { // to open a pipe, say, would wait for its writer
		return nil, fmt.Errorf("%w: %s", gitroot.ErrNotRegular, target.Path)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, folderError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s", gitroot.ErrNotRegular, target.Path)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: %s has more than %d octets", fetch.ErrTooLarge, target.Path, limit)
	}
	return data, err
}

// folderError gives the names that they have in a repository to what is wrong with
// one path. That a link leads out has none in the standard library.
func folderError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", gitroot.ErrNotFound, err)
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("%w: %w", gitroot.ErrLoop, err)
	case strings.HasSuffix(err.Error(), "escapes from parent"):
		return fmt.Errorf("%w: %w", gitroot.ErrOutside, err)
	}
	return err
}

func (p *folderPlace) document(ctx context.Context, target rbt.Target) ([]byte, error) {
	return p.read(ctx, target, rbt.MaxManifest)
}

func (p *folderPlace) url(rbt.Target) string { return "" }
func (p *folderPlace) kind() string          { return "folder" }
func (p *folderPlace) root() rbt.Root        { return rbt.Root{} }
