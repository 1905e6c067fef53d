package stage

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// An AckLie is where an indexer departs from the honest course of a
// revocation. Lie.Receipt and Lie.Answer have no part in it.
type AckLie struct {
	Lie
	Ack    func(h *envelope.Header, a *translog.Acknowledgement)
	Answer func(*evaluate.AckAnswer)
}

// Acknowledge logs what rev did to the series, which stands behind b: that it
// stopped, or that its pages are gone. The proof is from a publisher that last
// saw the tree of size seen.
func (s *Stage) Acknowledge(t testing.TB, b *Batch, rev *grants.Revocation, kind translog.Decision, seen uint64, lie AckLie) evaluate.AckAnswer {
	t.Helper()
	e := s.entry(b)
	e.From, e.Decision, e.Status, e.RevocationID = e.Through, kind, translog.Stopped, rev.Object.ID
	e.ScopeHash = must[envelope.Hash](t)(rev.ScopeHash(b.Pair.Grant))
	e.Objects = Counted(uint64(len(b.Pages)))
	if kind == translog.DeleteAck {
		e.Status, e.Objects = translog.Revoked, translog.SetOf(s.tombstones(b))
	}
	drafts := []translog.Entry{e}
	c := s.commit(t, drafts, lie.Lie)
	o := c.entries[0]
	h := s.header(envelope.Acknowledgement, o.Sequence)
	h.Audience = s.Publisher.Name()
	ack := translog.Acknowledgement{
		AckType: drafts[0].Decision, CheckpointRef: c.checkpoint.ID, Count: drafts[0].Objects.Count,
		Entry: translog.AckEntry{Index: o.Sequence, ObjectID: o.ID}, GrantID: drafts[0].GrantID, Indexer: s.Indexer.Name(),
		PolicyHash: drafts[0].PolicyHash, Publisher: s.Publisher.Name(), RevocationID: drafts[0].RevocationID, ScopeHash: drafts[0].ScopeHash,
	}
	if lie.Ack != nil {
		lie.Ack(&h, &ack)
	}
	all := c.answer(t, s, seen)
	a := evaluate.AckAnswer{
		Acknowledgement: sign(t, h, &ack, c.signer).Raw, Entry: all.Entries[0], Inclusion: all.Inclusion[0],
		Checkpoint: all.Checkpoint, Note: all.Note, Consistency: all.Consistency,
	}
	if lie.Answer != nil {
		lie.Answer(&a)
	}
	return a
}

// tombstones are the leaf hashes of the batch's pages once they are gone.
func (s *Stage) tombstones(b *Batch) [][32]byte {
	var set [][32]byte
	for j, p := range b.Pages {
		set = append(set, s.LeafKey.Leaf(translog.OpTombstone, s.JournalEpoch, b.Revision(j), p.URL, [32]byte{}).Hash())
	}
	return set
}

// ExpectAck is what the publisher knows of the series behind b.
func (s *Stage) ExpectAck(b *Batch, rev *grants.Revocation, seen uint64) evaluate.ExpectedAck {
	e := evaluate.ExpectedAck{
		Agreed: s.agreed(b.Pair), Grant: b.Pair.Grant, Revocation: rev, Now: s.Now.Add(2 * time.Second),
		Standings: []evaluate.Standing{{
			JournalEpoch: s.JournalEpoch, Cursor: b.Through, State: s.LeafKey.StateCommitment(s.JournalEpoch, b.Through, b.StateAfter),
		}},
	}
	if seen > 0 {
		e.Seen = s.Tree(seen)
	}
	return e
}
