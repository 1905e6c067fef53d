package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

const dir = "/data/store"

var quiet = slog.New(slog.DiscardHandler)

func open(t interface {
	Helper()
	Fatal(...any)
}, d *durabletest.Disk) *durable.Store {
	t.Helper()
	s, err := durable.Open(dir, durable.Options{FS: d.FS(), Logger: quiet, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put commits keys and values given in turn.
func put(s *durable.Store, kv ...string) error {
	b := s.NewBatch()
	for i := 0; i < len(kv); i += 2 {
		if err := b.Set([]byte(kv[i]), []byte(kv[i+1])); err != nil {
			return err
		}
	}
	return errors.Join(b.Commit(), b.Close())
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := durable.Open(filepath.Join(t.TempDir(), "a", "b"), durable.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if err := put(s, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if m, err := s.Metrics(); err != nil || m.DiskBytes == 0 {
		t.Errorf("Metrics = %+v, %v", m, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get([]byte("k")); !errors.Is(err, durable.ErrClosed) {
		t.Errorf("Get after Close = %v", err)
	}
	if err := put(s, "k", "w"); !errors.Is(err, durable.ErrClosed) {
		t.Errorf("Commit after Close = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
}

func TestASecondOpenIsLockedOut(t *testing.T) {
	base := t.TempDir()
	real, link := filepath.Join(base, "store"), filepath.Join(base, "link")
	s, err := durable.Open(real, durable.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{real, link, real + "/../store"} {
		if _, err := durable.Open(name, durable.Options{Logger: quiet}); !errors.Is(err, durable.ErrLocked) {
			t.Errorf("second Open of %s = %v, want ErrLocked", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = durable.Open(real, durable.Options{Logger: quiet})
	if err != nil {
		t.Fatalf("Open after Close = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFolderThatCannotBeMadeIsNotLocked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Open(filepath.Join(file, "store"), durable.Options{Logger: quiet}); err == nil || errors.Is(err, durable.ErrLocked) {
		t.Errorf("Open below a file = %v", err)
	}
}

// TestBatchAndStoreAgreeWithAMap runs random changes against a batch and a
// map, and compares every way of reading before and after the commit.
func TestBatchAndStoreAgreeWithAMap(t *testing.T) {
	s := open(t, durabletest.New())
	model := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[a-d]{1,3}`)
		b, before := s.NewBatch(), maps.Clone(model)
		other := s.NewBatch()
		into := b
		for i := range rapid.IntRange(1, 12).Draw(t, "changes") {
			k := key.Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				_ = into.Delete([]byte(k))
				delete(model, k)
			case 1:
				hi := key.Draw(t, "hi")
				if k > hi {
					k, hi = hi, k
				}
				_ = into.DeleteRange([]byte(k), []byte(hi))
				maps.DeleteFunc(model, func(x, _ string) bool { return x >= k && x < hi })
			default:
				_ = into.Set([]byte(k), []byte(fmt.Sprint(i)))
				model[k] = fmt.Sprint(i)
			}
			if i == 5 {
				into = other // the rest comes in by Merge
			}
		}
		if err := b.Merge(other); err != nil {
			t.Fatal(err)
		}
		snap, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, b, model)
		compare(t, s, before)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		compare(t, s, model)
		compare(t, snap, before)
		if err := errors.Join(b.Close(), other.Close(), snap.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func compare(t *rapid.T, r durable.Reader, model map[string]string) {
	keys := slices.Sorted(maps.Keys(model))
	lo, hi := []byte(rapid.SampledFrom([]string{"a", "b", "ca"}).Draw(t, "from")), []byte(nil)
	if rapid.Bool().Draw(t, "bounded") {
		hi = durable.PrefixEnd([]byte("c"))
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return k < string(lo) || (hi != nil && k >= string(hi)) })
	if got := read(t, r.Scan(lo, hi), model); !slices.Equal(got, keys) {
		t.Fatalf("Scan = %q, want %q", got, keys)
	}
	slices.Reverse(keys)
	if got := read(t, r.ScanReverse(lo, hi), model); !slices.Equal(got, keys) {
		t.Fatalf("ScanReverse = %q, want %q", got, keys)
	}
	for _, k := range []string{"a", "bb", "d"} {
		v, err := r.Get([]byte(k))
		if want, ok := model[k]; ok && (err != nil || string(v) != want) || !ok && !errors.Is(err, durable.ErrNotFound) {
			t.Fatalf("Get %s = %q, %v; want %q", k, v, err, want)
		}
	}
}

func read(t *rapid.T, rows iter.Seq2[durable.Row, error], model map[string]string) (keys []string) {
	for row, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		if model[string(row.Key)] != string(row.Value) {
			t.Fatalf("%s = %q, want %q", row.Key, row.Value, model[string(row.Key)])
		}
		keys = append(keys, string(row.Key))
	}
	return keys
}

func TestPrefixEndIsTheFirstKeyBehindThePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 254, 255}), 0, 4).Draw(t, "prefix")
		key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 254, 255}), 0, 6).Draw(t, "key")
		end := durable.PrefixEnd(prefix)
		in := bytes.Compare(key, prefix) >= 0 && (end == nil || bytes.Compare(key, end) < 0)
		if in != bytes.HasPrefix(key, prefix) {
			t.Fatalf("prefix %x, end %x, key %x: inside = %v", prefix, end, key, in)
		}
	})
}

// TestCommittedBatchesSurviveACrash cuts the power at random writes, keeps a
// random part of what was not synced, and looks for each batch.
func TestCommittedBatchesSurviveACrash(t *testing.T) {
	for seed := range uint64(40) {
		rng, fate := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)) // fate is the crash's alone
		d := durabletest.New()
		at, unsynced := int64(rng.IntN(100)+1), rng.IntN(101) // some 130 writes are made, fewer if the store joins some
		var crashed *durabletest.Disk
		var acked, ackedThen atomic.Int64
		var once sync.Once
		d.OnWrite(func(n int64, _, _ string) error {
			if n >= at {
				once.Do(func() {
					ackedThen.Store(acked.Load())
					crashed = d.Crash(fate, unsynced)
				})
			}
			return nil
		})
		s := open(t, d)
		for i := range 60 {
			if err := put(s, fmt.Sprintf("a%03d", i), "1", fmt.Sprintf("b%03d", i), strings.Repeat("x", rng.IntN(9000))); err != nil {
				t.Fatal(err)
			}
			acked.Store(int64(i + 1))
			if i%25 == 24 {
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if crashed == nil {
			t.Fatalf("seed %d: only %d writes", seed, d.Writes())
		}
		r := open(t, crashed)
		for i := range 60 {
			_, errA := r.Get([]byte(fmt.Sprintf("a%03d", i)))
			_, errB := r.Get([]byte(fmt.Sprintf("b%03d", i)))
			if (errA == nil) != (errB == nil) {
				t.Errorf("seed %d: half of batch %d", seed, i)
			}
			if n := ackedThen.Load(); errA != nil && int64(i) < n {
				t.Errorf("seed %d: batch %d of %d is gone: %v", seed, i, n, errA)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckpointIsAWholeStore(t *testing.T) {
	d := durabletest.New()
	s := open(t, d)
	if err := put(s, "k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint("/data/store/copy"); err == nil {
		t.Error("a checkpoint inside the store was made")
	}
	if err := s.Checkpoint("/data/copy"); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint("/data/copy"); err == nil {
		t.Error("a checkpoint over another was made")
	}
	if err := put(s, "k", "w"); err != nil {
		t.Errorf("after a checkpoint that went wrong: %v", err)
	}
	c, err := durable.Open("/data/copy", durable.Options{FS: d.FS(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get([]byte("k")); string(v) != "v" {
		t.Errorf("the copy holds %q, %v", v, err)
	}
	if err := errors.Join(c.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}
