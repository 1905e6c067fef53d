package translog

import (
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// Profile is the log profile that entries and checkpoints name.
const Profile = "uzpif-oi-log/1"

// RootAlgorithm is how a checkpoint's root is made.
const RootAlgorithm = "rfc6962-sha256"

// A Decision is what an entry records (UZPIF-OI 9.1.2).
type Decision string

// The five decisions of UZPIF-OI 9.1.2.
const (
	Include   Decision = "include"
	Exclude   Decision = "exclude"
	Update    Decision = "update"
	RevokeAck Decision = "revoke-ack"
	DeleteAck Decision = "delete-ack"
)

// A Status says what a decision means; without one a decision stands for
// nothing. Accepted, Removed and Refused belong to batches.
type Status string

// The statuses, with the decisions they stand beside.
const (
	Accepted     Status = "accepted"      // include, update: pages of a batch
	Removed      Status = "removed"       // delete-ack: tombstones of a batch
	Refused      Status = "refused"       // exclude: items of a batch, each with its reason in the answer
	Reconciled   Status = "reconciled"    // update, count 0: a batch that only moves the cursor
	Rebound      Status = "rebound"       // update: a renewed grant took the state over
	GrantExpired Status = "grant-expired" // exclude
	OutOfScope   Status = "out-of-scope"  // exclude: pages that a narrower grant left outside
	Retention    Status = "retention"     // delete-ack
	Stopped      Status = "stopped"       // revoke-ack
	Revoked      Status = "revoked"       // delete-ack: after a revocation
)

// Allowed reports whether s may stand beside d, and whether an entry with it
// must (batch) carry the batch_id of what was offered.
func (s Status) Allowed(d Decision) (batch, ok bool) {
	switch s {
	case Accepted:
		return true, d == Include || d == Update
	case Removed:
		return true, d == DeleteAck
	case Refused:
		return true, d == Exclude
	case Reconciled:
		return true, d == Update
	case Rebound:
		return false, d == Update
	case GrantExpired, OutOfScope:
		return false, d == Exclude
	case Retention, Revoked:
		return false, d == DeleteAck
	case Stopped:
		return false, d == RevokeAck
	}
	return false, false
}

// A Set is a decision set: how many leaves, and their RFC 6962 root.
type Set struct {
	Count uint64        `json:"count"`
	Root  envelope.Hash `json:"root"`
}

// Entry is the body of an index-transparency-entry: one decision over a set of
// pages of one series (UZPIF-OI 9.1.2). Fields stand in canonical order.
type Entry struct {
	BatchID        envelope.Hash `json:"batch_id,omitzero"`
	CheckpointRef  envelope.Hash `json:"checkpoint_ref,omitzero"`
	CollectionRef  envelope.Hash `json:"collection_ref"`
	Decision       Decision      `json:"decision"`
	From           uint64        `json:"from"`
	GrantExpiresAt envelope.Time `json:"grant_expires_at"`
	GrantID        envelope.Hash `json:"grant_id"`
	Indexer        envelope.Name `json:"indexer"`
	JournalEpoch   uint64        `json:"journal_epoch"`
	LogOrigin      string        `json:"log_origin"`
	Objects        Set           `json:"objects"`
	PolicyHash     envelope.Hash `json:"policy_hash"`
	Profile        string        `json:"profile"`
	Purposes       []string      `json:"purposes"`
	Request        uint64        `json:"request,omitzero"` // of a batch that answers a request
	RevocationID   envelope.Hash `json:"revocation_id,omitzero"`
	ScopeHash      envelope.Hash `json:"scope_hash"`
	State          envelope.Hash `json:"state"`
	Status         Status        `json:"status"`
	Through        uint64        `json:"through"`
}

// Validate makes the checks that the schema leaves open.
func (e *Entry) Validate() error {
	batch, ok := e.Status.Allowed(e.Decision)
	switch {
	case !ok:
		return fmt.Errorf("status %.40q beside decision %.40q", string(e.Status), string(e.Decision))
	case batch == e.BatchID.IsZero():
		return fmt.Errorf("batch_id and status %q contradict one another", e.Status)
	case (e.Status == Stopped || e.Status == Revoked) == e.RevocationID.IsZero():
		return fmt.Errorf("revocation_id and status %q contradict one another", e.Status)
	case e.Profile != Profile:
		return fmt.Errorf("profile %.40q", e.Profile)
	case e.From > e.Through || (!batch && e.From != e.Through):
		return fmt.Errorf("revisions %d to %d", e.From, e.Through)
	case e.Request != 0 && (e.From != e.Through || e.BatchID.IsZero()) || e.Request > envelope.MaxInteger:
		return fmt.Errorf("request %d beside revisions %d to %d", e.Request, e.From, e.Through)
	case len(e.Purposes) == 0:
		return errors.New("no purposes")
	}
	return nil
}

// encode is the canonical form of e. Tens of thousands a second are written, so
// it is done by hand; TestEveryEntryThatIsSignedIsReadBack compares.
func (e *Entry) encode(w *envelope.Encoder) ([]byte, error) {
	w.Reset()
	present := func(name string, h envelope.Hash) {
		if !h.IsZero() {
			w.Hash(name, h)
		}
	}
	present("batch_id", e.BatchID)
	present("checkpoint_ref", e.CheckpointRef)
	w.Hash("collection_ref", e.CollectionRef)
	w.Text("decision", string(e.Decision))
	w.Number("from", e.From)
	w.Time("grant_expires_at", e.GrantExpiresAt)
	w.Hash("grant_id", e.GrantID)
	w.Text("indexer", string(e.Indexer))
	w.Number("journal_epoch", e.JournalEpoch)
	w.Text("log_origin", e.LogOrigin)
	w.Within("objects", func(w *envelope.Encoder) {
		w.Number("count", e.Objects.Count)
		w.Hash("root", e.Objects.Root)
	})
	w.Hash("policy_hash", e.PolicyHash)
	w.Text("profile", e.Profile)
	w.Texts("purposes", e.Purposes)
	if e.Request != 0 {
		w.Number("request", e.Request)
	}
	present("revocation_id", e.RevocationID)
	w.Hash("scope_hash", e.ScopeHash)
	w.Hash("state", e.State)
	w.Text("status", string(e.Status))
	w.Number("through", e.Through)
	return w.Object()
}

// ReadBody reads what encode writes, by hand; see envelope.Object.DecodeBody. A
// million entries are read when a log is checked.
func (e *Entry) ReadBody(body []byte) bool {
	r := envelope.NewReader(body)
	got := Entry{
		BatchID: r.OptionalHash("batch_id"), CheckpointRef: r.OptionalHash("checkpoint_ref"), CollectionRef: r.Hash("collection_ref"),
		Decision: Decision(r.Text("decision")), From: r.Number("from"), GrantExpiresAt: r.Time("grant_expires_at"), GrantID: r.Hash("grant_id"),
		Indexer: r.Name("indexer"), JournalEpoch: r.Number("journal_epoch"), LogOrigin: r.Text("log_origin"),
	}
	r.Within("objects", func(r *envelope.Reader) { got.Objects = Set{Count: r.Number("count"), Root: r.Hash("root")} })
	got.PolicyHash, got.Profile, got.Purposes = r.Hash("policy_hash"), r.Text("profile"), r.Texts("purposes")
	got.Request = r.OptionalNumber("request")
	got.RevocationID, got.ScopeHash, got.State = r.OptionalHash("revocation_id"), r.Hash("scope_hash"), r.Hash("state")
	got.Status, got.Through = Status(r.Text("status")), r.Number("through")
	if !r.Done() {
		return false
	}
	*e = got
	return true
}

// Checkpoint is the body of a signed-checkpoint (UZPIF-OI 9.1.3).
type Checkpoint struct {
	Algorithm    string        `json:"algorithm"`
	Continues    *Continues    `json:"continues,omitempty"`
	Indexer      envelope.Name `json:"indexer"`
	LogOrigin    string        `json:"log_origin"`
	PreviousHash envelope.Hash `json:"previous_hash,omitzero"`
	Profile      string        `json:"profile"`
	Root         envelope.Hash `json:"root"`
	TreeSize     uint64        `json:"tree_size"`
}

// Continues names the final state of the log that this one goes on from.
type Continues struct {
	Origin string        `json:"origin"`
	Root   envelope.Hash `json:"root"`
	Size   uint64        `json:"size"`
}

// Validate makes the checks that the schema leaves open.
func (c *Checkpoint) Validate() error {
	switch {
	case c.Algorithm != RootAlgorithm:
		return fmt.Errorf("algorithm %.40q", c.Algorithm)
	case c.Profile != Profile:
		return fmt.Errorf("profile %.40q", c.Profile)
	case c.LogOrigin == "":
		return errors.New("no log_origin")
	case c.Continues != nil:
		return c.Continues.validate(c.LogOrigin)
	}
	return nil
}

// encode is the canonical form of c. Every group of entries has a checkpoint of
// its own; TestEveryCheckpointThatIsSignedIsReadBack compares.
func (c *Checkpoint) encode() ([]byte, error) {
	var w envelope.Encoder
	w.Text("algorithm", c.Algorithm)
	if c.Continues != nil {
		w.Within("continues", func(w *envelope.Encoder) {
			w.Text("origin", c.Continues.Origin)
			w.Hash("root", c.Continues.Root)
			w.Number("size", c.Continues.Size)
		})
	}
	w.Text("indexer", string(c.Indexer))
	w.Text("log_origin", c.LogOrigin)
	if !c.PreviousHash.IsZero() {
		w.Hash("previous_hash", c.PreviousHash)
	}
	w.Text("profile", c.Profile)
	w.Hash("root", c.Root)
	w.Number("tree_size", c.TreeSize)
	return w.Object()
}

// validate checks the end of a log that the one named origin continues.
func (c *Continues) validate(origin string) error {
	switch {
	case c.Origin == "" || c.Origin == origin:
		return fmt.Errorf("continues: log %.80q is continued by %.80q", c.Origin, origin)
	case c.Size > envelope.MaxInteger:
		return fmt.Errorf("continues: size %d", c.Size)
	case c.Size == 0 && [32]byte(c.Root) != emptyRoot():
		return errors.New("continues: size 0 with another root than that of the empty tree")
	}
	return nil
}

// equal reports whether both name the same end, or none.
func (c *Continues) equal(d *Continues) bool {
	return c == d || c != nil && d != nil && *c == *d
}

// Tree is the tree with which that log ended.
func (c *Continues) Tree() Tree { return Tree{c.Origin, c.Size, c.Root} }

// EntryRef is how a receipt names one of its entries.
type EntryRef struct {
	Count    uint64        `json:"count"`
	Decision Decision      `json:"decision"`
	Index    uint64        `json:"index"`
	ObjectID envelope.Hash `json:"object_id"`
	Root     envelope.Hash `json:"root"`
}

// CheckpointRef is how a receipt names the checkpoint of its own commit.
type CheckpointRef struct {
	ObjectID envelope.Hash `json:"object_id"`
	Root     envelope.Hash `json:"root"`
	Size     uint64        `json:"size"`
}

// Receipt is the body of an indexer-receipt (UZPIF-OI 12.5.1).
type Receipt struct {
	BatchID       envelope.Hash `json:"batch_id,omitzero"`
	Checkpoint    CheckpointRef `json:"checkpoint"`
	CollectionRef envelope.Hash `json:"collection_ref"`
	Entries       []EntryRef    `json:"entries"`
	From          uint64        `json:"from"`
	GrantID       envelope.Hash `json:"grant_id"`
	Indexer       envelope.Name `json:"indexer"`
	JournalEpoch  uint64        `json:"journal_epoch"`
	PolicyHash    envelope.Hash `json:"policy_hash"`
	Publisher     envelope.Name `json:"publisher"`
	Purposes      []string      `json:"purposes"`
	ScopeHash     envelope.Hash `json:"scope_hash"`
	Through       uint64        `json:"through"`
}

// Validate makes the checks that the schema leaves open.
func (r *Receipt) Validate() error {
	if len(r.Entries) == 0 || len(r.Entries) > 4 {
		return fmt.Errorf("%d entries, want 1 to 4", len(r.Entries))
	}
	for i, e := range r.Entries {
		if i > 0 && e.Index != r.Entries[i-1].Index+1 {
			return errors.New("entry indexes are not consecutive")
		}
	}
	if last := r.Entries[len(r.Entries)-1].Index; last >= r.Checkpoint.Size {
		return fmt.Errorf("entry %d is not under a checkpoint of size %d", last, r.Checkpoint.Size)
	}
	if r.From > r.Through {
		return fmt.Errorf("revisions %d to %d", r.From, r.Through)
	}
	return nil
}

// Acknowledgement is the body of a revocation-acknowledgement (UZPIF-OI
// 12.6.1).
type Acknowledgement struct {
	AckType       Decision      `json:"ack_type"`
	BackupsUntil  envelope.Time `json:"backups_until,omitzero"`
	CheckpointRef envelope.Hash `json:"checkpoint_ref,omitzero"`
	Count         uint64        `json:"count"`
	Entry         AckEntry      `json:"entry"`
	GrantID       envelope.Hash `json:"grant_id,omitzero"`
	Indexer       envelope.Name `json:"indexer"`
	PolicyHash    envelope.Hash `json:"policy_hash"`
	Publisher     envelope.Name `json:"publisher"`
	RevocationID  envelope.Hash `json:"revocation_id"`
	ScopeHash     envelope.Hash `json:"scope_hash"`
}

// AckEntry names the log entry of an acknowledgement.
type AckEntry struct {
	Index    uint64        `json:"index"`
	ObjectID envelope.Hash `json:"object_id"`
}

// Validate makes the checks that the schema leaves open.
func (a *Acknowledgement) Validate() error {
	if a.AckType != RevokeAck && a.AckType != DeleteAck {
		return fmt.Errorf("ack_type %.40q", string(a.AckType))
	}
	return nil
}

// Manifest is the body of a batch-manifest: what a publisher offers in one
// batch. Its object_id is the batch_id.
type Manifest struct {
	CollectionRef envelope.Hash `json:"collection_ref"`
	From          uint64        `json:"from"`
	GrantID       envelope.Hash `json:"grant_id"`
	JournalEpoch  uint64        `json:"journal_epoch"`
	Offered       Set           `json:"offered"`
	Publisher     envelope.Name `json:"publisher"`
	Request       uint64        `json:"request,omitzero"`
	StateAfter    envelope.Hash `json:"state_after"`
	StateBefore   envelope.Hash `json:"state_before"`
	Through       uint64        `json:"through"`
}

// Validate makes the checks that the schema leaves open.
func (m *Manifest) Validate() error {
	switch {
	case m.JournalEpoch == 0 || m.JournalEpoch > envelope.MaxInteger:
		return fmt.Errorf("journal_epoch %d", m.JournalEpoch)
	case m.Request == 0 && m.From >= m.Through, m.Request != 0 && m.From != m.Through:
		return fmt.Errorf("revisions %d to %d", m.From, m.Through)
	case m.Through > envelope.MaxInteger:
		return fmt.Errorf("through %d", m.Through)
	case m.Request > envelope.MaxInteger:
		return fmt.Errorf("request %d", m.Request)
	}
	return nil
}
