package state

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

func openStore(t testing.TB) *durable.Store {
	s, err := durable.Open(t.TempDir(), durable.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A batch that is open already shows the plans applied to it, and the store
// shows them once it is committed.
func TestTreeInABatchOfTheStore(t *testing.T) {
	s := openStore(t)
	items := append(spread(600), deep(40)...)
	steps := [][]Item{items[:300], items[300:], removals(items[20:]), items[100:500]}
	batch := s.NewBatch()
	for i := range steps {
		want := byHand(pagesOf(slices.Concat(steps[:i+1]...)), 0)
		p, err := someTree.Plan(batch, steps[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Apply(batch); err != nil {
			t.Fatal(err)
		}
		if root, _, err := someTree.Root(batch); err != nil || root != want || p.Root() != want {
			t.Fatalf("step %d: root %v, %v, planned %v, want %v", i, root, err, p.Root(), want)
		}
	}
	if root, n, err := someTree.Root(s); err != nil || n != 0 || !root.IsZero() {
		t.Errorf("before the commit: %v, %d, %v", root, n, err)
	}
	if err := batch.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := batch.Close(); err != nil {
		t.Error(err)
	}
	want, n, err := Of(sortedPages(pagesOf(slices.Concat(steps...))))
	if err != nil {
		t.Fatal(err)
	}
	if root, got, err := someTree.Root(s); err != nil || root != want || got != n {
		t.Errorf("after the commit: %v, %d, %v, want %v, %d", root, got, err, want, n)
	}
}

// BenchmarkStore is a batch upon a million pages on disk, planned and applied
// but not committed.
func BenchmarkStore(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	held := randomItems(rng, 1_000_000)
	s := openStore(b)
	load := s.NewBatch()
	p, err := someTree.Plan(load, held)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Apply(load); err != nil {
		b.Fatal(err)
	}
	if err := load.Commit(); err != nil {
		b.Fatal(err)
	}
	if err := load.Close(); err != nil {
		b.Fatal(err)
	}
	fresh := randomItems(rng, 1000)
	b.ReportAllocs()
	for b.Loop() {
		batch := s.NewBatch()
		p, err := someTree.Plan(batch, fresh)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Apply(batch); err != nil {
			b.Fatal(err)
		}
		if err := batch.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
