package evaluate

import (
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Window is how far the indexer's and the publisher's clocks may differ.
const Window = 120 * time.Second

// maxEntries is the most entries that one batch may have: one a decision.
const maxEntries = 4

// order is the order in which the entries of a batch are appended.
var order = [maxEntries]translog.Decision{translog.Include, translog.Update, translog.DeleteAck, translog.Exclude}

// An Answer is what an indexer sent for a batch, as it came.
type Answer struct {
	Receipt     []byte       // indexer-receipt
	Entries     [][]byte     // index-transparency-entry, in index order
	Inclusion   [][][32]byte // one path an entry, at the checkpoint's size
	Checkpoint  []byte       // signed-checkpoint that the receipt names
	Note        []byte       // the same as a C2SP signed note
	Consistency [][32]byte   // between Expected.Seen and the checkpoint, whichever is larger; empty if nothing was seen
}

// A Decided is one item of a batch: its leaf, and what the indexer says that
// it decided.
type Decided struct {
	Op       translog.Op
	LeafHash [32]byte
	Decision translog.Decision
}

// Agreed is whom an answer has to come from, whom it has to be for, and what
// the two agreed upon: all of it known to the publisher without the answer.
type Agreed struct {
	Publisher, Indexer envelope.Name
	Keys               envelope.KeySource // the indexer's, from its trusted card
	LogVKey, LogOrigin string             // from the same card

	GrantID, PolicyHash, ScopeHash envelope.Hash
	GrantExpiresAt                 time.Time
	Purposes                       []string
	CollectionRef                  envelope.Hash
	Subject                        envelope.Name // the publisher, or the relationship's blinded name
}

// complete refuses what would make a check mean nothing.
func (g *Agreed) complete() error {
	switch {
	case g.Keys == nil, g.LogVKey == "", g.LogOrigin == "":
		return errors.New("evaluate: no trusted key to evaluate by")
	case g.GrantID.IsZero(), g.Publisher == "", g.Indexer == "", g.Subject == "":
		return errors.New("evaluate: grant or party not named")
	case g.GrantExpiresAt.IsZero():
		return errors.New("evaluate: a time is missing")
	}
	return nil
}

// Expected is what the publisher knows of its own: nothing in it comes from
// the answer, but for the decisions in Sets.
type Expected struct {
	Agreed

	BatchID                     envelope.Hash // object_id of the manifest
	JournalEpoch, From, Through uint64
	Request                     uint64    // the manifest's
	Sets                        []Decided // in batch order
	StateCommitment             envelope.Hash

	ManifestIssuedAt time.Time
	Sent             time.Time     // when the batch was first sent; zero if that was in another session
	Now              time.Time     // when the answer came
	Seen             translog.Tree // the last tree verified of this log; the zero Tree if none
}

// Accepted is an answer that passed all three steps.
type Accepted struct {
	Receipt    *envelope.Object
	Body       translog.Receipt
	Entries    []*envelope.Object
	Checkpoint *envelope.Object
	Own        translog.Tree // of the receipt's own checkpoint
	Tree       translog.Tree // the larger of Own and Expected.Seen: to be kept as the next Seen
}

// Batch evaluates an answer in the three steps of UZPIF-OI 9.1.4. The error is
// a *Failure that names step and rule, unless e itself is incomplete. After a
// Failure nothing of the answer may be relied upon, and all of it is worth
// keeping.
//
// A stored receipt that comes again may be older than Seen. Then Consistency
// has to lead from its checkpoint to Seen, and Tree remains Seen.
func Batch(a Answer, e Expected) (*Accepted, error) {
	if err := e.complete(); err != nil {
		return nil, err
	}
	return evaluate(a, e, func() ([]expectedEntry, error) { return partition(e.Sets) })
}

// evaluate is Batch for whatever entries are wanted.
func evaluate(a Answer, e Expected, want func() ([]expectedEntry, error)) (*Accepted, error) {
	r, note, err := openAnswer(a, e)
	if err != nil {
		return nil, err
	}
	if err := r.expectReceipt(e); err != nil {
		return nil, err
	}
	if err := r.expectEntries(e); err != nil {
		return nil, err
	}
	if err := r.expectSets(want); err != nil {
		return nil, err
	}
	if err := r.expectTimes(e); err != nil {
		return nil, err
	}
	if err := matchCheckpoint(r.checkpoint, r.receipt.body.Checkpoint, e.LogOrigin); err != nil {
		return nil, err
	}
	if err := r.matchOrder(); err != nil {
		return nil, err
	}
	tree, err := r.proveAnswer(a, e, note)
	if err != nil {
		return nil, err
	}
	done := &Accepted{
		Receipt: r.receipt.Object, Body: r.receipt.body, Checkpoint: r.checkpoint.Object, Own: note, Tree: tree,
	}
	for _, entry := range r.entries {
		done.Entries = append(done.Entries, entry.Object)
	}
	return done, nil
}

func (e *Expected) complete() error {
	switch {
	case e.BatchID.IsZero():
		return errors.New("evaluate: batch not named")
	case e.Now.IsZero(), e.ManifestIssuedAt.IsZero():
		return errors.New("evaluate: a time is missing")
	}
	return e.Agreed.complete()
}

// openAnswer is step 1, on all that was signed.
func openAnswer(a Answer, e Expected) (*records, translog.Tree, error) {
	var none translog.Tree
	if n := len(a.Entries); n == 0 || n > maxEntries {
		return nil, none, fail(Signatures, RuleForm, "%d entries, want 1 to %d", n, maxEntries)
	}
	if len(a.Inclusion) != len(a.Entries) {
		return nil, none, fail(Signatures, RuleForm, "%d inclusion proofs for %d entries", len(a.Inclusion), len(a.Entries))
	}
	var r records
	var err error
	if r.receipt, err = authenticate[translog.Receipt](a.Receipt, envelope.Receipt, e.Keys, e.Indexer); err != nil {
		return nil, none, err
	}
	for _, raw := range a.Entries {
		entry, err := authenticate[translog.Entry](raw, envelope.Entry, e.Keys, e.Indexer)
		if err != nil {
			return nil, none, err
		}
		r.entries = append(r.entries, entry)
	}
	if r.checkpoint, err = authenticate[translog.Checkpoint](a.Checkpoint, envelope.Checkpoint, e.Keys, e.Indexer); err != nil {
		return nil, none, err
	}
	note, err := openNote(a.Note, e.LogVKey, e.LogOrigin)
	return &r, note, err
}

func (e *Expected) terms() terms {
	return terms{
		indexer: e.Indexer, grant: e.GrantID, policy: e.PolicyHash, scope: e.ScopeHash, collection: e.CollectionRef,
		batch: e.BatchID, purposes: e.Purposes, journalEpoch: e.JournalEpoch, from: e.From, through: e.Through,
	}
}

// expectReceipt compares the receipt with what is expected and with the entries
// that came with it.
func (r *records) expectReceipt(e Expected) error {
	o, body := r.receipt.Object, &r.receipt.body
	switch {
	case o.Audience != e.Publisher || body.Publisher != e.Publisher:
		return fail(Match, RuleParties, "the receipt is for %s (audience %s), want %s", body.Publisher, o.Audience, e.Publisher)
	case o.Subject != e.Subject:
		return fail(Match, RuleParties, "the receipt's subject is %s, want %s", o.Subject, e.Subject)
	}
	if err := receiptTerms(body).match(o.Type, e.terms()); err != nil {
		return err
	}
	if len(body.Entries) != len(r.entries) {
		return fail(Match, RuleEntries, "the receipt lists %d entries, %d came with it", len(body.Entries), len(r.entries))
	}
	for i, entry := range r.entries {
		if err := matchRef(body.Entries[i], entry); err != nil {
			return err
		}
	}
	return nil
}

// expectEntries compares each entry with what is expected.
func (r *records) expectEntries(e Expected) error {
	for _, entry := range r.entries {
		body := &entry.body
		if err := entryTerms(body).match(entry.Type, e.terms()); err != nil {
			return err
		}
		switch {
		case body.Request != e.Request:
			return fail(Match, RuleBatch, "entry %d: request %d, want %d", entry.Sequence, body.Request, e.Request)
		case entry.Subject != e.Subject:
			return fail(Match, RuleParties, "entry %d: subject %s, want %s", entry.Sequence, entry.Subject, e.Subject)
		case body.LogOrigin != e.LogOrigin:
			return fail(Match, RuleSequence, "entry %d: log %.80q, want %q", entry.Sequence, body.LogOrigin, e.LogOrigin)
		case !body.GrantExpiresAt.Equal(e.GrantExpiresAt):
			return fail(Match, RuleGrant, "entry %d: grant expires at %s, want %s", entry.Sequence, body.GrantExpiresAt, envelope.At(e.GrantExpiresAt))
		case body.State != e.StateCommitment:
			return fail(Match, RuleState, "entry %d: state %s, want %s", entry.Sequence, body.State, e.StateCommitment)
		}
	}
	return nil
}

// expectTimes checks when each object says that it was signed. A grant has
// expired at the very second of its expiry, and no skew is allowed on it.
func (r *records) expectTimes(e Expected) error {
	objects := []*envelope.Object{r.receipt.Object, r.checkpoint.Object}
	for _, entry := range r.entries {
		objects = append(objects, entry.Object)
		if !entry.IssuedAt.Before(e.GrantExpiresAt) {
			return fail(Match, RuleGrant, "entry %d was issued at %s, the grant expired at %s",
				entry.Sequence, envelope.At(entry.IssuedAt), envelope.At(e.GrantExpiresAt))
		}
	}
	from := e.ManifestIssuedAt
	if !e.Sent.IsZero() {
		from = e.Now
	}
	for _, o := range objects {
		if err := within(o.IssuedAt, from, e.Now, Window); err != nil {
			return fail(Match, RuleTime, "%s: issued_at: %w", o.Type, err)
		}
		if err := o.Fresh(e.Now); err != nil {
			return fail(Match, RuleTime, "%s: %w", o.Type, err)
		}
	}
	return nil
}

// proveAnswer is step 3. It returns the larger of the answer's tree and the one seen
// before, once the one is proven to extend the other.
func (r *records) proveAnswer(a Answer, e Expected, note translog.Tree) (translog.Tree, error) {
	if err := matchTree(note, &r.checkpoint.body); err != nil {
		return translog.Tree{}, err
	}
	for i, entry := range r.entries {
		if err := proveEntry(entry.Object, a.Inclusion[i], &r.checkpoint.body); err != nil {
			return translog.Tree{}, err
		}
	}
	return grow(e.Seen, note, a.Consistency)
}

// Grow verifies a checkpoint note of the log that vkey names against seen, the
// last tree verified of it (the zero Tree if none), and returns the larger
// tree. The error is a *Failure.
func Grow(seen translog.Tree, note []byte, vkey, origin string, path [][32]byte) (translog.Tree, error) {
	t, err := openNote(note, vkey, origin)
	if err != nil {
		return t, err
	}
	return grow(seen, t, path)
}

func grow(seen, next translog.Tree, path [][32]byte) (translog.Tree, error) {
	if seen == (translog.Tree{}) {
		if len(path) != 0 {
			return next, fail(Proof, RuleConsistency, "a proof of %d hashes from a tree that was never seen", len(path))
		}
		return next, nil
	}
	return proveGrowth(seen, next, path)
}
