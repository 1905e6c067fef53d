package exported

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestAnExportIsWholeWhereverItsMakerDies ends the maker of a version behind each of its
// steps. What is in place is the version before or the new one, whole and signed; and
// the next one is made all the same, and leaves nothing beside it.
func TestAnExportIsWholeWhereverItsMakerDies(t *testing.T) {
	for _, first := range []bool{true, false} {
		for dies := range 6 {
			t.Run(fmt.Sprintf("first %t, behind step %d", first, dies), func(t *testing.T) {
				m := newMaker(t)
				if !first {
					m.export(1)
				}
				f, err := Begin(m.dir)
				check(t, err)
				for _, step := range m.steps(2)[:dies] {
					check(t, step(f))
				}
				f.lock.Close() // a process that ends lets go of it
				switch placed := dies >= 4; {
				case placed && m.version() != 2, !placed && !first && m.version() != 1:
					t.Errorf("version %d is in place", m.version())
				case !placed && first && IsExport(m.dir):
					t.Error("an export is in place that was not to its end")
				}
				m.export(3)
				if n := m.version(); n != 3 {
					t.Errorf("version %d is in place, want 3", n)
				}
				if _, err := os.Lstat(m.dir + ".next"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a successor is left: %v", err)
				}
			})
		}
	}
}

// TestWhatIsHalfRemovedCanBeToldFromAStrangersFolder: the mark goes last.
func TestWhatIsHalfRemovedCanBeToldFromAStrangersFolder(t *testing.T) {
	m := newMaker(t)
	m.export(1)
	next := m.dir + ".next"
	check(t, os.MkdirAll(filepath.Join(next, "data"), 0o755))
	check(t, os.WriteFile(filepath.Join(next, "data", "left"), nil, 0o644))
	if _, err := Begin(m.dir); !errors.Is(err, ErrNotExport) {
		t.Errorf("in the way of a stranger's folder Begin = %v", err)
	}
	if _, err := os.Lstat(filepath.Join(next, "data", "left")); err != nil {
		t.Errorf("the stranger's file: %v", err)
	}
	check(t, os.WriteFile(filepath.Join(next, markFile), nil, 0o644))
	m.export(2)
	if n := m.version(); n != 2 {
		t.Errorf("version %d is in place", n)
	}
}

func TestAFolderOfSomebodyElseIsNotTouched(t *testing.T) {
	m := newMaker(t)
	check(t, os.MkdirAll(m.dir, 0o755))
	m.export(1) // an empty one may be there
	other := filepath.Join(t.TempDir(), "other")
	check(t, os.MkdirAll(other, 0o755))
	check(t, os.WriteFile(filepath.Join(other, "letter"), []byte("dear"), 0o644))
	if _, err := Begin(other); !errors.Is(err, ErrNotExport) {
		t.Errorf("Begin = %v", err)
	}
	if raw, err := os.ReadFile(filepath.Join(other, "letter")); err != nil || string(raw) != "dear" {
		t.Errorf("%q, %v", raw, err)
	}
}

func TestOneExportAtATimeIsMadeIntoAFolder(t *testing.T) {
	m := newMaker(t)
	m.export(1)
	f, err := Begin(m.dir)
	check(t, err)
	put(t, f, "data/c/page", "in the making\n")
	if _, err := Begin(m.dir + "/"); !errors.Is(err, ErrBusy) {
		t.Errorf("the second Begin = %v", err)
	}
	if raw, err := os.ReadFile(filepath.Join(f.Dir, "data/c/page")); err != nil || string(raw) != "in the making\n" {
		t.Errorf("what is made holds %q, %v", raw, err)
	}
	check(t, f.Abandon())
	m.export(2)
	if n := m.version(); n != 2 {
		t.Errorf("version %d is in place", n)
	}
}

// TestAFileThatStaysIsTheSameFile: what does not change is not touched, and who replaces
// a file of the successor changes nothing of what is in place.
func TestAFileThatStaysIsTheSameFile(t *testing.T) {
	m := newMaker(t)
	m.export(1)
	same := func(name string) fs.FileInfo {
		info, err := os.Stat(filepath.Join(m.dir, name))
		check(t, err)
		return info
	}
	before := same("SHA256SUMS")
	f, err := Begin(m.dir)
	check(t, err)
	put(t, f, "data/c/page", "other\n")
	info, err := os.Stat(filepath.Join(f.Dir, "data/c/same"))
	check(t, err)
	if !os.SameFile(info, same("data/c/same")) {
		t.Error("a file that stays is another file in the successor")
	}
	check(t, m.sign(f))
	if n := m.version(); n != 1 || !os.SameFile(before, same("SHA256SUMS")) {
		t.Errorf("version %d is in place while the next is made", n)
	}
	check(t, f.Abandon())
	if n := m.version(); n != 1 {
		t.Errorf("version %d is in place behind one that was given up", n)
	}
}

// TestAReaderSeesTheOldExportOrTheNew has readers open the folder again and again while
// it is replaced: all that they find in one is of one version.
func TestAReaderSeesTheOldExportOrTheNew(t *testing.T) {
	m := newMaker(t)
	m.export(1)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for seen := 0; ; seen++ {
				select {
				case <-done:
					if seen == 0 {
						t.Error("a reader has never looked")
					}
					return
				default:
				}
				if err := oneVersion(m.dir); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for version := range 30 {
		m.export(version + 2)
	}
	close(done)
	readers.Wait()
}

// oneVersion opens a folder once, and reads two files of it. That the folder is gone by
// then is no error.
func oneVersion(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	page, err := root.ReadFile("data/c/page")
	line, again := root.ReadFile("pages/c.jsonl")
	if err := errors.Join(err, again); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	var a, b int
	if _, err := fmt.Sscanf(string(page), "version %d\n", &a); err != nil {
		return err
	}
	if _, err := fmt.Sscanf(string(line), `{"url":"https://example.com/%d"}`, &b); err != nil {
		return err
	}
	if a != b {
		return fmt.Errorf("a page of version %d beside the lines of version %d", a, b)
	}
	return nil
}
