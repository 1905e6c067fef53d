package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// TestWritingIsBegunAndItsErrorTold: what no file of a disk is does not matter, and
// what the system says is an error of the sync.
func TestWritingIsBegunAndItsErrorTold(t *testing.T) {
	f, err := vfs.Default.Create(filepath.Join(t.TempDir(), "f"), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := beginWriting(f); err != nil {
		t.Errorf("a file: %v", err)
	}
	g := &guardedFile{File: f, g: newGuard(vfs.Default, t.TempDir()), name: "f"}
	if err := g.SyncData(); err != nil {
		t.Errorf("sync: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := beginWriting(numbered{f, w.Fd()}); err != nil {
		t.Errorf("a pipe: %v", err)
	}
	memory, err := vfs.NewMem().Create("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := beginWriting(memory); err != nil {
		t.Errorf("no file of the system: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	g.File = numbered{f, 1 << 20}
	if err := g.SyncData(); !errors.Is(err, unix.EBADF) {
		t.Errorf("a file that is not open: %v, want EBADF", err)
	}
}

// numbered is a file of another number.
type numbered struct {
	vfs.File
	fd uintptr
}

func (f numbered) Fd() uintptr { return f.fd }
