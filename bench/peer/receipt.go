package peer

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
)

// Receipts is what no receipt can go below, made n times one after the other: two
// commits of 2 KiB to Pebble, each synced, an fsync, four signatures of 1 KiB, and
// their four verifications.
func Receipts(dir string, n int) (s load.Sample, err error) {
	p, err := OpenPebble(filepath.Join(dir, "pebble"))
	if err != nil {
		return s, err
	}
	defer p.Close() // all that matters was synced
	f, err := os.Create(filepath.Join(dir, "mark"))
	if err != nil {
		return s, err
	}
	defer f.Close()
	var took load.Histogram
	began := time.Now()
	for i := range n {
		start := time.Now()
		if err := receipt(p, f, uint64(i)); err != nil {
			return s, err
		}
		took.Add(time.Since(start))
	}
	return load.Sample{Rate: float64(n) / time.Since(began).Seconds(), P50: took.Quantile(0.50), P99: took.Quantile(0.99)}, nil
}

func receipt(p *Pebble, f *os.File, i uint64) error {
	message := make([]byte, 1024)
	private := key(4)
	public := private.Public().(ed25519.PublicKey)
	for k := range uint64(4) {
		binary.BigEndian.PutUint64(message, 4*i+k)
		if !ed25519.Verify(public, message, ed25519.Sign(private, message)) {
			return errors.New("a signature that does not verify")
		}
	}
	for k := range uint64(2) {
		rows := func(yield func(key, value []byte) bool) {
			yield(binary.BigEndian.AppendUint64([]byte("Le"), 2*i+k), make([]byte, 2048))
		}
		if err := p.Write(rows); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(message[:512], 0); err != nil {
		return err
	}
	return f.Sync()
}
