package translog

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// benchmarkLog is a log on the real disk.
func benchmarkLog(b *testing.B) *Log {
	dir := b.TempDir()
	s, err := durable.Open(dir+"/store", durable.Options{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	signer, err := envelope.NewSigner(testKey(1))
	if err != nil {
		b.Fatal(err)
	}
	l, err := Open(Config{
		Store: s, Dir: dir, Origin: testOrigin, Indexer: testIndexer, Authority: testIndexer.Authority(),
		Signer: signer, NoteKey: testKey(2), Logger: quiet,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// BenchmarkCommit commits entries of about 1 KiB, one a proposal: opaque ones
// measure tree and store, signed ones everything, with a receipt each.
func BenchmarkCommit(b *testing.B) {
	for _, committers := range []int{1, 256, 4096} {
		b.Run(fmt.Sprintf("opaque/%d", committers), func(b *testing.B) {
			benchmarkCommit(b, committers, func() Proposal {
				raw := make([]byte, 1024)
				_, _ = rand.Read(raw)
				return &proposal{opaque: [][]byte{raw}}
			})
		})
		b.Run(fmt.Sprintf("signed/%d", committers), func(b *testing.B) {
			benchmarkCommit(b, committers, func() Proposal { return &proposal{n: 1} })
		})
		b.Run(fmt.Sprintf("receipt/%d", committers), func(b *testing.B) {
			benchmarkCommit(b, committers, func() Proposal { return &proposal{n: 1, finish: signReceipt} })
		})
	}
}

func benchmarkCommit(b *testing.B, committers int, next func() Proposal) {
	l := benchmarkLog(b)
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.SetBytes(1024)
	b.ReportAllocs()
	b.ResetTimer()
	began := time.Now()
	var wg sync.WaitGroup
	for range committers {
		wg.Go(func() {
			for range work {
				if err := l.Commit(context.Background(), next()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "entries/s")
}

func BenchmarkInclusion(b *testing.B) {
	l := benchmarkLog(b)
	p := &proposal{opaque: make([][]byte, 100_000)}
	if err := l.Commit(context.Background(), p); err != nil {
		b.Fatal(err)
	}
	v := l.Released()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := v.Inclusion(uint64(i*7919) % v.Tree.Size); err != nil {
			b.Fatal(err)
		}
	}
}
