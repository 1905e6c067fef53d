package evaluate

import (
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxBetween bounds the logs that lie between two of one indexer.
const maxBetween = 16

// A Continuation is what an indexer shows whose log was rotated since it was
// last seen.
type Continuation struct {
	Note        []byte     // of the log that it keeps now
	Checkpoints [][]byte   // signed: the one of Note, then the last of each log in between, the newest first
	Consistency [][32]byte // from the tree seen last to the one with which its log ended
}

// Continue verifies that the log named by vkey and origin goes on from the one
// in which seen was verified: each checkpoint says with which tree the log
// before it ended, and the end of the oldest extends seen. It returns the tree
// of the note, and the end of seen's own log: whatever of that log is shown
// later has to lie under it. keys are those of indexer. The error is a
// *Failure.
func Continue(seen translog.Tree, c Continuation, vkey, origin string, keys envelope.KeySource, indexer envelope.Name) (now, end translog.Tree, err error) {
	if now, err = openNote(c.Note, vkey, origin); err != nil {
		return now, end, err
	}
	if n := len(c.Checkpoints); n == 0 || n > maxBetween {
		return now, end, fail(Signatures, RuleForm, "%d checkpoints lead back to log %.80q, want 1 to %d", n, seen.Origin, maxBetween)
	}
	at := now
	for _, raw := range c.Checkpoints {
		cp, err := authenticate[translog.Checkpoint](raw, envelope.Checkpoint, keys, indexer)
		if err != nil {
			return now, end, err
		}
		if err := ownCheckpoint(cp, at.Origin); err != nil {
			return now, end, err
		}
		if err := matchTree(at, &cp.body); err != nil {
			return now, end, err
		}
		if cp.body.Continues == nil {
			return now, end, fail(Match, RuleSequence, "log %.80q does not say that it continues another", at.Origin)
		}
		at = cp.body.Continues.Tree()
	}
	if at.Origin != seen.Origin {
		return now, end, fail(Match, RuleSequence, "the checkpoints lead back to log %.80q, seen was %.80q", at.Origin, seen.Origin)
	}
	if at.Size < seen.Size {
		return now, end, fail(Proof, RuleConsistency, "log %.80q is said to have ended with %d entries, and %d were seen", at.Origin, at.Size, seen.Size)
	}
	if _, err := proveGrowth(seen, at, c.Consistency); err != nil {
		return now, end, err
	}
	return now, at, nil
}
