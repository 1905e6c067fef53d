package peer

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
)

// Signatures is how fast Ed25519 signs SignedSize octets on all cores at once. Rate is of
// all cores together, P50 and P99 of one signature.
func Signatures(d time.Duration) load.Sample {
	var took load.Histogram
	var done atomic.Int64
	var wg sync.WaitGroup
	until := time.Now().Add(d)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			message, private := make([]byte, SignedSize), key(3)
			for start := time.Now(); start.Before(until); {
				ed25519.Sign(private, message)
				end := time.Now()
				took.Add(end.Sub(start))
				done.Add(1)
				start = end
			}
		})
	}
	wg.Wait()
	return load.Sample{Rate: float64(done.Load()) / d.Seconds(), P50: took.Quantile(0.50), P99: took.Quantile(0.99)}
}

// Fsync is how long it takes to write 512 octets in place and to fsync them.
func Fsync(dir string, d time.Duration) (load.Sample, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return load.Sample{}, err
	}
	defer f.Close() // all that matters was synced
	var took load.Histogram
	sector := make([]byte, 512)
	for until := time.Now().Add(d); time.Now().Before(until); {
		sector[0]++
		start := time.Now()
		if _, err := f.WriteAt(sector, 0); err != nil {
			return load.Sample{}, err
		}
		if err := f.Sync(); err != nil {
			return load.Sample{}, err
		}
		took.Add(time.Since(start))
	}
	return load.Sample{Rate: float64(took.Count()) / d.Seconds(), P50: took.Quantile(0.50), P99: took.Quantile(0.99)}, nil
}
