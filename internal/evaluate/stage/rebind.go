package stage

import (
	"fmt"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Rebind is a renewed grant with what becomes of the state under it.
type Rebind struct {
	Pair        grants.Pair
	Cursor      uint64
	Left, Pages uint64 // outside the new scope, and still held
	StateAfter  envelope.Hash
}

// Renew makes the next grant of the series, and the rebind to it.
func (s *Stage) Renew(t testing.TB, left, pages uint64) *Rebind {
	t.Helper()
	r := &Rebind{Pair: s.Grant(t, 2, func(*grants.Draft) {}), Cursor: s.Revision, Left: left, Pages: pages}
	r.StateAfter = envelope.TaggedHash("state", fmt.Append(nil, r.Cursor, left))
	return r
}

// AnswerRebind logs a rebind and answers it.
func (s *Stage) AnswerRebind(t testing.TB, r *Rebind, seen uint64, lie Lie) evaluate.Answer {
	t.Helper()
	b := &Batch{From: r.Cursor, Through: r.Cursor, StateAfter: r.StateAfter, Pair: r.Pair}
	var drafts []translog.Entry
	if r.Left > 0 {
		e := s.entry(b)
		e.Decision, e.Status, e.Objects = translog.Exclude, translog.OutOfScope, Counted(r.Left)
		drafts = append(drafts, e)
	}
	e := s.entry(b)
	e.Decision, e.Status, e.Objects = translog.Update, translog.Rebound, Counted(r.Pages)
	return s.answer(t, b, append(drafts, e), seen, lie)
}

// Counted is a set that claims no page singly.
func Counted(n uint64) translog.Set { return translog.Set{Count: n, Root: translog.SetOf(nil).Root} }

// ExpectRebind is what the publisher knows before the answer to r comes.
func (s *Stage) ExpectRebind(r *Rebind, seen uint64) evaluate.ExpectedRebind {
	e := evaluate.ExpectedRebind{
		Agreed: s.agreed(r.Pair), JournalEpoch: s.JournalEpoch, Cursor: r.Cursor, Left: r.Left, Pages: r.Pages,
		StateCommitment: s.LeafKey.StateCommitment(s.JournalEpoch, r.Cursor, r.StateAfter),
		Asked:           s.Now, Sent: s.Now, Now: s.Now.Add(2 * time.Second),
	}
	if seen > 0 {
		e.Seen = s.Tree(seen)
	}
	return e
}
