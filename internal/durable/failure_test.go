package durable_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// work opens a store, commits and flushes, and says how many commits were
// acknowledged before the first error.
func work(d *durabletest.Disk) (s *durable.Store, acked int, err error) {
	s, err = durable.Open(dir, durable.Options{FS: d.FS(), Logger: quiet, CacheBytes: 1 << 20})
	if err != nil {
		return nil, 0, err
	}
	for i := range 12 {
		if err := put(s, fmt.Sprintf("k%03d", i), strings.Repeat("x", 5000)); err != nil {
			return s, acked, err
		}
		acked++
		if i%4 == 3 {
			if err := s.Flush(); err != nil {
				return s, acked, err
			}
		}
	}
	return s, acked, s.Compact()
}

// TestEveryFailedWritePoisons fails each write of a short life in turn, once
// with the disk well again afterwards and once for good.
func TestEveryFailedWritePoisons(t *testing.T) {
	whole := durabletest.New()
	s, _, err := work(whole)
	if err != nil {
		t.Fatal(err)
	}
	writes := whole.Writes()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n <= writes; n++ {
		for _, lasting := range []bool{false, true} {
			d := durabletest.New()
			d.FailAt(n, durabletest.EIO, lasting)
			s, acked, err := work(d)
			if s != nil && err != nil {
				refusesEverything(t, n, s)
			}
			if s != nil && err == nil {
				// The failure was that of an obsolete file's removal.
				if err := s.Close(); err != nil && !errors.Is(err, durable.ErrFailed) {
					t.Errorf("write %d: Close = %v", n, err)
				}
			}
			if err != nil && s != nil && !errors.Is(err, durabletest.EIO) {
				t.Errorf("write %d: %v does not name its cause", n, err)
			}
			after := d.Crash(rand.New(rand.NewPCG(uint64(n), 2)), 0)
			r := open(t, after)
			for i := range acked {
				if _, err := r.Get(fmt.Appendf(nil, "k%03d", i)); err != nil {
					t.Errorf("write %d failed (lasting %v): k%03d was acknowledged: %v", n, lasting, i, err)
				}
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d writes failed, each in two ways", writes)
}

func refusesEverything(t *testing.T, n int64, s *durable.Store) {
	t.Helper()
	_, errGet := s.Get([]byte("k000"))
	_, errSnap := s.Snapshot()
	_, errMetrics := s.Metrics()
	_, errSlots := s.OpenSlots("/data/mark")
	var errScan error
	for _, err := range s.Scan([]byte("k"), nil) {
		errScan = err
	}
	for _, err := range []error{put(s, "z", "z"), errGet, errScan, errSnap, errMetrics, errSlots, s.Checkpoint("/c"), s.Err(), s.Close()} {
		if !errors.Is(err, durable.ErrFailed) {
			t.Errorf("write %d failed, and later something answered %v", n, err)
		}
	}
	select {
	case <-s.Failed():
	default:
		t.Errorf("write %d failed, and Failed is open", n)
	}
}

// TestDamageInsideALogRefusesOpen flips a bit in front of synced batches: in
// the first log of a new store, in one that a flush began, and in the first
// after a reopening.
func TestDamageInsideALogRefusesOpen(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(*durabletest.Disk, *durable.Store) *durable.Store
	}{
		{"the first log of a new store", func(_ *durabletest.Disk, s *durable.Store) *durable.Store { return s }},
		{"the log after a flush", func(_ *durabletest.Disk, s *durable.Store) *durable.Store {
			if err := errors.Join(put(s, "a", "1"), s.Flush()); err != nil {
				t.Fatal(err)
			}
			return s
		}},
		{"the first log after a reopening", func(d *durabletest.Disk, s *durable.Store) *durable.Store {
			if err := errors.Join(put(s, "a", "1"), s.Close()); err != nil {
				t.Fatal(err)
			}
			return open(t, d)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := durabletest.New()
			s := tt.prepare(d, open(t, d))
			for i := range 200 {
				if err := put(s, fmt.Sprintf("k%03d", i), strings.Repeat("v", 500)); err != nil {
					t.Fatal(err)
				}
			}
			damaged := d.Crash(rand.New(rand.NewPCG(1, 1)), 0)
			log, size := liveLog(t, damaged)
			if err := damaged.Damage(log, int(size)*3/8); err != nil {
				t.Fatal(err)
			}
			r, err := durable.Open(dir, durable.Options{FS: damaged.FS(), Logger: quiet})
			if err == nil {
				n := 0
				for range r.Scan([]byte("k"), nil) {
					n++
				}
				t.Errorf("Open took a damaged log for a shorter one: %d of 200 keys", n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// liveLog is the log with the most octets.
func liveLog(t *testing.T, d *durabletest.Disk) (path string, size int64) {
	names, err := d.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		n, err := d.Size(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if n > size {
			path, size = dir+"/"+name, n
		}
	}
	if size < 3*32<<10 {
		t.Fatalf("the live log %s has %d octets", path, size)
	}
	return path, size
}

func TestDamageInsideATablePoisons(t *testing.T) {
	d := durabletest.New()
	s := open(t, d)
	if err := errors.Join(put(s, "k", strings.Repeat("v", 4000)), s.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := d.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			if err := d.Damage(dir+"/"+name, 20); err != nil {
				t.Fatal(err)
			}
		}
	}
	s = open(t, d)
	if v, err := s.Get([]byte("k")); err == nil {
		t.Errorf("Get = %.20q from a damaged block", v)
	}
	if !errors.Is(s.Err(), durable.ErrFailed) {
		t.Errorf("Err = %v after damage was read", s.Err())
	}
}
