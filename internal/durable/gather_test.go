package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"
)

// TestWhatIsGatheredIsWrittenWhole: in its order, however it comes, by the time it is
// synced or closed; and a crash behind a sync takes nothing of it.
func TestWhatIsGatheredIsWrittenWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := vfs.NewCrashableMem()
		var want, durable []byte
		f := gathered(t, disk)
		if d, err := disk.OpenDir(""); err != nil || d.Sync() != nil {
			t.Fatal(err)
		}
		ok := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		read := func(when string, from vfs.FS, want []byte) {
			if got := contents(t, from); !bytes.Equal(got, want) {
				t.Fatalf("%s it has %d octets, want %d", when, len(got), len(want))
			}
		}
		for i := range rapid.IntRange(0, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				ok(f.Sync())
				durable = bytes.Clone(want)
				read("synced", disk, want)
			case 1:
				ok(f.SyncData())
				durable = bytes.Clone(want)
				read("its data synced", disk, want)
			case 2:
				_, err := f.SyncTo(int64(len(want)))
				ok(err)
				read("synced so far", disk, want)
			default:
				p := bytes.Repeat([]byte{byte(i + 1)}, rapid.IntRange(0, gatherBytes+gatherBytes/2).Draw(t, "octets"))
				want = append(want, p...) // before: who writes to a vfs.File may find p changed
				n, err := f.Write(p)
				if err != nil || n != len(p) {
					t.Fatalf("Write = %d of %d, %v", n, len(p), err)
				}
			}
		}
		if got := contents(t, disk.CrashClone(vfs.CrashCloneCfg{})); !bytes.HasPrefix(got, durable) {
			t.Fatalf("a crash left %d octets, and not the %d that were synced", len(got), len(durable))
		}
		ok(f.Close())
		read("closed", disk, want)
	})
}

// TestAnErrorOfWhatIsGatheredIsToldBeforeItIsDurable: by the sync, at the latest.
func TestAnErrorOfWhatIsGatheredIsToldBeforeItIsDurable(t *testing.T) {
	broken := errors.New("broken")
	for name, end := range map[string]func(vfs.File) error{
		"sync":          vfs.File.Sync,
		"sync its data": vfs.File.SyncData,
		"sync so far":   func(f vfs.File) error { _, err := f.SyncTo(1); return err },
		"close":         vfs.File.Close,
	} {
		t.Run(name, func(t *testing.T) {
			disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == errorfs.OpFileWrite {
					return broken
				}
				return nil
			}))
			f := gathered(t, disk)
			if _, err := f.Write([]byte("x")); err != nil {
				t.Fatalf("a write of an octet is gathered, and said %v", err)
			}
			if err := end(f); !errors.Is(err, broken) {
				t.Errorf("%v, want %v", err, broken)
			}
			if name == "close" {
				return
			}
			if err := f.Close(); !errors.Is(err, broken) {
				t.Errorf("close: %v, want %v", err, broken)
			}
			if g := gathered(t, vfs.NewMem()); g.Close() != nil {
				t.Error("the next file has the error of this one")
			}
		})
	}
}

// TestTablesAndValuesAreGathered: those that Pebble makes, and nothing else.
func TestTablesAndValuesAreGathered(t *testing.T) {
	g := newGuard(vfs.NewMem(), "")
	for name, want := range map[string]bool{
		"000007.sst": true, "000008.blob": true,
		"000009.log": false, "MANIFEST-000001": false, "OPTIONS-000003": false, "marker.manifest.000001.MANIFEST-000001": false,
	} {
		f, err := g.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, is := f.(*gatheringFile); is != want {
			t.Errorf("%s: %T", name, f)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func gathered(t rapid.TB, disk vfs.FS) vfs.File {
	t.Helper()
	f, err := disk.Create("f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	return gathering(f)
}

func contents(t rapid.TB, disk vfs.FS) []byte {
	t.Helper()
	f, err := disk.Open("f")
	if errors.Is(err, fs.ErrNotExist) { // its name was not synced
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
