package indexer

import (
	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// planAhead works out the state behind the batch, and looks up what there is of its
// pages, before its turn comes: that is most of what it costs, and nobody else can commit
// meanwhile what the writer is at. If it fails, Prepare says why.
func (in *ingest) planAhead() {
	rows, err := in.s.x.store.Snapshot()
	if err != nil {
		return
	}
	defer rows.Close()
	if in.rec, err = readSeries(rows, in.held.rec.Publisher, in.held.rec.Series); err != nil || in.rec == nil || in.lookUp(rows) != nil {
		in.before = nil
		return
	}
	tree := stateTree(in.held.rec.SID)
	if root, _, err := tree.Root(rows); err != nil || root != in.body.StateBefore {
		return // it is going to be refused, unless what stands before it is still to come
	}
	if plan, err := tree.Plan(rows, in.changes()); err == nil {
		in.plan = plan
	}
}

// makePlan is the plan that was made ahead, if the state is still as it was then, or
// another.
func (in *ingest) makePlan(b *durable.Batch) error {
	tree := stateTree(in.rec.SID)
	if in.plan != nil {
		root, _, err := tree.Root(b)
		if err != nil {
			return err
		}
		if root == in.plan.Before() {
			return nil
		}
	}
	var err error
	in.plan, err = tree.Plan(b, in.changes())
	return err
}

// changes is what the batch does to the state tree: refused items are in it.
func (in *ingest) changes() []state.Item {
	all := make([]state.Item, len(in.items))
	for i := range in.items {
		it := &in.items[i]
		all[i] = state.Item{URLHash: it.h, Digest: it.digest, Format: it.format, Deleted: it.op == translog.OpTombstone}
	}
	return all
}
