package evaluate

import (
	"errors"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// AckAnswer is what an indexer sent for one revoked series, as it came.
type AckAnswer struct {
	Acknowledgement []byte     // revocation-acknowledgement
	Entry           []byte     // index-transparency-entry that it names
	Inclusion       [][32]byte // of the entry, at the checkpoint's size
	Checkpoint      []byte     // signed-checkpoint of the same commit
	Note            []byte     // the same as a C2SP signed note
	Consistency     [][32]byte // between ExpectedAck.Seen and the checkpoint; may be absent
}

// Standing is one place at which a series may have stood when it was revoked.
type Standing struct {
	JournalEpoch, Cursor uint64
	State                envelope.Hash // commitment
}

// ExpectedAck is what the publisher knows of a revoked series.
type ExpectedAck struct {
	Agreed // under the newest grant of the series that the indexer has seen

	Grant      *grants.Grant // that grant
	Revocation *grants.Revocation
	Standings  []Standing // more than one when an answer was lost
	// Lost says that the publisher's records were lost, put back to an older copy or begun
	// anew, so that the series may stand where no Standing is. Such an acknowledgement is
	// accepted, and Unplaced; whether the place is the right one, the log tells.
	Lost bool
	Now  time.Time     // when the acknowledgement came
	Seen translog.Tree // the last tree verified of this log; the zero Tree if none
}

// Acked is an acknowledgement that passed all three steps.
type Acked struct {
	Object    *envelope.Object
	Body      translog.Acknowledgement
	Entry     *envelope.Object
	EntryBody translog.Entry
	Own       translog.Tree // of the acknowledgement's own checkpoint
	Tree      translog.Tree // to be kept as the next Seen
	Linked    bool          // Own and Seen are proven to be of one growing log
	Unplaced  bool          // at none of the standings, see ExpectedAck.Lost
}

// Acknowledgement evaluates the answer to a revocation (UZPIF-OI 9.1.4,
// 12.6.1): that it is the indexer's, for this publisher, about this revocation
// and a grant that it reaches, signed not before the revocation was, and in
// the log. The error is a *Failure, unless e itself is incomplete.
//
// Withdrawn consent never waits, so an acknowledgement may come without the
// proof from the tree that was seen last. It is accepted all the same, but not
// Linked, and Seen stays; a fork at one size is refused.
func Acknowledgement(a AckAnswer, e ExpectedAck) (*Acked, error) {
	if err := e.complete(); err != nil {
		return nil, err
	}
	ack, r, note, err := openAck(a, e)
	if err != nil {
		return nil, err
	}
	entry := r.entries[0]
	for _, check := range []func() error{
		func() error { return e.matchAck(ack, entry) },
		func() error { return e.matchEntry(entry) },
		func() error { return ownCheckpoint(r.checkpoint, e.LogOrigin) },
		func() error { return e.matchPlace(ack, r) },
		func() error { return e.matchTimes(ack, r) },
		func() error { return matchTree(note, &r.checkpoint.body) },
		func() error { return proveEntry(entry.Object, a.Inclusion, &r.checkpoint.body) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	done := &Acked{Object: ack.Object, Body: ack.body, Entry: entry.Object, EntryBody: entry.body, Own: note, Tree: e.Seen,
		Unplaced: e.standing(&entry.body) < 0}
	if len(a.Consistency) == 0 && e.Seen != (translog.Tree{}) && e.Seen.Size != note.Size {
		return done, nil
	}
	done.Tree, err = grow(e.Seen, note, a.Consistency)
	if err != nil {
		return nil, err
	}
	done.Linked = true
	return done, nil
}

func (e *ExpectedAck) complete() error {
	switch {
	case e.Revocation == nil || e.Grant == nil || len(e.Standings) == 0:
		return errors.New("evaluate: revocation, grant or standing not named")
	case e.Now.IsZero():
		return errors.New("evaluate: a time is missing")
	}
	return e.Agreed.complete()
}

// openAck is step 1, on all that was signed.
func openAck(a AckAnswer, e ExpectedAck) (ack signed[translog.Acknowledgement], r *records, note translog.Tree, err error) {
	r = new(records)
	if ack, err = authenticate[translog.Acknowledgement](a.Acknowledgement, envelope.Acknowledgement, e.Keys, e.Indexer); err != nil {
		return ack, nil, note, err
	}
	entry, err := authenticate[translog.Entry](a.Entry, envelope.Entry, e.Keys, e.Indexer)
	if err != nil {
		return ack, nil, note, err
	}
	r.entries = append(r.entries, entry)
	if r.checkpoint, err = authenticate[translog.Checkpoint](a.Checkpoint, envelope.Checkpoint, e.Keys, e.Indexer); err != nil {
		return ack, nil, note, err
	}
	note, err = openNote(a.Note, e.LogVKey, e.LogOrigin)
	return ack, r, note, err
}

// matchAck compares the acknowledgement with revocation, grant and entry.
func (e *ExpectedAck) matchAck(ack signed[translog.Acknowledgement], entry signed[translog.Entry]) error {
	o, body := ack.Object, &ack.body
	id := e.Revocation.Object.ID
	scope, err := e.Revocation.ScopeHash(e.Grant)
	if err != nil {
		return err
	}
	switch {
	case o.Audience != e.Publisher || body.Publisher != e.Publisher || body.Indexer != e.Indexer:
		return fail(Match, RuleParties, "the acknowledgement is from %s for %s (audience %s), want %s", body.Indexer, body.Publisher, o.Audience, e.Publisher)
	case o.Subject != e.Subject:
		return fail(Match, RuleParties, "the acknowledgement's subject is %s, want %s", o.Subject, e.Subject)
	case body.RevocationID != id || entry.body.RevocationID != id:
		return fail(Match, RuleRevocation, "acknowledgement and entry name revocations %s and %s, want %s", body.RevocationID, entry.body.RevocationID, id)
	case !e.Revocation.Reaches(e.Grant):
		return fail(Match, RuleRevocation, "the revocation does not reach grant %s", e.GrantID)
	case !body.GrantID.IsZero() && body.GrantID != e.GrantID:
		return fail(Match, RuleGrant, "the acknowledgement names grant %s, want %s", body.GrantID, e.GrantID)
	case body.PolicyHash != e.PolicyHash:
		return fail(Match, RulePolicy, "the acknowledgement names policy %s, want %s", body.PolicyHash, e.PolicyHash)
	case body.ScopeHash != scope:
		return fail(Match, RuleScope, "the acknowledgement names scope %s, want %s", body.ScopeHash, scope)
	case body.AckType != entry.body.Decision:
		return fail(Match, RuleEntries, "the acknowledgement is of a %s, its entry of a %s", body.AckType, entry.body.Decision)
	case body.Entry.ObjectID != entry.ID || body.Entry.Index != entry.Sequence:
		return fail(Match, RuleEntries, "the acknowledgement names entry %d, %s, the entry is %d, %s",
			body.Entry.Index, body.Entry.ObjectID, entry.Sequence, entry.ID)
	case body.Count != entry.body.Objects.Count:
		return fail(Match, RuleEntries, "the acknowledgement is over %d pages, its entry over %d", body.Count, entry.body.Objects.Count)
	}
	return nil
}

// standing is the index of a standing at the entry's place, or less than 0.
func (e *ExpectedAck) standing(body *translog.Entry) int {
	return slices.IndexFunc(e.Standings, func(s Standing) bool { return s.JournalEpoch == body.JournalEpoch && s.Cursor == body.Through })
}

// later reports whether the entry may be at a place that was lost: of a journal epoch
// that is not known any more, or further on in one that is.
func (e *ExpectedAck) later(body *translog.Entry) bool {
	return e.Lost && !slices.ContainsFunc(e.Standings, func(s Standing) bool { return s.JournalEpoch == body.JournalEpoch && s.Cursor > body.Through })
}

// matchEntry compares the entry with grant, disposition and standing.
func (e *ExpectedAck) matchEntry(entry signed[translog.Entry]) error {
	body := &entry.body
	at := e.standing(body)
	unplaced := at < 0 && e.later(body)
	if at < 0 && !unplaced {
		return fail(Match, RuleBatch, "the entry is at revision %d of journal epoch %d, which was never acknowledged", body.Through, body.JournalEpoch)
	}
	scope, err := e.Revocation.ScopeHash(e.Grant)
	if err != nil {
		return err
	}
	want := terms{
		indexer: e.Indexer, grant: e.GrantID, policy: e.PolicyHash, scope: scope, collection: e.CollectionRef,
		purposes: e.Purposes, journalEpoch: body.JournalEpoch, from: body.Through, through: body.Through,
	}
	if err := entryTerms(body).match(entry.Type, want); err != nil {
		return err
	}
	switch {
	case entry.Subject != e.Subject:
		return fail(Match, RuleParties, "entry %d: subject %s, want %s", entry.Sequence, entry.Subject, e.Subject)
	case body.LogOrigin != e.LogOrigin:
		return fail(Match, RuleSequence, "entry %d: log %.80q, want %q", entry.Sequence, body.LogOrigin, e.LogOrigin)
	case !body.GrantExpiresAt.Equal(e.GrantExpiresAt):
		return fail(Match, RuleGrant, "entry %d: grant expires at %s, want %s", entry.Sequence, body.GrantExpiresAt, envelope.At(e.GrantExpiresAt))
	case !unplaced && !slices.ContainsFunc(e.Standings, func(s Standing) bool {
		return s.JournalEpoch == body.JournalEpoch && s.Cursor == body.Through && s.State == body.State
	}):
		return fail(Match, RuleState, "entry %d: state %s, want %s", entry.Sequence, body.State, e.Standings[at].State)
	case body.Status != translog.Stopped && body.Status != translog.Revoked:
		return fail(Match, RuleRevocation, "entry %d is %s/%s, which acknowledges no revocation", entry.Sequence, body.Decision, body.Status)
	case body.Status == translog.Revoked && e.Revocation.Body.Disposition == grants.DispositionStop:
		return fail(Match, RuleRevocation, "entry %d says that pages were deleted, the revocation asked for %s", entry.Sequence, e.Revocation.Body.Disposition)
	case body.Status == translog.Stopped && body.Objects.Root != translog.SetOf(nil).Root:
		return fail(Match, RuleSets, "entry %d claims pages singly, under %s", entry.Sequence, body.Objects.Root)
	}
	return nil
}

// matchPlace checks that acknowledgement, entry and checkpoint are of one
// commit.
func (e *ExpectedAck) matchPlace(ack signed[translog.Acknowledgement], r *records) error {
	entry := r.entries[0]
	switch {
	case !ack.body.CheckpointRef.IsZero() && ack.body.CheckpointRef != r.checkpoint.ID:
		return fail(Match, RuleCheckpoint, "the acknowledgement names checkpoint %s, want %s", ack.body.CheckpointRef, r.checkpoint.ID)
	case ack.Sequence != entry.Sequence || ack.Epoch != entry.Epoch:
		return fail(Match, RuleSequence, "the acknowledgement has epoch %d and sequence %d, its entry %d and %d",
			ack.Epoch, ack.Sequence, entry.Epoch, entry.Sequence)
	case r.checkpoint.Epoch != entry.Epoch:
		return fail(Match, RuleSequence, "entry %d is of epoch %d, its checkpoint of %d", entry.Sequence, entry.Epoch, r.checkpoint.Epoch)
	case ack.IssuedAt.Before(entry.IssuedAt):
		return fail(Match, RuleTime, "the acknowledgement was issued at %s, before its entry (%s)", envelope.At(ack.IssuedAt), envelope.At(entry.IssuedAt))
	}
	return r.matchOrder()
}

// matchTimes checks that all was signed after the revocation and before now.
// An acknowledgement may be asked for again long after it was signed.
func (e *ExpectedAck) matchTimes(ack signed[translog.Acknowledgement], r *records) error {
	for _, o := range []*envelope.Object{ack.Object, r.entries[0].Object, r.checkpoint.Object} {
		if err := within(o.IssuedAt, e.Revocation.Object.IssuedAt, e.Now, Window); err != nil {
			return fail(Match, RuleTime, "%s: issued_at: %w", o.Type, err)
		}
		if err := o.Fresh(e.Now); err != nil {
			return fail(Match, RuleTime, "%s: %w", o.Type, err)
		}
	}
	return nil
}
