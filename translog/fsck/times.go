package fsck

import (
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// times holds the times of entries against those of checkpoints: a log signs a
// checkpoint not before the entries that it covers, and entries not before a
// checkpoint that does not cover them. Otherwise an entry could be dated back to
// when a grant still allowed it. Clocks are given envelope.Skew.
type times struct {
	settled []claim   // about sizes of the bundle at hand, by size
	entry   time.Time // the newest of the entries so far
	signed  time.Time // the newest of the checkpoints that cover none of those to come
}

// begin takes up what an earlier check saw last; nil if there was none.
func (t *times) begin(p *Published) {
	if p == nil {
		return
	}
	c := claim{key: fmt.Sprintf("checkpoint of size %d", p.Size), size: p.Size, issued: p.IssuedAt.Time}
	if p.Refreshed.After(c.issued) {
		c.issued = p.Refreshed.Time
	}
	t.settled = append(t.settled, c)
}

// judge takes the entries of a bundle, and the checkpoints about its sizes.
func (t *times) judge(r *Report, first uint64, objects []*envelope.Object) {
	for i, o := range objects {
		index := first + uint64(i)
		t.pass(r, index)
		if o == nil {
			continue
		}
		if o.IssuedAt.Before(t.signed.Add(-envelope.Skew)) {
			r.Add(Finding{Kind: Entry, Index: index, Key: fmt.Sprintf("entry %d", index), Rule: "time",
				Detail: fmt.Sprintf("it was issued at %s, and a checkpoint without it at %s", envelope.At(o.IssuedAt), envelope.At(t.signed))})
		}
		if o.IssuedAt.After(t.entry) {
			t.entry = o.IssuedAt
		}
	}
	t.pass(r, first+uint64(len(objects)))
}

// pass takes the checkpoints of up to size entries.
func (t *times) pass(r *Report, size uint64) {
	for len(t.settled) > 0 && t.settled[0].size <= size {
		c := t.settled[0]
		t.settled = t.settled[1:]
		if c.issued.IsZero() { // it names no time
			continue
		}
		if c.issued.Before(t.entry.Add(-envelope.Skew)) {
			r.Add(Finding{Kind: Checkpoint, Index: c.size, Key: c.key, Rule: "checkpoint-time",
				Detail: fmt.Sprintf("it was issued at %s, before an entry that it covers (%s)", envelope.At(c.issued), envelope.At(t.entry))})
		}
		if c.issued.After(t.signed) {
			t.signed = c.issued
		}
	}
}
