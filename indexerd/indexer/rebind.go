package indexer

import (
	"bytes"
	"errors"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// retryDeletion is when a batch or rebind may come again that a deletion stands
// in the way of, in milliseconds.
const retryDeletion = 1000

// A rebind is the proposal by which a renewed grant takes over the state of its
// series. No content moves; pages that the new scope leaves outside leave
// catalogue and state by the same commit.
type rebind struct {
	s    *session
	pair grants.Pair
	// Where the publisher says that the series stands.
	journalEpoch, revision uint64
	state                  envelope.Hash

	rec      *seriesRecord
	left     leftBehind
	entries  []translog.Entry
	answered *answeredBatch
}

// rebindKey holds the answer to the rebind to a grant.
func rebindKey(sid uint32, grant envelope.Hash) []byte { return sidKey('E', sid, grant[:]...) }

// Prepare checks in commit order, and only then writes.
func (p *rebind) Prepare(tx *translog.Tx) error {
	b := tx.Batch()
	if err := p.recheck(tx); err != nil || p.answered != nil {
		return err
	}
	outside, gone, err := p.outside(b)
	if err != nil {
		return err
	}
	plan, err := stateTree(p.rec.SID).Plan(b, gone)
	if err != nil {
		return err
	}
	if p.rec.Partial, err = p.partial(b); err != nil {
		return err
	}
	if err := plan.Apply(b); err != nil {
		return err
	}
	if err := p.drop(tx, outside); err != nil {
		return err
	}
	if err := p.left.mark(b, p.rec.SID, tx.Now()); err != nil {
		return err
	}
	rec := p.rec
	rec.Receipts++ // Finish signs it, in the same commit
	rec.bind(p.pair.Grant)
	rec.Rebound = tx.Now().Unix()
	rec.State = plan.Root()
	e := rec.entry(p.pair, rec.State)
	if len(gone) > 0 {
		left := e
		left.Decision, left.Status, left.Objects = translog.Exclude, translog.OutOfScope, counted(uint64(len(gone)))
		p.entries = append(p.entries, left)
	}
	e.Decision, e.Status, e.Objects = translog.Update, translog.Rebound, counted(plan.Count())
	p.entries = append(p.entries, e)
	for _, e := range p.entries {
		if err := rec.append(tx, p.pair, e, nil); err != nil {
			return err
		}
	}
	return rec.write(b)
}

// drop takes the catalogue's rows of what the new grant leaves outside, and tells it.
func (p *rebind) drop(tx *translog.Tx, outside [][]byte) error {
	hashes := make([][]byte, len(outside))
	for i, key := range outside {
		if err := tx.Batch().Delete(key); err != nil {
			return err
		}
		hashes[i] = key[len(key)-32:]
	}
	return tellGone(tx, p.rec.SID, hashes)
}

// bind makes g the grant under which the state is held, and so ends what an
// older grant's expiry or revocation had closed.
func (r *seriesRecord) bind(g *grants.Grant) {
	if r.Bound != g.Object.ID {
		r.Expired, r.Revoked = envelope.Hash{}, nil
	}
	r.Bound = g.Object.ID
}

// recheck looks at session, grant, revocations, and where the series stands.
func (p *rebind) recheck(tx *translog.Tx) error {
	id := p.pair.Grant.Object.ID
	if !p.s.x.sessions.current(p.s.self) {
		return errFenced
	}
	var err error
	if p.rec, err = readSeries(tx.Batch(), p.s.peer.Card.Identity, p.pair.Grant.Body.Series); err != nil {
		return err
	}
	if p.rec == nil {
		return refuse(grants.ErrNoGrant, "the series is gone")
	}
	rec := p.rec
	var before answeredBatch
	if ok, err := durable.ReadJSON(tx.Batch(), rebindKey(rec.SID, id), &before); err != nil {
		return err
	} else if ok {
		p.answered = &before
		return nil
	}
	if err := inForce(tx.Batch(), p.pair, tx.Now()); err != nil {
		return err
	}
	switch {
	case rec.Grant.ID != id:
		return refuse(grants.ErrSuperseded, "grant %s is in force", rec.Grant.ID)
	case rec.Deletions > 0:
		return &refusal{reason: grants.ErrRevoked, detail: "a deletion is under way", retryMS: retryDeletion}
	case rec.Revoked != nil && rec.Revoked.Disposition == grants.DispositionDelete:
		return refuse(grants.ErrRevoked, "all was deleted after revocation %s", rec.Revoked.ID)
	case rec.JournalEpoch == 0:
		return refuse(grants.ErrNotHeld, "nothing is held that could be taken over")
	case p.journalEpoch != rec.JournalEpoch || p.revision != rec.Revision || p.state != rec.State:
		return refuse(grants.ErrState, "the series stands at revision %d of journal epoch %d, state %s", rec.Revision, rec.JournalEpoch, rec.State)
	}
	return p.s.x.store.Room()
}

// outside finds the pages that the new scope, by itself, does not hold: the keys
// of their rows, and their removal from the state. Those that leave a list that
// the scope names by its root are deleted by the publisher, who knows it.
func (p *rebind) outside(r durable.Reader) (keys [][]byte, gone []state.Item, err error) {
	scope := p.pair.Grant.Body.Scope
	_, old, err := p.rec.pairs(r)
	if err != nil || scope.Covers(old.Grant.Body.Scope) {
		return nil, nil, err
	}
	err = eachPage(r, p.rec.SID, func(key []byte, row *catalogueRow) error {
		if scope.Holds(row.URL, row.Digest) == nil {
			return nil
		}
		keys = append(keys, bytes.Clone(key))
		gone = append(gone, state.Item{URLHash: [32]byte(key[len(key)-32:]), Deleted: true})
		if row.Held {
			p.rec.Pages--
			p.rec.PayloadBytes -= row.Length
			p.left.add(row)
		}
		return nil
	})
	return keys, gone, err
}

// partial keeps the revocations that reach pages under the new grant too.
func (p *rebind) partial(r durable.Reader) ([]revokedRecord, error) {
	revs, err := revocationsOf(r, p.pair.Grant)
	if err != nil {
		return nil, err
	}
	var kept []revokedRecord
	for _, part := range p.rec.Partial {
		for _, rev := range revs {
			if rev.Object.ID == part.ID {
				kept = append(kept, part)
			}
		}
	}
	return kept, nil
}

// Finish signs the receipt, which names no batch, and keeps the answer.
func (p *rebind) Finish(tx *translog.Tx, c *translog.Committed) error {
	if p.answered != nil {
		return nil
	}
	g, rec := p.pair.Grant, p.rec
	body := translog.Receipt{
		CollectionRef: p.entries[0].CollectionRef, From: rec.Revision, GrantID: g.Object.ID, Indexer: p.s.x.local.Name(),
		JournalEpoch: rec.JournalEpoch, PolicyHash: g.Body.PolicyHash, Publisher: rec.Publisher, Purposes: g.Body.Purposes.Strings(),
		ScopeHash: g.ScopeHash, Through: rec.Revision,
		Checkpoint: translog.CheckpointRef{ObjectID: c.Checkpoint.ID, Root: c.Tree.Root, Size: c.Tree.Size},
	}
	for i, e := range c.Entries {
		body.Entries = append(body.Entries, entryRef(e, p.entries[i].Decision, p.entries[i].Objects))
	}
	receipt, err := tx.Sign(envelope.Header{
		Type: envelope.Receipt, Subject: rec.subject(g), Audience: rec.Publisher, Sequence: c.Entries[0].Sequence,
	}, body)
	if err != nil {
		return err
	}
	raw, err := marshalCommitted(receipt, c, nil)
	if err != nil {
		return err
	}
	p.answered = &answeredBatch{BatchID: g.Object.ID, Committed: raw, First: c.Entries[0].Sequence, TreeSize: c.Tree.Size}
	b, key := tx.Batch(), rebindKey(rec.SID, g.Object.ID)
	return errors.Join(
		writeReceipt(b, rec.SID, receipt, body.Checkpoint),
		durable.WriteJSON(b, key, p.answered),
		b.Set(sidKey('b', rec.SID, g.Object.ID[:]...), key),
	)
}

// entryRef is how a receipt names an entry.
func entryRef(e *envelope.Object, d translog.Decision, set translog.Set) translog.EntryRef {
	return translog.EntryRef{Count: set.Count, Decision: d, Index: e.Sequence, ObjectID: e.ID, Root: set.Root}
}
