package publisher

import (
	"bytes"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
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

// rows are all that is held, or those asked for with their URLs.
func (f *fakeIndexer) rows(q *oiv1.RangeRequest) *oiv1.IndexerFrame {
	a := &oiv1.RangeAnswer{Series: q.Series}
	if len(q.Prefixes) > 0 {
		a.Subtrees = f.subtrees(q.Prefixes)
		return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_RangeAnswer{RangeAnswer: a}}
	}
	for url, it := range f.pages {
		row := &oiv1.StateRow{Hash: it.URLHash[:], Digest: it.Digest[:], Format: uint32(it.Format)}
		if len(q.Hashes) > 0 {
			row.Url = url
		}
		asked := func(h []byte) bool { return bytes.Equal(h, row.Hash) }
		if bytes.Compare(row.Hash, q.After) > 0 && (len(q.Hashes) == 0 || slices.ContainsFunc(q.Hashes, asked)) {
			a.Rows = append(a.Rows, row)
		}
	}
	slices.SortFunc(a.Rows, func(x, y *oiv1.StateRow) int { return bytes.Compare(x.Hash, y.Hash) })
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_RangeAnswer{RangeAnswer: a}}
}
