package durable_test

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func readAll(t *testing.T, f *durable.Folder, name string) (string, error) {
	t.Helper()
	r, err := f.Open(name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b), nil
}

func TestAKeptFileOutlivesACrash(t *testing.T) {
	for seed := range uint64(40) {
		d := durabletest.New()
		f := durable.OpenFolder(d.FS(), "/data/large").Sub("one")
		write := func(name, text string) *durable.NewFile {
			n, err := f.Create(name)
			if err == nil {
				_, err = n.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if err := errors.Join(write("kept", "all of it").Keep(), write("gone", "x").Keep(), f.Remove("gone", "never")); err != nil {
			t.Fatal(err)
		}
		write("open", "some of it")
		after := durable.OpenFolder(d.Crash(rand.New(rand.NewPCG(seed, 1)), 50).FS(), "/data/large/one")
		if got, err := readAll(t, after, "kept"); err != nil || got != "all of it" {
			t.Fatalf("seed %d: %q, %v", seed, got, err)
		}
		if _, err := readAll(t, after, "gone"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("seed %d: what was removed is back: %v", seed, err)
		}
	}
}

func TestAFileThatFailsLeavesNothing(t *testing.T) {
	d := durabletest.New()
	f := durable.OpenFolder(d.FS(), "/data/large")
	if names, err := f.Names(); err != nil || names != nil {
		t.Fatalf("a folder that was never made: %q, %v", names, err)
	}
	n, err := f.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	d.OnWrite(func(_ int64, op, _ string) error {
		if op == durabletest.OpSync {
			d.OnWrite(func(int64, string, string) error { return nil })
			return durabletest.EIO
		}
		return nil
	})
	if err := n.Keep(); !errors.Is(err, durabletest.EIO) {
		t.Errorf("a sync that failed: %v", err)
	}
	if n, err = f.Create("b"); err != nil {
		t.Fatal(err)
	}
	if err := n.Drop(); err != nil {
		t.Error(err)
	}
	if n, err = f.Create("c"); err != nil {
		t.Fatal(err)
	}
	if err := n.Keep(); err != nil {
		t.Error(err)
	}
	if names, err := f.Names(); err != nil || !slices.Equal(names, []string{"c"}) {
		t.Errorf("%q, %v", names, err)
	}
}
