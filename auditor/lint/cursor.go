package lint

import (
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// rank is the place of a decision in the entries of a batch.
func rank(d translog.Decision) int {
	return 1 + slices.Index([]translog.Decision{translog.Include, translog.Update, translog.DeleteAck, translog.Exclude}, d)
}

// cursor judges where in its journal the entry says that the collection stands.
// After a broken cursor it is believed, so that one lie is found once.
func (c *Checker) cursor(index uint64, e *translog.Entry, s *collection) {
	here := s.Known && !s.Shared && e.JournalEpoch == s.Epoch
	switch {
	case !e.BatchID.IsZero() && e.BatchID == s.Batch.ID:
		c.sameBatch(index, e, s)
		return
	case !e.BatchID.IsZero() && slices.Contains(s.Recent, e.BatchID):
		c.broke(index, Batch, "batch %s was committed before", e.BatchID)
	case e.BatchID.IsZero():
		c.standing(index, e, s)
	case c.elsewhere(e.BatchID, s):
		c.broke(index, Batch, "batch %s was committed before, in another collection: a manifest names one", e.BatchID)
	case e.Request != 0 && !s.Shared:
		c.answers(index, e, s)
	case here && s.Asks && e.From > s.Through: // what lies between was signalled
	case here && e.From != s.Through:
		c.broke(index, Cursor, "a batch from revision %d, the collection stands at %d of journal epoch %d", e.From, s.Through, s.Epoch)
	case here, s.Shared, !s.Known && s.Open:
	case e.JournalEpoch == 0 || slices.Contains(s.Past, e.JournalEpoch):
		c.broke(index, Cursor, "a batch of journal epoch %d, which has ended", e.JournalEpoch)
	case e.From != 0:
		c.broke(index, Cursor, "a new journal epoch, %d, from revision %d", e.JournalEpoch, e.From)
	}
	if s.Epoch != e.JournalEpoch {
		s.Asked = 0
		if s.Epoch != 0 {
			s.Past = lastOf(append(s.Past, s.Epoch), maxPast)
		}
	}
	if e.Request != 0 {
		s.Asks, s.Asked = true, e.Request
	}
	s.Known, s.Epoch, s.Through = true, e.JournalEpoch, e.Through
	if !e.BatchID.IsZero() {
		s.Batch = batch{Pages: e.Objects.Count, ID: e.BatchID, Index: index, Rank: rank(e.Decision), From: e.From, Ask: e.Request, State: e.State, Grant: e.GrantID}
		c.remember(e.BatchID, s)
		c.revisions(index, e, &s.Batch)
	}
}

// batches is byBatch, made from what was written if need be.
func (c *Checker) batches() map[envelope.Hash]*collection {
	if c.byBatch == nil {
		c.byBatch = make(map[envelope.Hash]*collection)
		for _, s := range c.Collections {
			for _, id := range s.Recent {
				c.byBatch[id] = s
			}
		}
	}
	return c.byBatch
}

// elsewhere reports whether the batch is one of the last of another collection.
func (c *Checker) elsewhere(id envelope.Hash, s *collection) bool {
	other := c.batches()[id]
	return other != nil && other != s
}

// remember takes a batch among the last of its collection. One that is remembered
// already, of whatever collection, stays where it is.
func (c *Checker) remember(id envelope.Hash, s *collection) {
	all := c.batches()
	if all[id] != nil {
		return
	}
	s.Recent, all[id] = append(s.Recent, id), s
	for len(s.Recent) > maxRecent {
		delete(all, s.Recent[0])
		s.Recent = slices.Delete(s.Recent, 0, 1)
	}
}

// revisions judges how many pages a batch decides upon: each was offered at a
// revision of its own.
func (c *Checker) revisions(index uint64, e *translog.Entry, b *batch) {
	if e.Request == 0 && e.From <= e.Through && b.Pages > e.Through-e.From {
		c.broke(index, Batch, "batch %s decides upon %d pages, in %d revisions", e.BatchID, b.Pages, e.Through-e.From)
	}
}

// answers judges a batch that answers a request. The cursor at which it stands
// may have moved since the last entry, by signals, and so may the journal epoch;
// it never goes back. Numbers count from 1 in each epoch; where the first of them
// are not known, they only grow.
func (c *Checker) answers(index uint64, e *translog.Entry, s *collection) {
	here := s.Known && e.JournalEpoch == s.Epoch
	next := s.Asked + 1
	switch {
	case e.JournalEpoch == 0 || slices.Contains(s.Past, e.JournalEpoch):
		c.broke(index, Cursor, "an answer in journal epoch %d, which has ended", e.JournalEpoch)
	case here && e.From < s.Through:
		c.broke(index, Cursor, "an answer at revision %d, the collection stands at %d of journal epoch %d", e.From, s.Through, s.Epoch)
	case here && s.Open && s.Asked == 0, !here && s.Open && !s.Known:
	case here && e.Request != next, !here && e.Request != 1:
		c.broke(index, Request, "an answer to request %d of journal epoch %d, after that to request %d", e.Request, e.JournalEpoch, s.Asked)
	}
}

// standing judges an entry outside batches, which names the cursor as it is.
func (c *Checker) standing(index uint64, e *translog.Entry, s *collection) {
	switch {
	case s.Shared:
	case s.Asks && (e.JournalEpoch != s.Epoch && !slices.Contains(s.Past, e.JournalEpoch) || e.JournalEpoch == s.Epoch && e.Through > s.Through):
		// It was signalled that far.
	case s.Known && (e.JournalEpoch != s.Epoch || e.Through != s.Through):
		c.broke(index, Cursor, "%s/%s at revision %d of journal epoch %d, the collection stands at %d of %d",
			e.Decision, e.Status, e.Through, e.JournalEpoch, s.Through, s.Epoch)
	case s.Batch.ID.IsZero() && (e.Objects.Count == 0 || s.Open): // signals may have moved it, and nothing was asked for
	case !s.Known && !s.Open && (e.JournalEpoch != 0 || e.Through != 0):
		c.broke(index, Cursor, "%s/%s at revision %d of a collection that nothing was taken from", e.Decision, e.Status, e.Through)
	}
}

// sameBatch judges a further entry of the batch that came last.
func (c *Checker) sameBatch(index uint64, e *translog.Entry, s *collection) {
	b := &s.Batch
	switch {
	case index != b.Index+1:
		c.broke(index, Batch, "batch %s has an entry here and one at %d, which are no one commit", e.BatchID, b.Index)
	case e.From != b.From || e.Through != s.Through || e.JournalEpoch != s.Epoch || e.Request != b.Ask:
		c.broke(index, Batch, "batch %s has two stretches: %d to %d, and %d to %d", e.BatchID, b.From, s.Through, e.From, e.Through)
	case e.State != b.State || e.GrantID != b.Grant:
		c.broke(index, Batch, "batch %s leads to two states, or is under two grants", e.BatchID)
	case rank(e.Decision) <= b.Rank || e.Status == translog.Reconciled:
		c.broke(index, Batch, "batch %s has a second %s/%s, or its decisions in another order", e.BatchID, e.Decision, e.Status)
	}
	b.Index, b.Rank = index, rank(e.Decision)
	b.Pages += min(e.Objects.Count, envelope.MaxInteger) // of at most four entries
	c.revisions(index, e, b)
}

// lastOf is the last n of s.
func lastOf[T uint64 | envelope.Hash](s []T, n int) []T {
	if len(s) > n {
		s = slices.Delete(s, 0, len(s)-n)
	}
	return s
}
