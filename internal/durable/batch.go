package durable

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// retained is up to which size the memory of a blind batch is used again for
// the next, in octets: that of a large group of the log.
const retained = 8 << 20

// leastBatch is what the memory of a blind batch begins with, in octets.
const leastBatch = 1 << 10

// A Batch collects changes that become durable together. As a Reader it shows
// the latest commits with its own changes on top. It belongs to one goroutine,
// must be closed, and holds at most 4 GiB.
type Batch struct {
	source
	b      *pebble.Batch
	ended  bool
	synced chan error // what came of the sync; nil but between Begin and Wait
}

// NewBatch begins a batch.
func (s *Store) NewBatch() *Batch { return s.NewBatchOf(0) }

// NewBatchOf begins a batch of which it is known that it comes to about so many octets:
// it does not grow into them by doubling.
func (s *Store) NewBatchOf(octets int) *Batch {
	b := s.db.NewIndexedBatchWithSize(octets)
	return &Batch{source: source{s, b}, b: b}
}

// NewBlindBatch begins a batch that is cheaper to fill and cannot be read: each
// Get and Scan of it is an error.
func (s *Store) NewBlindBatch() *Batch { return s.NewBlindBatchOf(0) }

// NewBlindBatchOf is NewBlindBatch for one that comes to about so many octets.
func (s *Store) NewBlindBatchOf(octets int) *Batch {
	b := s.db.NewBatch(pebble.WithInitialSizeBytes(max(octets, leastBatch)), pebble.WithMaxRetainedSizeBytes(retained))
	return &Batch{source: source{s, b}, b: b}
}

// Set gives key a value; both are copied.
func (b *Batch) Set(key, value []byte) error { return b.b.Set(key, value, nil) }

// Delete removes key, whether it is there or not.
func (b *Batch) Delete(key []byte) error { return b.b.Delete(key, nil) }

// DeleteRange removes every key with lo <= key < hi.
func (b *Batch) DeleteRange(lo, hi []byte) error { return b.b.DeleteRange(lo, hi, nil) }

// Merge adds the changes of other behind those of b.
func (b *Batch) Merge(other *Batch) error { return b.b.Apply(other.b, nil) }

// Len is the size of the batch in octets. Every change makes it larger.
func (b *Batch) Len() int { return b.b.Len() }

// Commit returns nil once every change is durable, by one write and sync of
// the log. Any error is final: the store has failed and says ErrFailed from
// then on, because nobody knows what the disk holds. A batch is committed once.
func (b *Batch) Commit() error {
	if err := b.Begin(); err != nil {
		return err
	}
	return b.Wait()
}

// Begin is the first half of Commit: the changes are on their way to the disk,
// and whoever reads the Store sees them. They can still be lost.
func (b *Batch) Begin() error {
	if b.ended {
		return fmt.Errorf("commit: %w", ErrClosed)
	}
	b.ended = true
	if err := b.s.Err(); err != nil {
		return b.outcome(err)
	}
	begun, synced, inner := make(chan error, 1), make(chan error, 1), b.b
	b.synced = synced
	go b.s.guarded(func() {
		err := b.s.db.ApplyNoSyncWait(inner, pebble.Sync)
		begun <- err
		if err == nil {
			synced <- inner.SyncWait()
		}
	})
	return b.outcome(b.s.await(begun))
}

// Wait is the second half, behind a Begin that returned nil: it returns nil once
// every change is durable. Batches that were begun one after the other become
// durable in that order. It may be called by another goroutine than Begin.
func (b *Batch) Wait() error {
	err := b.outcome(b.s.await(b.synced))
	if err == nil {
		b.synced = nil
		b.s.guard.room.committed()
	}
	return err
}

// outcome makes an error the end of the store.
func (b *Batch) outcome(err error) error {
	if err != nil && !errors.Is(err, ErrClosed) {
		b.s.guard.fail(err)
		err = b.s.guard.err()
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Close frees the batch. Without a Commit its changes are gone.
func (b *Batch) Close() error {
	if b.b == nil || b.synced != nil || b.s.guard.err() != nil {
		return nil // the batch may still be Pebble's
	}
	err := b.b.Close()
	b.b, b.ended = nil, true
	return err
}
