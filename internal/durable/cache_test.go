package durable_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// Pebble takes its memtables out of the cache. Enough is written here for as many
// as there ever are.
func TestBlocksAreKeptBesideFullMemtables(t *testing.T) {
	s, err := durable.Open(dir, durable.Options{FS: durabletest.New().FS(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const rows, batch = 5000, 50
	source := rand.NewChaCha8([32]byte{})
	value := make([]byte, 16<<10)
	key := func(i int) []byte { return binary.BigEndian.AppendUint64([]byte("k"), uint64(i)) }
	for i := 0; i < rows; i += batch {
		b := s.NewBatch()
		for k := range batch {
			if _, err := source.Read(value); err != nil {
				t.Fatal(err)
			}
			if err := b.Set(key(i+k), value); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(b.Commit(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		if _, err := s.Get(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	if kept := s.Kept(); kept < 8<<20 {
		t.Errorf("%d octets of 16 MB that were read are kept", kept)
	}
}
