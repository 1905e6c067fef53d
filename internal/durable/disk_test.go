package durable_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

const (
	ballast  = dir + ".ballast"
	lowWater = 1 << 20
)

var smallRoom = durable.Room{Ballast: 64 << 10, LowWater: lowWater, Every: time.Millisecond}

func openRoom(d *durabletest.Disk, r durable.Room) (*durable.Store, error) {
	return durable.Open(dir, durable.Options{FS: d.FS(), Logger: quiet, CacheBytes: 1 << 20, Room: r})
}

// needsRoom reports whether a full disk refuses the operation. A sync may fail
// likewise, but is never made again.
func needsRoom(op string) bool {
	return op != durabletest.OpSync && op != durabletest.OpRemove
}

// fill makes the disk full from write n on: for as long as the ballast is
// there, or for good.
func fill(d *durabletest.Disk, n int64, good bool) {
	d.SetFree(1 << 30)
	d.OnWrite(func(i int64, op, path string) error {
		if i < n {
			return nil
		}
		d.SetFree(1)
		if _, err := d.Size(ballast); needsRoom(op) && (good || err == nil) {
			return durabletest.ENOSPC
		}
		return nil
	})
}

// empty gives the disk room again.
func empty(d *durabletest.Disk) {
	d.OnWrite(func(int64, string, string) error { return nil })
	d.SetFree(1 << 30)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestAFullDiskIsGivenTheBallast fills the disk at each write of a short life
// in turn. What needs room is made again once the ballast is gone, and so no
// commit fails and none is lost; afterwards only what is small is to be
// written, until there is room for a new ballast.
func TestAFullDiskIsGivenTheBallast(t *testing.T) {
	life := func(d *durabletest.Disk) (*durable.Store, error) {
		s, err := openRoom(d, smallRoom)
		for i := 0; err == nil && i < 12; i++ {
			if err = put(s, fmt.Sprintf("k%03d", i), strings.Repeat("x", 5000)); err == nil && i%4 == 3 {
				err = s.Flush()
			}
		}
		return s, err
	}
	whole := durabletest.New()
	whole.SetFree(1 << 30)
	s, err := life(whole)
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	refused, given := 0, 0
	for n := int64(1); n <= whole.Writes(); n++ {
		d := durabletest.New()
		fill(d, n, false)
		s, err := life(d)
		if s == nil { // there was no room for the ballast itself
			if refused++; !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "start again") {
				t.Fatalf("full at write %d: Open = %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("full at write %d: %v", n, err)
		}
		if s.Disk().Released > 0 {
			given++
			if !errors.Is(s.Room(), durable.ErrFull) {
				t.Errorf("full at write %d: Room = %v", n, s.Room())
			}
		}
		empty(d)
		eventually(t, "room and a ballast", func() bool { return s.Room() == nil && s.Disk().Ballast == smallRoom.Ballast })
		r := open(t, d.Crash(rand.New(rand.NewPCG(uint64(n), 3)), 0))
		for i := range 12 {
			if _, err := r.Get(fmt.Appendf(nil, "k%03d", i)); err != nil {
				t.Errorf("full at write %d: k%03d was acknowledged: %v", n, i, err)
			}
		}
		if err := errors.Join(s.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	}
	if t.Logf("of %d: %d refused, %d given the ballast", whole.Writes(), refused, given); refused == 0 || given < 20 {
		t.Error("the test does not test")
	}
}

// TestADiskThatStaysFullEndsTheStore leaves no room behind the ballast either.
func TestADiskThatStaysFullEndsTheStore(t *testing.T) {
	d := durabletest.New()
	fill(d, 1<<30, false)
	s, err := openRoom(d, smallRoom)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(s, "before", "1"); err != nil {
		t.Fatal(err)
	}
	fill(d, 0, true)
	err = put(s, "after", "1")
	if !errors.Is(err, durable.ErrFailed) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some room") {
		t.Errorf("Commit = %v", err)
	}
	if err := s.Close(); !errors.Is(err, durable.ErrFailed) {
		t.Errorf("Close = %v", err)
	}
	r := open(t, d.Crash(rand.New(rand.NewPCG(1, 3)), 50))
	if _, err := r.Get([]byte("before")); err != nil {
		t.Errorf("what was acknowledged: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestASyncThatFindsNoRoomIsNotMadeAgain: unlike a write it may have lost what
// it was to keep.
func TestASyncThatFindsNoRoomIsNotMadeAgain(t *testing.T) {
	d := durabletest.New()
	d.SetFree(1 << 30)
	s, err := openRoom(d, smallRoom)
	if err != nil {
		t.Fatal(err)
	}
	var syncs atomic.Int64
	d.OnWrite(func(_ int64, op, path string) error {
		if op == durabletest.OpSync && strings.HasSuffix(path, ".log") && syncs.Add(1) == 1 {
			return durabletest.ENOSPC
		}
		return nil
	})
	if err := put(s, "k", "v"); !errors.Is(err, durable.ErrFailed) || syncs.Load() != 1 {
		t.Errorf("Commit = %v after %d syncs", err, syncs.Load())
	}
}

func TestTheLowWaterMarkHasTwoHeights(t *testing.T) {
	d := durabletest.New()
	d.SetFree(lowWater - 1)
	s, err := openRoom(d, smallRoom) // it can still be read, and emptied
	if err != nil {
		t.Fatal(err)
	}
	full := func() bool { return errors.Is(s.Room(), durable.ErrFull) }
	if !full() || s.Disk().Free != lowWater-1 {
		t.Errorf("below the mark: %v, %+v", s.Room(), s.Disk())
	}
	looked := func(free uint64) {
		d.SetFree(free)
		if err := put(s, "small", "1"); err != nil { // and have it looked at
			t.Fatal(err)
		}
		eventually(t, "a look", func() bool { return s.Disk().Free == free })
		time.Sleep(10 * time.Millisecond) // what follows from it
	}
	if looked(lowWater); !full() {
		t.Error("at the mark again it is too early")
	}
	looked(lowWater * 5 / 4)
	eventually(t, "room", func() bool { return s.Room() == nil })
	if looked(lowWater); full() {
		t.Error("at the mark there is room")
	}
	looked(lowWater - 1)
	eventually(t, "the end of the room", full)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestTheBallastIsAllocated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	const size = 3<<20 + 5
	for _, tt := range []struct {
		name string
		room int64
	}{{"made", size}, {"found", size}, {"made smaller", 1 << 20}, {"made larger", size}} {
		s, err := durable.Open(path, durable.Options{Logger: quiet, Room: durable.Room{Ballast: tt.room}})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + ".ballast")
		if err != nil {
			t.Fatal(err)
		}
		if blocks := info.Sys().(*syscall.Stat_t).Blocks; info.Size() != tt.room || blocks*512 < tt.room {
			t.Errorf("%s: %d octets in %d blocks, want %d", tt.name, info.Size(), blocks, tt.room)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestABallastThatCannotBeAllocatedIsWritten, in octets that a file system
// cannot leave out.
func TestABallastThatCannotBeAllocatedIsWritten(t *testing.T) {
	d := durabletest.New()
	var written atomic.Int64
	d.OnWrite(func(_ int64, op, path string) error {
		if path == ballast && op == durabletest.OpWrite {
			written.Add(1)
		}
		if op == durabletest.OpAllocate {
			return syscall.EOPNOTSUPP
		}
		return nil
	})
	s, err := openRoom(d, durable.Room{Ballast: 5<<20 + 1})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.Size(ballast); n != 5<<20+1 || err != nil || written.Load() != 6 {
		t.Errorf("%d octets by %d writes, %v", n, written.Load(), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAReadOnlyFileSystemIsNamed(t *testing.T) {
	d := durabletest.New()
	d.OnWrite(func(int64, string, string) error { return syscall.EROFS })
	for _, r := range []durable.Room{{}, smallRoom} {
		_, err := openRoom(d, r)
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount it for writing") {
			t.Errorf("Open = %v", err)
		}
	}
}

// block has each sync of a log and of a Slots wait until release is closed.
func block(d *durabletest.Disk) (release chan struct{}) {
	release = make(chan struct{})
	d.OnWrite(func(_ int64, op, path string) error {
		if op == durabletest.OpSync && (strings.HasSuffix(path, ".log") || path == markPath) {
			<-release
		}
		return nil
	})
	return release
}

// TestADiskThatAnswersLateIsReported, and what it answers then counts.
func TestADiskThatAnswersLateIsReported(t *testing.T) {
	t.Parallel()
	d := durabletest.New()
	s, err := durable.Open(dir, durable.Options{FS: d.FS(), Logger: quiet, Stall: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	release := block(d)
	done := make(chan error, 1)
	go func() { done <- put(s, "k", "v") }()
	eventually(t, "the report", func() bool { return errors.Is(s.Disk().Stalled, durable.ErrStalled) })
	if err := s.Err(); err != nil {
		t.Errorf("Err = %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Errorf("Commit = %v", err)
	}
	eventually(t, "the end of it", func() bool { return s.Disk().Stalled == nil })
	if n := s.Disk().Stalls; n != 1 {
		t.Errorf("%d stalls", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestADeadDiskHoldsNobodyForEver: neither a commit, nor Close, nor a Slots.
func TestADeadDiskHoldsNobodyForEver(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(*durable.Store, *durable.Slots) error{
		"Commit": func(s *durable.Store, _ *durable.Slots) error { return put(s, "k", "v") },
		"Write":  func(_ *durable.Store, sl *durable.Slots) error { return sl.Write([]byte("x")) },
		"Close": func(s *durable.Store, _ *durable.Slots) error {
			go put(s, "k", "v")
			eventually(t, "the report", func() bool { return s.Disk().Stalled != nil })
			return s.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := durabletest.New()
			s, err := durable.Open(dir, durable.Options{FS: d.FS(), Logger: quiet, Stall: 300 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			sl := openSlots(t, s)
			defer close(block(d))
			if err := act(s, sl); !errors.Is(err, durable.ErrFailed) || !errors.Is(err, durable.ErrStalled) {
				t.Errorf("%s = %v", name, err)
			}
		})
	}
}

func TestARoomLeavesNothingRunning(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := durabletest.New()
	for _, r := range []durable.Room{{}, smallRoom} {
		s, err := openRoom(d, r)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
