package follow

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A disk is what is done to the state folder, step by step. Each step is durable
// when it returns nil.
type disk interface {
	// Write puts a file there whole or not at all.
	Write(path string, data []byte) error
	// Rename gives a folder another name within the folder that it is in.
	Rename(from, to string) error
	// RemoveAll removes a folder.
	RemoveAll(path string) error
}

// system is the disk of the operating system.
type system struct{}

func (system) Write(path string, data []byte) error { return durable.WriteFile(path, data, 0o600) }

func (system) Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}

func (system) RemoveAll(path string) error { return os.RemoveAll(path) }

// ErrLocked: another process follows in the same folder.
var ErrLocked = errors.New("another process follows logs in this folder")

// lock makes dir, with what belongs in it, and holds it for this process. The
// lock ends with the process.
func lock(dir string) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	if err := errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(filepath.Clean(dir)))); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%s: %w", dir, ErrLocked)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readFile reads at most limit octets: a longer file is refused.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s is over %d octets, more than any such file has", path, limit)
	}
	return b, err
}
