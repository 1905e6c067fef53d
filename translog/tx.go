package translog

import (
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Proposal is what one caller wants to commit: entries, and rows that become
// durable together with them.
type Proposal interface {
	// Prepare makes the last checks, then writes rows and appends entries. It
	// runs in the writer, one proposal after the other in the order of commit,
	// and sees the rows of the proposals before it; behind its first call of Batch
	// every Finish of the group before is over, too. An error refuses this
	// proposal alone; it must come before the first row and entry, or the whole
	// group is refused.
	Prepare(tx *Tx) error
	// Finish signs what names the entries and the checkpoint, such as receipts,
	// and writes rows for it. It runs at the same time as the Finish of other
	// proposals of the group, and does not see their rows. An error ends the
	// writer.
	Finish(tx *Tx, c *Committed) error
}

// Committed is what became of a proposal. When Finish sees it nothing of it is
// durable yet. It is Finish's, and so are the Entries: other proposals have their memory
// later. Checkpoint and Note may be kept.
type Committed struct {
	Entries    []*envelope.Object // this proposal's; the Sequence is the index
	Checkpoint *envelope.Object   // of the commit (UZPIF-OI 9.1.3)
	Note       []byte             // the same as a C2SP signed note
	Tree       Tree
}

// A Tx is a proposal's part in a commit. It must not be used after the call
// that it was handed to.
type Tx struct {
	l       *Log
	g       *group
	now     time.Time
	batch   *durable.Batch
	first   uint64 // index of the first entry
	entries []pending
	one     [1]pending     // where entries begins: most proposals have one
	last    *durable.Batch // see Last
	open    bool           // in Prepare, for more entries
	unseen  error          // why the rows of the group before were not there to be read
}

var errNotPreparing = errors.New("append: entries are appended in Prepare")

// pending is an entry that has its index.
type pending struct {
	subject envelope.Name
	body    *Entry
	leaves  [][32]byte
	object  *envelope.Object // nil until signed, and for opaque entries
	raw     []byte
	hash    [32]byte // of raw, once it is signed
}

// Batch is where rows are written, and where they are read from. It is the
// writer's: neither commit nor close it. In Prepare it waits until the rows of the group
// before can be read; a proposal that does without is prepared before that.
func (tx *Tx) Batch() *durable.Batch {
	if tx.open {
		tx.unseen = tx.g.seesBefore()
	}
	if tx.batch == nil { // in Finish, which may well do without
		tx.batch = tx.l.store.NewBatch()
	}
	return tx.batch
}

// Last is where Prepare may write rows that no Prepare behind it in the group has to
// read, because none comes: whoever asks for it is the last of its group. It is far
// cheaper to fill than Batch, and cannot be read. Its rows come behind those of the
// proposals before; no row is written both here and to Batch. It is for thousands of
// rows, and like Batch it is the writer's.
func (tx *Tx) Last() *durable.Batch {
	if tx.last == nil {
		tx.last = tx.l.store.NewBlindBatch()
	}
	return tx.last
}

// Now is the time of the commit, in whole seconds: that of the clock, or of
// what the log signed before if that is later. It is the issued_at of
// everything that the commit signs.
func (tx *Tx) Now() time.Time { return tx.now }

// NextIndex is the index of the entry that is appended next. It holds only if
// the group commits.
func (tx *Tx) NextIndex() uint64 { return tx.first + uint64(len(tx.entries)) }

// Log is the number of the log in its store: indexes of another are of another
// log. 0 is the first; each rotation begins the next.
func (tx *Tx) Log() uint32 { return tx.l.rows.number }

// Append adds an entry about subject. It fills in indexer, profile and
// log_origin of body. leafHashes are those of body.Objects, in order, kept for
// later proofs; nil keeps none. An error (ErrTooLarge, or what is wrong with
// the body) has added nothing.
func (tx *Tx) Append(subject envelope.Name, body Entry, leafHashes [][32]byte) error {
	if !tx.open {
		return errNotPreparing
	}
	c := &tx.l.cfg
	body.Indexer, body.Profile, body.LogOrigin = c.Indexer, Profile, c.Origin
	if _, err := envelope.ParseName(string(subject)); err != nil {
		return fmt.Errorf("append: subject: %w", err)
	}
	if err := body.Validate(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	if len(leafHashes) > 0 && uint64(len(leafHashes)) != body.Objects.Count {
		return fmt.Errorf("append: %d leaf hashes for a set of %d", len(leafHashes), body.Objects.Count)
	}
	e := pending{subject: subject, body: tx.g.mem.bodies.take(), leaves: leafHashes}
	*e.body = body
	if mayBeTooLarge(subject, e.body, c) {
		// Only then is it worth signing here, in the writer, to know.
		if err := tx.l.signEntries([]place{{&e, tx.NextIndex()}}, tx.now, tx.g.mem); err != nil {
			return fmt.Errorf("append: %w", err)
		}
	}
	tx.entries = append(tx.entries, e)
	return nil
}

// mayBeTooLarge compares a bound of the entry's size with MaxEntry: every
// octet of the open fields may need six in JSON, and the rest takes less than
// 4 KiB.
func mayBeTooLarge(subject envelope.Name, body *Entry, c *Config) bool {
	n := len(subject) + len(c.Authority) + len(c.Indexer) + len(c.Origin)
	for _, p := range body.Purposes {
		n += len(p) + 1
	}
	return 6*n+4096 > MaxEntry
}

// AppendOpaque adds an entry of any octets, at most MaxEntry, which is hashed
// and kept as it is: for logs of other entries, and for measuring the tree and
// the store apart from signatures. An auditor of profile "uzpif-oi-log/1"
// reports such an entry, and Committed.Entries has nil for it. raw must not be
// changed until Commit has returned. An error has added nothing.
func (tx *Tx) AppendOpaque(raw []byte) error {
	if !tx.open {
		return errNotPreparing
	}
	if len(raw) > MaxEntry {
		return fmt.Errorf("append: %w: %d octets, at most %d", ErrTooLarge, len(raw), MaxEntry)
	}
	if raw == nil {
		raw = []byte{} // an entry without octets is one too
	}
	tx.entries = append(tx.entries, pending{raw: raw})
	return nil
}

// Sign signs an object in the indexer's name, at Now, under its authority and
// epoch; the rest of h is the caller's.
func (tx *Tx) Sign(h envelope.Header, body any) (*envelope.Object, error) {
	h.Authority, h.Epoch, h.IssuedAt = tx.l.cfg.Authority, tx.l.cfg.Epoch, tx.now
	return envelope.Sign(h, body, tx.l.cfg.Signer)
}

// signCheckpoint makes the artefact and the note of a tree.
func (l *Log) signCheckpoint(t Tree, previous envelope.Hash, now time.Time) (signed, error) {
	c := &Checkpoint{
		Algorithm: RootAlgorithm, Continues: l.continues, Indexer: l.cfg.Indexer, LogOrigin: t.Origin,
		PreviousHash: previous, Profile: Profile, Root: t.Root, TreeSize: t.Size,
	}
	if err := c.Validate(); err != nil {
		return signed{}, err
	}
	body, err := c.encode()
	if err != nil {
		return signed{}, err
	}
	var o *envelope.Object
	var n []byte
	err = parallel(2, func(i int) (err error) {
		if i == 0 {
			o, err = envelope.SignBody(envelope.Header{
				Type: envelope.Checkpoint, Authority: l.cfg.Authority, Subject: l.cfg.Indexer,
				Epoch: l.cfg.Epoch, Sequence: t.Size, IssuedAt: now,
			}, body, l.cfg.Indexer, l.cfg.Signer)
		} else {
			n, err = l.note.note(t)
		}
		return err
	})
	return signed{t, o, n}, err
}
