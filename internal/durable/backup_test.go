package durable

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAStoreIsReadWithoutBeingChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	if err := errors.Join(b.Set([]byte("k"), []byte("v")), b.Commit(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReadOnly(dir, Options{Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := namesOf(t, dir)
	s, err = OpenReadOnly(dir, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get([]byte("k")); err != nil || string(v) != "v" {
		t.Errorf("Get = %q, %v", v, err)
	}
	b = s.NewBatch()
	if err := errors.Join(b.Set([]byte("k"), []byte("w")), b.Commit()); err == nil {
		t.Error("a commit to a store that is only read")
	}
	_ = b.Close()
	_ = s.Close() // it has refused a commit, and so failed
	if after := namesOf(t, dir); !slices.Equal(before, after) {
		t.Errorf("files %v, before %v", after, before)
	}
	if _, err := OpenReadOnly(filepath.Join(dir, "nowhere"), Options{Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a store that is not there was opened")
	}
}

func namesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSlotsAreReadWhileTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(filepath.Join(dir, "store"), Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	path := filepath.Join(dir, "mark")
	if v, err := ReadSlots(nil, path); v != nil || err != nil {
		t.Errorf("no file: %q, %v", v, err)
	}
	sl, err := s.OpenSlots(path)
	if err != nil {
		t.Fatal(err)
	}
	defer sl.Close()
	for _, want := range []string{"", "one", "two", "three"} {
		if want != "" {
			if err := sl.Write([]byte(want)); err != nil {
				t.Fatal(err)
			}
		}
		if v, err := ReadSlots(nil, path); string(v) != want || err != nil {
			t.Errorf("%q, %v, want %q", v, err, want)
		}
	}
	if err := os.WriteFile(path, append([]byte{9}, append(make([]byte, 511), append([]byte{9}, make([]byte, 511)...)...)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSlots(nil, path); !errors.Is(err, ErrSlots) {
		t.Errorf("both sectors damaged: %v", err)
	}
}

func TestAFolderIsThereWholeOrNotAtAll(t *testing.T) {
	parent := t.TempDir()
	from := filepath.Join(parent, "from")
	write := func(path, text string, mode fs.FileMode) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(from, "keys", "a.key"), "secret", 0o600)
	write(filepath.Join(from, "store", "x"), "row", 0o644)
	write(filepath.Join(from, "card"), "card", 0o644)
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(parent, "deep", "to")
	failed := errors.New("made up")
	err := MakeFolder(to, func(temp string) error {
		write(filepath.Join(temp, "half"), "x", 0o600)
		return failed
	})
	if !errors.Is(err, failed) || len(namesOf(t, filepath.Dir(to))) != 0 {
		t.Errorf("a folder that failed: %v, left behind %v", err, namesOf(t, filepath.Dir(to)))
	}
	err = MakeFolder(to, func(temp string) error {
		if _, err := os.Stat(to); err == nil {
			t.Error("it is there before it is whole")
		}
		return CopyFiles(temp, from, func(path string) bool { return path == "store" })
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := namesOf(t, to); !slices.Equal(got, []string{"card", "keys"}) {
		t.Errorf("copied %v", got)
	}
	info, err := os.Stat(filepath.Join(to, "keys", "a.key"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("a key has mode %v, %v", info.Mode(), err)
	}
	if n, err := FolderSize(to); n != int64(len("secret")+len("card")) || err != nil {
		t.Errorf("%d octets, %v", n, err)
	}
	if err := MakeFolder(to, func(string) error { return nil }); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a folder that is there: %v", err)
	}
	if got := namesOf(t, filepath.Dir(to)); !slices.Equal(got, []string{"to"}) {
		t.Errorf("left behind %v", got)
	}
}
