package durable_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

func batchOf(t *testing.T, b *durable.Batch, key string) *durable.Batch {
	t.Helper()
	if err := b.Set([]byte(key), []byte("x")); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestABegunBatchIsSeenAndCanBeLost holds the sync of the store's log, and
// crashes before it, after it, and after that of the next batch.
func TestABegunBatchIsSeenAndCanBeLost(t *testing.T) {
	d := durabletest.New()
	s := open(t, d)
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.OnWrite(func(_ int64, op, path string) error {
		if op == durabletest.OpSync && strings.HasSuffix(path, ".log") {
			once.Do(func() { close(held); <-release })
		}
		return nil
	})
	first, second := batchOf(t, s.NewBlindBatch(), "first"), batchOf(t, s.NewBatch(), "second")
	if err := first.Begin(); err != nil {
		t.Fatal(err)
	}
	<-held
	if _, err := s.Get([]byte("first")); err != nil {
		t.Errorf("a begun batch is not seen: %v", err)
	}
	has := func(key string) bool {
		t.Helper()
		c := open(t, d.Crash(rand.New(rand.NewPCG(1, 1)), 0))
		_, err := c.Get([]byte(key))
		if closed := c.Close(); closed != nil {
			t.Error(closed)
		}
		return err == nil
	}
	if has("first") {
		t.Error("a batch whose sync has not returned survives a crash that keeps nothing else")
	}
	if err := second.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil { // has to wait for Wait
		t.Fatal(err)
	}
	close(release)
	if err := second.Wait(); err != nil {
		t.Fatal(err)
	}
	if !has("first") || !has("second") {
		t.Error("a batch that was waited for is lost, or the one that was begun before it")
	}
	if err := errors.Join(first.Wait(), first.Close(), second.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestABatchIsBegunOnce(t *testing.T) {
	s := open(t, durabletest.New())
	b := batchOf(t, s.NewBatch(), "k")
	if err := errors.Join(b.Begin(), b.Wait()); err != nil {
		t.Fatal(err)
	}
	if err := b.Begin(); !errors.Is(err, durable.ErrClosed) {
		t.Errorf("second Begin = %v", err)
	}
	if err := b.Commit(); !errors.Is(err, durable.ErrClosed) {
		t.Errorf("Commit after Begin = %v", err)
	}
	if err := errors.Join(b.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestABlindBatchCannotBeRead(t *testing.T) {
	s := open(t, durabletest.New())
	b := batchOf(t, s.NewBlindBatch(), "k")
	if v, err := b.Get([]byte("k")); err == nil || errors.Is(err, durable.ErrNotFound) {
		t.Errorf("Get = %q, %v", v, err)
	}
	for row, err := range b.Scan(nil, nil) {
		if err == nil {
			t.Errorf("Scan yields %q", row.Key)
		}
	}
	if err := errors.Join(b.Commit(), b.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
