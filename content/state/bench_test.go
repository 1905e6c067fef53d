package state

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkPlan is a batch upon a million pages, in memory.
func BenchmarkPlan(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	held := randomItems(rng, 1_000_000)
	r := newRows()
	change(b, someTree, r, held...)
	for range r.Scan(someTree.Bounds()) { // sorts
		break
	}
	edited := make([]Item, 1000)
	for i := range edited {
		edited[i] = held[rng.IntN(len(held))]
		edited[i].Digest[0] ^= 1
	}
	for name, items := range map[string][]Item{
		"1000-new":     randomItems(rng, 1000),
		"1000-edited":  edited,
		"1000-removed": removals(held[:1000]),
		"1-edited":     edited[:1],
		"none":         nil,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := someTree.Plan(r, items)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.Apply(discard{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstLoad is a million pages into an empty tree.
func BenchmarkFirstLoad(b *testing.B) {
	items := randomItems(rand.New(rand.NewPCG(1, 2)), 1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		p, err := someTree.Plan(newRows(), items)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Apply(discard{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOfMillion(b *testing.B) {
	pages := pagesOf(randomItems(rand.New(rand.NewPCG(1, 2)), 1_000_000))
	var sorted []Item
	for it := range sortedPages(pages) {
		sorted = append(sorted, it)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Of(yielded(sorted)); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Set(_, _ []byte) error { return nil }
func (discard) Delete([]byte) error   { return nil }
