package scp

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// TestNothingIsReadAheadOfWhoReads beyond a block: who has read the head of a file may
// set the file to its beginning again, and the ratio is taken over what was read.
func TestNothingIsReadAheadOfWhoReads(t *testing.T) {
	plain := make([]byte, 4<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(plain) // never fails
	const block = 128 << 10
	for _, c := range []Compression{Plain, Gzip, Zstd} {
		in := bytes.NewReader(packed(t, c, plain))
		var taken atomic.Int64
		u, err := unpack(readerFunc(func(p []byte) (int, error) {
			n, err := in.Read(p[:min(len(p), 4<<10)])
			taken.Add(int64(n))
			return n, err
		}), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(u, make([]byte, 512)); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		time.Sleep(10 * time.Millisecond) // for who would read on
		if n := taken.Load(); n > block+readAhead+4<<10 {
			t.Errorf("%v: %d octets were taken for the first 512", c, n)
		}
		u.close()
	}
}
