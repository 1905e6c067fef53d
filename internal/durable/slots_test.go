package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

const markPath = "/data/marks/mark"

func openSlots(t interface {
	Helper()
	Fatal(...any)
}, s *durable.Store) *durable.Slots {
	t.Helper()
	sl, err := s.OpenSlots(markPath)
	if err != nil {
		t.Fatal(err)
	}
	return sl
}

// TestSlotsHoldTheLastValueWritten: after a crash at any write the value is the
// last one acknowledged or the one that was being written.
func TestSlotsHoldTheLastValueWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := durabletest.New()
		s := open(t, d)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		at, unsynced := d.Writes()+int64(rapid.IntRange(1, 40).Draw(t, "at")), rapid.IntRange(0, 100).Draw(t, "unsynced")
		var acked, writing, ackedThen, writingThen []byte
		var crashed *durabletest.Disk
		d.OnWrite(func(n int64, _, path string) error {
			if n >= at && crashed == nil && strings.HasPrefix(path, "/data/marks") {
				crashed, ackedThen, writingThen = d.Crash(rng, unsynced), acked, writing
			}
			return nil
		})
		sl := openSlots(t, s)
		for i := 0; crashed == nil; i++ {
			writing = bytes.Repeat(fmt.Appendf(nil, "%d.", i), rng.IntN(100))
			if err := sl.Write(writing); err != nil {
				t.Fatal(err)
			}
			acked = writing
			if !bytes.Equal(sl.Value(), acked) {
				t.Fatalf("Value = %q, want %q", sl.Value(), acked)
			}
		}
		r := open(t, crashed)
		again := openSlots(t, r)
		if got := again.Value(); !bytes.Equal(got, ackedThen) && !bytes.Equal(got, writingThen) {
			t.Fatalf("after the crash %q, want %q or %q", got, ackedThen, writingThen)
		}
		if err := errors.Join(sl.Close(), s.Close(), again.Close(), r.Close()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOneDamagedSectorFallsBackAndTwoAreRefused(t *testing.T) {
	d := durabletest.New()
	s := open(t, d)
	sl := openSlots(t, s)
	for _, v := range []string{"first", "second"} {
		if err := sl.Write([]byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.OpenSlots(markPath); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second OpenSlots = %v", err)
	}
	if err := sl.Write(make([]byte, durable.MaxSlot+1)); err == nil {
		t.Error("a value that is too long was written")
	}
	if err := sl.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Damage(markPath, 12); err != nil { // the even sector: "second"
		t.Fatal(err)
	}
	sl = openSlots(t, s)
	if string(sl.Value()) != "first" {
		t.Errorf("Value = %q, want the older one", sl.Value())
	}
	if err := sl.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Damage(markPath, 512+12); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenSlots(markPath); !errors.Is(err, durable.ErrSlots) {
		t.Errorf("with both sectors damaged: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedSlotPoisonsTheStore(t *testing.T) {
	for name, op := range map[string]string{"its write": durabletest.OpWrite, "its sync": durabletest.OpSync} {
		d := durabletest.New()
		s := open(t, d)
		sl := openSlots(t, s)
		d.OnWrite(func(_ int64, o, path string) error {
			if o == op && path == markPath {
				return durabletest.ENOSPC
			}
			return nil
		})
		if err := sl.Write([]byte("x")); !errors.Is(err, durable.ErrFailed) || !errors.Is(err, durabletest.ENOSPC) {
			t.Errorf("Write = %v when %s fails", err, name)
		}
		d.OnWrite(func(int64, string, string) error { return nil })
		if err := put(s, "k", "v"); !errors.Is(err, durable.ErrFailed) {
			t.Errorf("Commit = %v after %s failed", err, name)
		}
	}
}
