package evaluate

import (
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// fits reports whether decision d can be made about an item of operation op:
// only what was taken away is deleted, and only what was put is taken in.
func fits(op translog.Op, d translog.Decision) bool {
	switch d {
	case translog.Include, translog.Update:
		return op == translog.OpPut
	case translog.DeleteAck:
		return op == translog.OpTombstone
	case translog.Exclude:
		return op == translog.OpPut || op == translog.OpTombstone
	}
	return false
}

// statusOf is the status of an entry that holds items of a batch.
func statusOf(d translog.Decision) translog.Status {
	switch d {
	case translog.DeleteAck:
		return translog.Removed
	case translog.Exclude:
		return translog.Refused
	}
	return translog.Accepted
}

// expectedEntry is what an entry has to say about the items of a batch.
type expectedEntry struct {
	decision translog.Decision
	status   translog.Status
	set      translog.Set
}

// partition puts each item into the set of its decision, in batch order. A
// batch of no item has one entry that only moves the cursor.
func partition(items []Decided) ([]expectedEntry, error) {
	leaves := make(map[translog.Decision][][32]byte, maxEntries)
	for i, item := range items {
		if !fits(item.Op, item.Decision) {
			return nil, fail(Match, RuleSets, "item %d: decision %.40q on operation %d", i, string(item.Decision), item.Op)
		}
		leaves[item.Decision] = append(leaves[item.Decision], item.LeafHash)
	}
	var entries []expectedEntry
	for _, d := range order {
		if l := leaves[d]; len(l) > 0 {
			entries = append(entries, expectedEntry{d, statusOf(d), translog.SetOf(l)})
		}
	}
	if len(entries) == 0 {
		entries = append(entries, expectedEntry{translog.Update, translog.Reconciled, translog.SetOf(nil)})
	}
	return entries, nil
}

// expectSets checks that the entries' decision sets are exactly the wanted
// ones: of a batch, the items that were offered, each in one set, none added, none left out, in order. That the
// entries stand side by side is in the receipt's own schema.
func (r *records) expectSets(wanted func() ([]expectedEntry, error)) error {
	want, err := wanted()
	if err != nil {
		return err
	}
	if len(r.entries) != len(want) {
		return fail(Match, RuleSets, "%d entries, want %d", len(r.entries), len(want))
	}
	for i, entry := range r.entries {
		body, w := &entry.body, want[i]
		switch {
		case body.Decision != w.decision || body.Status != w.status:
			return fail(Match, RuleSets, "entry %d is %s/%s, want %s/%s", entry.Sequence, body.Decision, body.Status, w.decision, w.status)
		case body.Objects != w.set:
			return fail(Match, RuleSets, "entry %d (%s) is over %d pages under %s, want %d under %s",
				entry.Sequence, body.Decision, body.Objects.Count, body.Objects.Root, w.set.Count, w.set.Root)
		}
	}
	return nil
}
