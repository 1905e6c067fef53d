package indexer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// keepAnswer adds the answer to the commit that it speaks of. The same batch
// is answered with the same octets for as long as receipts are kept.
func (in *ingest) keepAnswer(b *durable.Batch, receipt *envelope.Object, c *translog.Committed) error {
	raw, err := marshalCommitted(receipt, c, in.items)
	if err != nil {
		return err
	}
	in.answered = &answeredBatch{BatchID: in.manifest.ID, Manifest: in.manifest.Raw, Committed: raw, First: c.Entries[0].Sequence, TreeSize: c.Tree.Size}
	key := batchKey(in.rec.SID, &in.body)
	if err := durable.WriteJSON(b, key, in.answered); err != nil {
		return err
	}
	return b.Set(sidKey('b', in.rec.SID, in.manifest.ID[:]...), key)
}

// marshalCommitted makes the part of an answer that is kept.
func marshalCommitted(receipt *envelope.Object, c *translog.Committed, items []item) ([]byte, error) {
	w := &oiv1.Committed{Receipt: receipt.Raw, Checkpoint: c.Checkpoint.Raw, Note: c.Note, Decisions: make([]byte, len(items))}
	for _, e := range c.Entries {
		w.Entries = append(w.Entries, e.Raw)
	}
	for i := range items {
		it := &items[i]
		w.Decisions[i] = byte(wireDecision(it.decision))
		if it.decision == translog.Exclude {
			w.Refusals = append(w.Refusals, &oiv1.ItemRefusal{Item: uint32(i), Reason: string(it.reason), Detail: clip(it.detail)})
		}
	}
	return (proto.MarshalOptions{Deterministic: true}).Marshal(w)
}

// clip bounds a detail that travels once for each refused item.
func clip(s string) string { return s[:min(len(s), 120)] }

func wireDecision(d translog.Decision) oiv1.Decision {
	switch d {
	case translog.Include:
		return oiv1.Decision_DECISION_INCLUDE
	case translog.Update:
		return oiv1.Decision_DECISION_UPDATE
	case translog.DeleteAck:
		return oiv1.Decision_DECISION_DELETE
	case translog.Exclude:
		return oiv1.Decision_DECISION_EXCLUDE
	}
	return oiv1.Decision_DECISION_UNSPECIFIED
}

// answer sends a committed batch's answer with the proof that leads from the
// tree that this session was shown last to the receipt's, or back.
func (s *session) answer(ctx context.Context, series string, batch envelope.Hash, a *answeredBatch) error {
	w := new(oiv1.Committed)
	if err := proto.Unmarshal(a.Committed, w); err != nil {
		return fmt.Errorf("stored answer to batch %s: %w", batch, err)
	}
	log, err := s.x.logOf(w.Note)
	if err != nil {
		return fmt.Errorf("stored answer to batch %s: %w", batch, err)
	}
	tree, err := translog.OpenNote(w.Note, log.VerifierKey())
	if err != nil {
		return fmt.Errorf("stored answer to batch %s: %w", batch, err)
	}
	// The proofs are of the receipt's own tree size, and so the same octets
	// whenever they are made.
	view := log.Released()
	for i := range w.Entries {
		path, err := view.InclusionAt(a.First+uint64(i), a.TreeSize)
		if err != nil {
			return err
		}
		w.Inclusion = append(w.Inclusion, &oiv1.Path{Hashes: rawHashes(path)})
	}
	from, to := s.shown.Size, tree.Size
	if log != s.x.tlog { // of a log that has ended the end was shown
		from = view.Tree.Size
	}
	if from > to {
		from, to = to, from
	}
	path, err := view.ConsistencyAt(from, to)
	if err != nil {
		return err
	}
	if err := s.link.Urgent(ctx, batchResult(&oiv1.BatchResult{Series: series, BatchId: batch[:], Committed: w, Consistency: rawHashes(path), BatchItems: s.x.share(s.peer.Card.Identity, time.Now())})); err != nil {
		return err
	}
	if log == s.x.tlog && tree.Size > s.shown.Size {
		s.shown = tree
	}
	return nil
}

// receiptRequest answers what became of a batch that was sent before.
func (s *session) receiptRequest(ctx context.Context, f *oiv1.ReceiptRequest) error {
	h := s.live[f.Series]
	if h == nil || len(f.BatchId) != 32 {
		return refuse(grants.ErrNoGrant, "series %.80q was not announced in this session", f.Series)
	}
	l := &lookup{sid: h.rec.SID, batch: envelope.Hash(f.BatchId)}
	if err := s.x.tlog.Commit(ctx, l); err != nil {
		return err
	}
	if !l.found {
		return s.link.Urgent(ctx, batchResult(&oiv1.BatchResult{
			Series: f.Series, BatchId: f.BatchId, Refused: &oiv1.Fault{Reason: string(grants.ErrNotHeld), Detail: "no such batch was applied"},
		}))
	}
	return s.answer(ctx, f.Series, l.batch, &l.answer)
}

// A lookup finds an answered batch. It goes through the writer, behind every
// batch that was proposed before: "no such batch" is then final for a session
// that has fenced the older ones, and what is found is durable.
type lookup struct {
	sid    uint32
	batch  envelope.Hash
	found  bool
	answer answeredBatch
}

// Prepare reads, and writes nothing.
func (l *lookup) Prepare(tx *translog.Tx) error {
	key, err := tx.Batch().Get(sidKey('b', l.sid, l.batch[:]...))
	if errors.Is(err, durable.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	l.found, err = durable.ReadJSON(tx.Batch(), key, &l.answer)
	return err
}

// Finish has nothing to add.
func (l *lookup) Finish(*translog.Tx, *translog.Committed) error { return nil }
