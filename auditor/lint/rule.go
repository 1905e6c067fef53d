package lint

import "github.com/uzpif-oi/uzpif-oi/translog/fsck"

// A Rule is the stable short name of one.
type Rule string

// The rules about one entry by itself.
const (
	Form         Rule = "form"          // an entry is one object of the schema, in canonical form
	Signature    Rule = "signature"     // a signature by a key of the card verifies
	UnknownKey   Rule = "unknown-key"   // an entry is signed by a key of the card
	KeyEpoch     Rule = "key-epoch"     // the key counts for the entry's epoch and time, and epochs do not go back
	Indexer      Rule = "indexer"       // an entry is of the indexer whose log it is
	Origin       Rule = "origin"        // an entry names this log
	Profile      Rule = "profile"       // an entry names the profile
	Sequence     Rule = "sequence"      // an entry's sequence is its index
	Future       Rule = "future"        // nothing is issued more than 120 s ahead of now
	Status       Rule = "status"        // status and decision go together
	BatchID      Rule = "batch-id"      // a decision has the batch_id that its status asks for, and no other
	RevocationID Rule = "revocation-id" // a decision has the revocation_id that its status asks for, and no other
	Set          Rule = "set"           // count and root of the pages go together
)

// The rules about entries one after another.
const (
	Time        Rule = "time"         // issued_at does not go back
	Terms       Rule = "terms"        // the terms of one grant do not change
	Expired     Rule = "expired"      // nothing is accepted under a grant from the second of its end on
	Superseded  Rule = "superseded"   // nothing is accepted under a grant after a newer one took over
	Rebind      Rule = "rebind"       // a grant takes a collection over by a rebind, or in a new journal epoch
	Revoked     Rule = "revoked"      // nothing is accepted under a grant after all of it was revoked
	Unrevoked   Rule = "unrevoked"    // a deletion after a revocation comes behind its acknowledgement
	RevokeTwice Rule = "revoke-twice" // a revocation is acknowledged once, and its deletion once
	Batch       Rule = "batch"        // a batch is one commit, of one stretch, each decision once
	Cursor      Rule = "cursor"       // a collection's cursor goes on from where it stands
	Request     Rule = "request"      // an answer to a request moves no cursor, and its number is the next
	Pages       Rule = "pages"        // no more pages are decided upon than can be there
)

// The rules about checkpoints and the tree; translog/fsck judges most of them.
const (
	CheckpointForm      Rule = "checkpoint-form"      // a checkpoint is one object of the schema
	CheckpointKey       Rule = "checkpoint-key"       // it is signed by a key that counts
	CheckpointSize      Rule = "checkpoint-size"      // its sequence is its tree_size, and that at which it stands
	CheckpointOrigin    Rule = "checkpoint-origin"    // it names this log
	CheckpointIndexer   Rule = "checkpoint-indexer"   // it is of the indexer whose log it is
	CheckpointContinues Rule = "checkpoint-continues" // all name the same log before this one
	CheckpointNote      Rule = "checkpoint-note"      // the note is the log's, and of the artefact's size and root
	CheckpointChain     Rule = "checkpoint-chain"     // previous_hash is the one published before
	CheckpointFork      Rule = "checkpoint-fork"      // one checkpoint is the first of its size
	CheckpointTime      Rule = "checkpoint-time"      // issued_at does not go back
	CheckpointRoot      Rule = "checkpoint-root"      // its root is that of the entries
	Frozen              Rule = "frozen"               // the newest one is not old
	Rollback            Rule = "rollback"             // the log is not smaller than it was seen
	Fork                Rule = "fork"                 // the log goes on from the tree that was seen
	Root                Rule = "root"                 // the entries are those of the checkpoint
	Tile                Rule = "tile"                 // a tile is what lies below it
	TileEntry           Rule = "entry"                // an entry is what its tile says
	Missing             Rule = "missing"              // what the tree covers is served
	Unreadable          Rule = "unreadable"           // what is served has the form of C2SP
	Proof               Rule = "proof"                // proofs that are served verify
)

// The rules about single pages, where their leaf key is disclosed.
const (
	Disclosed    Rule = "disclosed"     // what is disclosed is what the entry decided upon
	PageUnknown  Rule = "page-unknown"  // a page that is updated or deleted was included
	PageReturned Rule = "page-returned" // a page deleted after a revocation does not come back under that grant
)

// ruleOf is the rule of what fsck found.
func ruleOf(f fsck.Finding) Rule {
	switch {
	case f.Rule != "":
		return Rule(f.Rule)
	case f.Kind == fsck.Checkpoint:
		return CheckpointNote // all else about checkpoints has a name
	}
	return Rule(f.Kind)
}

// OfCheckpoint reports whether the rule is about a checkpoint or the tree, so that
// the index of a violation is no entry's.
func (r Rule) OfCheckpoint() bool {
	switch r {
	case CheckpointForm, CheckpointKey, CheckpointSize, CheckpointOrigin, CheckpointIndexer, CheckpointContinues, CheckpointNote,
		CheckpointChain, CheckpointFork, CheckpointTime, CheckpointRoot, Frozen, Rollback, Fork, Root, Tile, Missing, Unreadable, Proof:
		return true
	}
	return false
}
