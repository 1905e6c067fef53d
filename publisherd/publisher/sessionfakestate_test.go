package publisher

import (
	"cmp"
	"iter"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// rootOf is the root of the state tree over pages.
func rootOf(t testing.TB, pages map[string]state.Item) envelope.Hash {
	var items []state.Item
	for _, it := range pages {
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b state.Item) int { return cmp.Compare(string(a.URLHash[:]), string(b.URLHash[:])) })
	var all iter.Seq2[state.Item, error] = func(yield func(state.Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
	}
	root, _, err := state.Of(all)
	check(t, err)
	return root
}
