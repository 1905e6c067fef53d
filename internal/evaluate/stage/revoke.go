package stage

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Revoke signs the revocation of the stage's grant, with everything deleted.
func (s *Stage) Revoke(t testing.TB) *grants.Revocation {
	t.Helper()
	return must[*grants.Revocation](t)(grants.SignRevocation(s.Pair.Grant.Revoke(grants.DispositionDelete),
		grants.Stamp{Indexer: s.Indexer.Name(), Epoch: 1, Sequence: 1, At: s.Now}, s.Publisher.Envelope))
}

// Deleted logs the deletion of the batch's pages after a revocation, and makes
// the evidence about page i, with a note of the present size.
func (s *Stage) Deleted(t testing.TB, b *Batch, i int, change func(*translog.Acknowledgement)) *evaluate.Evidence {
	t.Helper()
	rev := s.Revoke(t)
	ev, e := s.gone(t, b, i, translog.Revoked, rev.Object.ID)
	o := must[*envelope.Object](t)(envelope.Parse(ev.Entry))
	h := s.header(envelope.Acknowledgement, o.Sequence)
	h.Audience = s.Publisher.Name()
	ack := translog.Acknowledgement{
		AckType: translog.DeleteAck, Count: e.Objects.Count, Entry: translog.AckEntry{Index: o.Sequence, ObjectID: o.ID},
		GrantID: e.GrantID, Indexer: s.Indexer.Name(), PolicyHash: e.PolicyHash, Publisher: s.Publisher.Name(),
		RevocationID: rev.Object.ID, ScopeHash: e.ScopeHash,
	}
	if change != nil {
		change(&ack)
	}
	ev.Revocation, ev.Acknowledgement = rev.Object.Raw, sign(t, h, &ack, s.Indexer.Envelope).Raw
	return ev
}

// Stopped logs that the grant was revoked, and makes the evidence of it.
func (s *Stage) Stopped(t testing.TB, b *Batch, lie AckLie) *evaluate.Evidence {
	t.Helper()
	rev := s.Revoke(t)
	a := s.Acknowledge(t, b, rev, translog.RevokeAck, 0, lie)
	o := must[*envelope.Object](t)(envelope.Parse(a.Entry))
	n := s.Size()
	ev := &evaluate.Evidence{
		Acknowledgement: a.Acknowledgement, Cards: []jsontext.Value{s.Indexer.Card.Object.Raw, s.Publisher.Card.Object.Raw},
		Checkpoint: a.Checkpoint, Claim: evaluate.ClaimRevoked, Consistency: translog.ConsistencyProof{From: n, Hashes: []envelope.Hash{}, To: n},
		Entry: a.Entry, Grant: b.Pair.Grant.Object.Raw, Policy: b.Pair.Policy.Object.Raw, Note: string(a.Note), Revocation: rev.Object.Raw,
		Inclusion: translog.InclusionProof{Hashes: translog.Hashes(a.Inclusion), Index: o.Sequence, Size: n},
	}
	if s.Subject() != s.Publisher.Name() {
		ev.R = s.R
	}
	return ev
}

// Purged logs the end of the retention of the batch's pages, and makes the
// evidence about page i.
func (s *Stage) Purged(t testing.TB, b *Batch, i int) *evaluate.Evidence {
	t.Helper()
	ev, _ := s.gone(t, b, i, translog.Retention, envelope.Hash{})
	return ev
}

func (s *Stage) gone(t testing.TB, b *Batch, i int, status translog.Status, rev envelope.Hash) (*evaluate.Evidence, translog.Entry) {
	t.Helper()
	set := s.tombstones(b)
	e := s.entry(b)
	e.From, e.Decision, e.Status, e.RevocationID, e.Objects = e.Through, translog.DeleteAck, status, rev, translog.SetOf(set)
	c := s.commit(t, []translog.Entry{e}, Lie{})
	ev := s.bundle(t, Page{Op: translog.OpTombstone, URL: b.Pages[i].URL}, b.Revision(i), c.entries[0].Raw, c.checkpoint.Raw, s.Size())
	ev.Grant, ev.Policy, ev.Claim = b.Pair.Grant.Object.Raw, b.Pair.Policy.Object.Raw, evaluate.ClaimDeleted
	ev.Set = evaluate.SetPlace{Index: uint64(i), Path: translog.Hashes(must[[][32]byte](t)(translog.SetPath(set, i)))}
	return ev, e
}
