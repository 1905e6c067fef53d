package indexer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// An item is one page of a batch.
type item struct {
	op       translog.Op
	revision uint64
	url      string
	h        [32]byte
	format   uint8
	modified int64
	offset   uint64 // in the decompressed frame
	length   uint64
	digest   [32]byte
	leaf     [32]byte
	path     scopePath
	base     []byte // of the digest of what it is a difference to; nil if it is none

	reason   grants.Reason // why it is excluded; empty if it is not
	detail   string
	decision translog.Decision
	// What the store held of the page before.
	old  *catalogueRow // in the catalogue
	told toldPage      // by the feed; zero: nothing
}

// An ingest is the proposal of one batch. Everything that is committed for it
// is committed together: sealed frame, catalogue, state, cursor, entries,
// checkpoint, receipt.
type ingest struct {
	s        *session
	held     *held
	pair     grants.Pair // under which the batch is offered
	list     *grants.Listed
	feed     envelope.Hash // whose list it is
	manifest *envelope.Object
	body     translog.Manifest
	items    []item
	segment  uint64
	frame    []byte // as it came, or as it was made of a patch
	dataKey  uint32 // generation of the key that sealed it
	sealed   []byte

	large largeName        // of a page alone, in place of segment and sealed
	file  *durable.NewFile // while it is written

	answers uint64 // id of the request that the batch is said to answer

	rec      *seriesRecord
	left     leftBehind
	plan     *state.Plan // see planAhead
	before   []byte      // the series' row when each item's old and told were looked up; nil: they were not
	order    []int       // the items by ascending h
	value    []byte      // of the row that is put together
	sets     []decisionSet
	answered *answeredBatch
	receipt  envelope.Hash // of a batch that was committed now
}

// A decisionSet is one entry of the batch.
type decisionSet struct {
	decision translog.Decision
	status   translog.Status
	leaves   [][32]byte
	set      translog.Set // of the leaves
}

func (in *ingest) leaves() [][32]byte {
	all := make([][32]byte, len(in.items))
	for i := range in.items {
		all[i] = in.items[i].leaf
	}
	return all
}

// Prepare runs in the log's writer. It makes the checks that depend on the
// commits before it, and only when all have passed does it write.
func (in *ingest) Prepare(tx *translog.Tx) error {
	b := tx.Batch()
	if err := in.recheck(tx); err != nil || in.answered != nil {
		// A batch that was answered before, perhaps by a proposal of this very
		// group, adds nothing; it is answered when the group is durable.
		return err
	}
	if err := in.findOverlaps(tx); err != nil {
		return err
	}
	if err := in.lookUp(b); err != nil {
		return err
	}
	in.decide()
	if err := in.fits(tx); err != nil {
		return err
	}
	if err := in.makePlan(b); err != nil {
		return err
	}
	if in.plan.Root() != in.body.StateAfter {
		return refuse(grants.ErrState, "the batch leads to state %s, the manifest says %s", in.plan.Root(), in.body.StateAfter)
	}
	if err := in.reseal(); err != nil {
		return err
	}
	if err := in.write(tx); err != nil {
		return err
	}
	return in.appendEntries(tx)
}

// recheck looks at session, grant, batch identity and cursor.
func (in *ingest) recheck(tx *translog.Tx) error {
	m := &in.body
	if !in.s.x.sessions.current(in.s.self) {
		return errFenced
	}
	var err error
	if in.rec, err = readSeries(tx.Batch(), in.s.peer.Card.Identity, in.held.rec.Series); err != nil {
		return err
	}
	if in.rec == nil {
		return refuse(grants.ErrNoGrant, "the series is gone")
	}
	var before answeredBatch
	answered, err := durable.ReadJSON(tx.Batch(), batchKey(in.rec.SID, m), &before)
	if err != nil {
		return err
	}
	if answered {
		if before.BatchID == in.manifest.ID {
			in.answered = &before
			return nil
		}
		return refuse(grants.ErrConflict, "revisions %d to %d were offered before, as batch %s", m.From, m.Through, before.BatchID)
	}
	if err := in.checkGrant(tx); err != nil {
		return err
	}
	if err := in.checkFeed(); err != nil {
		return err
	}
	if err := in.checkCursor(); err != nil {
		return err
	}
	if err := in.useUp(tx); err != nil {
		return err
	}
	return in.s.x.store.Room()
}

// checkGrant admits the batch under the newest grant, or under the one that the
// state is held by as long as no renewal has taken it over (UZPIF-OI 10.1). A
// state that another grant holds is taken over by a rebind first; only a new
// journal epoch, in which all is compared anew, does so by itself.
func (in *ingest) checkGrant(tx *translog.Tx) error {
	id, rec, g := in.body.GrantID, in.rec, in.pair.Grant
	if err := in.checkRevocations(tx); err != nil {
		return err
	}
	switch {
	case id != rec.Grant.ID && id != rec.Bound:
		return refuse(grants.ErrSuperseded, "grant %s is in force", rec.Grant.ID)
	case id != rec.Bound && !rec.Bound.IsZero() && in.body.JournalEpoch == rec.JournalEpoch:
		return refuse(grants.ErrState, "the state is held under grant %s; grant %s takes it over by a rebind", rec.Bound, g.Object.ID)
	}
	return in.pair.Fresh(tx.Now())
}

// checkRevocations refuses a batch whose grant is revoked, one with a page that
// is, and every batch while a deletion is under way.
func (in *ingest) checkRevocations(tx *translog.Tx) error {
	g := in.pair.Grant
	revs, err := revocationsOf(tx.Batch(), g)
	if err != nil {
		return err
	}
	if err := errRevokedWhole(g, revs); err != nil {
		return err
	}
	if in.rec.Deletions > 0 {
		return &refusal{reason: grants.ErrRevoked, detail: "a deletion is under way", retryMS: retryDeletion}
	}
	if len(revs) == 0 {
		return nil
	}
	for i := range in.items {
		if it := &in.items[i]; it.op == translog.OpPut {
			if err := errRevokedPage(g, revs, it.url); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkCursor requires the batch to begin where the series stands.
func (in *ingest) checkCursor() error {
	m, rec := &in.body, in.rec
	if m.Request != 0 {
		return in.checkRequest()
	}
	switch {
	case m.JournalEpoch == rec.JournalEpoch:
		if m.From != rec.Revision {
			return refuse(grants.ErrConflict, "the batch begins at revision %d, committed is %d", m.From, rec.Revision)
		}
	case slices.Contains(rec.PastEpochs, m.JournalEpoch):
		return refuse(grants.ErrConflict, "journal epoch %d has ended", m.JournalEpoch)
	case m.From != 0:
		return refuse(grants.ErrConflict, "a new journal epoch begins at revision 0")
	}
	if m.StateBefore != rec.State {
		return refuse(grants.ErrState, "the series stands at state %s, the manifest says %s", rec.State, m.StateBefore)
	}
	return nil
}

// setsOf groups the items into the decision sets of their entries, in the
// fixed order of entries, each in the order of the batch. offered is the set of them all.
func setsOf(items []item, offered translog.Set) []decisionSet {
	var sets []decisionSet
	for _, s := range []decisionSet{
		{decision: translog.Include, status: translog.Accepted},
		{decision: translog.Update, status: translog.Accepted},
		{decision: translog.DeleteAck, status: translog.Removed},
		{decision: translog.Exclude, status: translog.Refused},
	} {
		for i := range items {
			if items[i].decision == s.decision {
				s.leaves = append(s.leaves, items[i].leaf)
			}
		}
		switch len(s.leaves) {
		case 0:
			continue
		case len(items):
			s.set = offered
		default:
			s.set = translog.SetOf(s.leaves)
		}
		sets = append(sets, s)
	}
	if len(items) == 0 { // the end of a reconciliation: the cursor moves alone
		sets = append(sets, decisionSet{decision: translog.Update, status: translog.Reconciled, set: translog.SetOf(nil)})
	}
	return sets
}

// write adds segment, catalogue, state and cursor to the commit.
func (in *ingest) write(tx *translog.Tx) error {
	b, rec, m := tx.Batch(), in.rec, &in.body
	rows := b
	if len(in.items) >= manyItems {
		rows = tx.Last()
	}
	if len(in.items) > 0 && in.large == (largeName{}) {
		if err := rows.Set(segmentKey(rec.SID, in.segment), in.sealed); err != nil {
			return err
		}
	}
	if err := in.plan.Apply(rows); err != nil {
		return err
	}
	if err := in.writeItems(tx, rows); err != nil {
		return err
	}
	if err := in.keepUntil(tx); err != nil {
		return err
	}
	if err := in.settle(b); err != nil {
		return err
	}
	rec.JournalEpoch, rec.Revision, rec.State = m.JournalEpoch, m.Through, in.plan.Root()
	rec.Receipts++ // Finish signs it, in the same commit
	rec.bind(in.pair.Grant)
	return rec.write(b)
}

func (in *ingest) setIndex(d translog.Decision) int {
	return slices.IndexFunc(in.sets, func(s decisionSet) bool { return s.decision == d })
}

// appendEntries adds one entry for each decision set.
func (in *ingest) appendEntries(tx *translog.Tx) error {
	m, g, rec := &in.body, in.pair.Grant, in.rec
	commitment := rec.leafKey().StateCommitment(m.JournalEpoch, m.Through, in.plan.Root())
	for i, s := range in.sets {
		if err := tx.Batch().Set(grantEntryKey(m.GrantID, tx.Log(), tx.NextIndex()), nil); err != nil {
			return err
		}
		err := tx.Append(rec.subject(g), translog.Entry{
			BatchID: in.manifest.ID, CollectionRef: m.CollectionRef, Decision: s.decision, From: m.From,
			GrantExpiresAt: envelope.At(g.Object.ExpiresAt), GrantID: m.GrantID, JournalEpoch: m.JournalEpoch,
			Objects: s.set, PolicyHash: g.Body.PolicyHash, Purposes: g.Body.Purposes.Strings(),
			ScopeHash: g.ScopeHash, State: commitment, Status: s.status, Through: m.Through, Request: m.Request,
		}, s.leaves)
		if err != nil {
			return fmt.Errorf("entry %d of batch %s: %w", i, in.manifest.ID, err)
		}
	}
	return nil
}

// Finish signs the receipt over the entries and the checkpoint of this very
// commit, and keeps the answer.
func (in *ingest) Finish(tx *translog.Tx, c *translog.Committed) error {
	if in.answered != nil {
		return nil
	}
	m, g, rec := &in.body, in.pair.Grant, in.rec
	body := translog.Receipt{
		BatchID: in.manifest.ID, CollectionRef: m.CollectionRef, From: m.From, GrantID: m.GrantID, Indexer: in.s.x.local.Name(),
		JournalEpoch: m.JournalEpoch, PolicyHash: g.Body.PolicyHash, Publisher: m.Publisher, Purposes: g.Body.Purposes.Strings(),
		ScopeHash: g.ScopeHash, Through: m.Through,
		Checkpoint: translog.CheckpointRef{ObjectID: c.Checkpoint.ID, Root: c.Tree.Root, Size: c.Tree.Size},
	}
	for i, e := range c.Entries {
		body.Entries = append(body.Entries, entryRef(e, in.sets[i].decision, in.sets[i].set))
	}
	receipt, err := tx.Sign(envelope.Header{
		Type: envelope.Receipt, Subject: rec.subject(g), Audience: m.Publisher, Sequence: c.Entries[0].Sequence,
	}, body)
	if err != nil {
		return err
	}
	in.receipt = receipt.ID
	return errors.Join(writeReceipt(tx.Batch(), rec.SID, receipt, body.Checkpoint), in.keepAnswer(tx.Batch(), receipt, c))
}
