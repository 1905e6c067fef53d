package publisher

import (
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// subtrees is what the state of a fake indexer has at some places.
func (f *fakeIndexer) subtrees(prefixes []string) (all [][]byte) {
	store, err := durable.Open(f.t.TempDir(), durable.Options{})
	check(f.t, err)
	defer store.Close()
	tree := state.New([]byte("s"))
	var items []state.Item
	for _, it := range f.pages {
		items = append(items, it)
	}
	slices.SortFunc(items, func(x, y state.Item) int { return slices.Compare(x.URLHash[:], y.URLHash[:]) })
	b := store.NewBatch()
	defer b.Close()
	plan, err := tree.Plan(b, items)
	check(f.t, err)
	check(f.t, plan.Apply(b))
	check(f.t, b.Commit())
	for _, p := range prefixes {
		at, err := state.ParsePrefix(p)
		check(f.t, err)
		s, err := tree.Subtree(store, at)
		check(f.t, err)
		all = append(all, s.Append(nil))
	}
	return all
}
