package evaluate

import (
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// signed is an authenticated object with its body.
type signed[Body any] struct {
	*envelope.Object
	body Body
}

// authenticate makes step 1 for one object: its form, its signatures, and that
// signer is whom it is from. Time is judged elsewhere.
func authenticate[Body any](raw []byte, t envelope.Type, keys envelope.KeySource, signer envelope.Name) (signed[Body], error) {
	var s signed[Body]
	o, err := envelope.Authenticate(raw, &s.body, envelope.Expecting(t, keys, time.Time{}))
	if err != nil {
		return s, fail(Signatures, RuleSignature, "%s: %w", t, err)
	}
	if o.Signer != signer {
		return s, fail(Signatures, RuleSigner, "%s: signed by %s, not by %s", t, o.Signer, signer)
	}
	s.Object = o
	return s, nil
}

// records are the indexer's signed objects about one commit.
type records struct {
	receipt    signed[translog.Receipt]
	entries    []signed[translog.Entry]
	checkpoint signed[translog.Checkpoint]
}

// terms are the members that entry and receipt share: what was agreed, and
// which stretch of the publisher's journal is meant.
type terms struct {
	indexer                          envelope.Name
	grant, policy, scope, collection envelope.Hash
	batch                            envelope.Hash
	purposes                         []string
	journalEpoch, from, through      uint64
}

func entryTerms(e *translog.Entry) terms {
	return terms{
		indexer: e.Indexer, grant: e.GrantID, policy: e.PolicyHash, scope: e.ScopeHash, collection: e.CollectionRef,
		batch: e.BatchID, purposes: e.Purposes, journalEpoch: e.JournalEpoch, from: e.From, through: e.Through,
	}
}

func receiptTerms(r *translog.Receipt) terms {
	return terms{
		indexer: r.Indexer, grant: r.GrantID, policy: r.PolicyHash, scope: r.ScopeHash, collection: r.CollectionRef,
		batch: r.BatchID, purposes: r.Purposes, journalEpoch: r.JournalEpoch, from: r.From, through: r.Through,
	}
}

// match compares the terms of what (a kind of object) with those wanted.
func (t terms) match(what envelope.Type, want terms) error {
	switch {
	case t.indexer != want.indexer:
		return fail(Match, RuleParties, "%s: indexer %s, want %s", what, t.indexer, want.indexer)
	case t.grant != want.grant:
		return fail(Match, RuleGrant, "%s: grant %s, want %s", what, t.grant, want.grant)
	case t.policy != want.policy:
		return fail(Match, RulePolicy, "%s: policy %s, want %s", what, t.policy, want.policy)
	case t.scope != want.scope:
		return fail(Match, RuleScope, "%s: scope %s, want %s", what, t.scope, want.scope)
	case !slices.Equal(t.purposes, want.purposes):
		return fail(Match, RulePurposes, "%s: purposes %.200q, want %q", what, t.purposes, want.purposes)
	case t.batch != want.batch:
		return fail(Match, RuleBatch, "%s: batch %s, want %s", what, t.batch, want.batch)
	case t.collection != want.collection:
		return fail(Match, RuleBatch, "%s: collection %s, want %s", what, t.collection, want.collection)
	case t.journalEpoch != want.journalEpoch || t.from != want.from || t.through != want.through:
		return fail(Match, RuleBatch, "%s: revisions %d to %d of journal epoch %d, want %d to %d of %d",
			what, t.from, t.through, t.journalEpoch, want.from, want.through, want.journalEpoch)
	}
	return nil
}

// matchRef compares an entry with what a receipt says of it.
func matchRef(ref translog.EntryRef, e signed[translog.Entry]) error {
	switch {
	case ref.ObjectID != e.ID:
		return fail(Match, RuleEntries, "entry %d is %s, the receipt lists %s", ref.Index, e.ID, ref.ObjectID)
	case ref.Index != e.Sequence:
		return fail(Match, RuleSequence, "entry %s has sequence %d, the receipt lists index %d", e.ID, e.Sequence, ref.Index)
	case ref.Decision != e.body.Decision:
		return fail(Match, RuleEntries, "entry %d is of decision %s, the receipt lists %s", ref.Index, e.body.Decision, ref.Decision)
	case ref.Count != e.body.Objects.Count || ref.Root != e.body.Objects.Root:
		return fail(Match, RuleEntries, "entry %d is over %d pages under %s, the receipt lists %d under %s",
			ref.Index, e.body.Objects.Count, e.body.Objects.Root, ref.Count, ref.Root)
	}
	return nil
}

// matchCheckpoint compares the signed checkpoint with what its receipt says of
// it, and with the log and the indexer.
func matchCheckpoint(c signed[translog.Checkpoint], ref translog.CheckpointRef, origin string) error {
	switch {
	case c.ID != ref.ObjectID:
		return fail(Match, RuleCheckpoint, "the checkpoint is %s, the receipt names %s", c.ID, ref.ObjectID)
	case c.body.TreeSize != ref.Size || c.body.Root != ref.Root:
		return fail(Match, RuleCheckpoint, "the checkpoint is of size %d under %s, the receipt names %d under %s",
			c.body.TreeSize, c.body.Root, ref.Size, ref.Root)
	}
	return ownCheckpoint(c, origin)
}

// ownCheckpoint checks what a checkpoint says of itself.
func ownCheckpoint(c signed[translog.Checkpoint], origin string) error {
	switch {
	case c.Subject != c.Signer:
		return fail(Match, RuleParties, "the checkpoint's subject is %s, want %s", c.Subject, c.Signer)
	case c.body.LogOrigin != origin:
		return fail(Match, RuleSequence, "the checkpoint is of log %.80q, want %q", c.body.LogOrigin, origin)
	case c.Sequence != c.body.TreeSize:
		return fail(Match, RuleSequence, "the checkpoint of size %d has sequence %d", c.body.TreeSize, c.Sequence)
	}
	return nil
}

// matchOrder checks that nothing was signed before what it rests on, and that
// a receipt is of its entries' own commit: of one epoch of the indexer's key,
// and in the place of the first of them.
func (r *records) matchOrder() error {
	for _, e := range r.entries {
		if e.IssuedAt.After(r.checkpoint.IssuedAt) {
			return fail(Match, RuleTime, "entry %d was issued at %s, after its checkpoint (%s)",
				e.Sequence, envelope.At(e.IssuedAt), envelope.At(r.checkpoint.IssuedAt))
		}
	}
	if r.receipt.Object == nil {
		return nil
	}
	first := r.receipt.body.Entries[0].Index
	switch {
	case r.receipt.Epoch != r.checkpoint.Epoch:
		return fail(Match, RuleSequence, "the receipt is of epoch %d, its checkpoint of %d", r.receipt.Epoch, r.checkpoint.Epoch)
	case r.receipt.Sequence != first:
		return fail(Match, RuleSequence, "the receipt has sequence %d, its first entry is %d", r.receipt.Sequence, first)
	}
	for _, e := range r.entries {
		switch {
		case e.Epoch != r.receipt.Epoch:
			return fail(Match, RuleSequence, "entry %d is of epoch %d, its receipt of %d", e.Sequence, e.Epoch, r.receipt.Epoch)
		case e.IssuedAt.After(r.receipt.IssuedAt):
			return fail(Match, RuleTime, "entry %d was issued at %s, after its receipt (%s)",
				e.Sequence, envelope.At(e.IssuedAt), envelope.At(r.receipt.IssuedAt))
		}
	}
	return nil
}

// matchTree compares a verified note with the signed checkpoint of its size.
func matchTree(t translog.Tree, c *translog.Checkpoint) error {
	if t.Origin != c.LogOrigin || t.Size != c.TreeSize || t.Root != [32]byte(c.Root) {
		return fail(Proof, RuleCheckpoint, "the note is of size %d under %s, the signed checkpoint of %d under %s",
			t.Size, envelope.Hash(t.Root), c.TreeSize, c.Root)
	}
	return nil
}

// proveEntry checks that an entry stands at its own index under a checkpoint.
func proveEntry(e *envelope.Object, path [][32]byte, c *translog.Checkpoint) error {
	err := translog.VerifyInclusion(e.Sequence, c.TreeSize, translog.LeafHash(e.Raw), path, [32]byte(c.Root))
	if err != nil {
		return because(err, fail(Proof, RuleInclusion, "the proof does not lead from entry %d to the root of the checkpoint of size %d", e.Sequence, c.TreeSize))
	}
	return nil
}

// proveGrowth checks that the larger of two trees of one log extends the
// smaller, and returns the larger.
func proveGrowth(a, b translog.Tree, path [][32]byte) (translog.Tree, error) {
	if a.Origin != b.Origin {
		return translog.Tree{}, fail(Proof, RuleConsistency, "trees of two logs, %.80q and %.80q", a.Origin, b.Origin)
	}
	if a.Size > b.Size {
		a, b = b, a
	}
	if err := translog.VerifyConsistency(a.Size, b.Size, path, a.Root, b.Root); err != nil {
		if a.Size == b.Size && a.Root != b.Root {
			return translog.Tree{}, because(err, fail(Proof, RuleConsistency, "two different trees of size %d, under %s and under %s",
				a.Size, envelope.Hash(a.Root), envelope.Hash(b.Root)))
		}
		return translog.Tree{}, because(err, fail(Proof, RuleConsistency, "the proof does not lead from the tree of size %d under %s to that of size %d under %s",
			a.Size, envelope.Hash(a.Root), b.Size, envelope.Hash(b.Root)))
	}
	return b, nil
}

// openNote makes step 1 for a checkpoint note.
func openNote(note []byte, vkey, origin string) (translog.Tree, error) {
	t, err := translog.OpenNote(note, vkey)
	if err != nil {
		return t, fail(Signatures, RuleNote, "checkpoint note: %w", err)
	}
	if t.Origin != origin {
		return t, fail(Signatures, RuleNote, "checkpoint note of log %.80q, want %q", t.Origin, origin)
	}
	return t, nil
}

// within reports whether at is inside [from − skew, until + skew].
func within(at, from, until time.Time, skew time.Duration) error {
	switch {
	case at.Before(from.Add(-skew)):
		return fmt.Errorf("%s is more than %s before %s", envelope.At(at), skew, envelope.At(from))
	case at.After(until.Add(skew)):
		return fmt.Errorf("%s is more than %s after %s", envelope.At(at), skew, envelope.At(until))
	}
	return nil
}
