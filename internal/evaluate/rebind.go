package evaluate

import (
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// ExpectedRebind is what the publisher knows of a rebind before its answer
// comes. Agreed holds the facts of the new grant.
type ExpectedRebind struct {
	Agreed

	JournalEpoch, Cursor uint64
	Left                 uint64 // pages that the new scope leaves outside
	Pages                uint64 // pages in the state after
	StateCommitment      envelope.Hash

	Asked time.Time     // when the rebind was first written down
	Sent  time.Time     // when it was first sent; zero if that was in another session
	Now   time.Time     // when the answer came
	Seen  translog.Tree // the last tree verified of this log; the zero Tree if none
}

// Rebind is Batch for a renewed grant that took over the state of its series.
// Its receipt names no batch. The entries are the pages that left the state,
// if any did, and then the takeover itself; they claim no page singly, so both
// are under the root of the empty tree.
func Rebind(a Answer, e ExpectedRebind) (*Accepted, error) {
	if e.Now.IsZero() || e.Asked.IsZero() {
		return nil, errors.New("evaluate: a time is missing")
	}
	if err := e.Agreed.complete(); err != nil {
		return nil, err
	}
	batch := Expected{
		Agreed: e.Agreed, JournalEpoch: e.JournalEpoch, From: e.Cursor, Through: e.Cursor, StateCommitment: e.StateCommitment,
		ManifestIssuedAt: e.Asked, Sent: e.Sent, Now: e.Now, Seen: e.Seen,
	}
	return evaluate(a, batch, func() ([]expectedEntry, error) { return e.entries(), nil })
}

func (e *ExpectedRebind) entries() []expectedEntry {
	var want []expectedEntry
	if e.Left > 0 {
		want = append(want, expectedEntry{translog.Exclude, translog.OutOfScope, counted(e.Left)})
	}
	return append(want, expectedEntry{translog.Update, translog.Rebound, counted(e.Pages)})
}

// counted is a set that only counts its pages, and claims none of them.
func counted(n uint64) translog.Set {
	return translog.Set{Count: n, Root: translog.SetOf(nil).Root}
}
