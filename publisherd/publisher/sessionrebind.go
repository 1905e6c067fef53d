package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// A pendingRebind is a rebind that was sent, or was about to be. It is durable
// before it is sent: the same rebind, asked again, has the same answer.
type pendingRebind struct {
	GrantID      envelope.Hash `json:"grant_id"`
	Before       envelope.Hash `json:"before"` // the grant under which the state was held
	JournalEpoch uint64        `json:"journal_epoch"`
	Cursor       uint64        `json:"cursor"`
	State        envelope.Hash `json:"state"` // root before
	After        envelope.Hash `json:"after"` // root once the new scope has narrowed it
	Left         uint64        `json:"left"`  // pages outside the new scope
	Pages        uint64        `json:"pages"` // in the state after
	Asked        envelope.Time `json:"asked"`
}

func (a agreement) pendingRebind(r durable.Reader) (*pendingRebind, error) {
	var p pendingRebind
	ok, err := durable.ReadJSON(r, rowKey('A', a.rel.Series, 'r'), &p)
	if err != nil || !ok {
		return nil, err
	}
	return &p, nil
}

func (a agreement) setRebind(p pendingRebind) error {
	b := a.store.NewBatch()
	defer b.Close()
	if err := durable.WriteJSON(b, rowKey('A', a.rel.Series, 'r'), p); err != nil {
		return err
	}
	return b.Commit()
}

func (a agreement) dropRebind() error {
	b := a.store.NewBatch()
	defer b.Close()
	if err := b.Delete(rowKey('A', a.rel.Series, 'r')); err != nil {
		return err
	}
	return b.Commit()
}

// narrow plans the state without the pages that keep refuses, and counts them.
func (a agreement) narrow(r durable.Reader, keep func(url string, digest envelope.Hash) bool) (*state.Plan, uint64, error) {
	var gone []state.Item
	err := a.acked(r, func(h [32]byte, row ackedPage) error {
		held, ok, err := a.tree().Lookup(r, h)
		if ok && !keep(row.URL, held.Digest) {
			gone = append(gone, state.Item{URLHash: h, Deleted: true})
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	plan, err := a.tree().Plan(r, gone)
	return plan, uint64(len(gone)), err
}

// rebind lets the newest grant of a series take over the state that the
// indexer holds under an earlier one, before anything is pushed under it. It
// expects that both sides agree on the state, and returns where the cursor c
// stands then.
func (s *session) rebind(ctx context.Context, a agreement, c cursor, report *Result) (cursor, error) {
	held := s.held[a.rel.Series]
	id := a.rel.Pair.Grant.Object.ID
	if held.JournalEpoch == 0 || len(held.BoundGrant) != len(id) || string(held.BoundGrant) == string(id[:]) {
		return c, nil
	}
	if _, err := s.p.pairOf(a.rel, envelope.Hash(held.BoundGrant)); err != nil {
		return c, s.violation("it says that it holds series %s under a grant that was never issued: %v", a.rel.Series, err)
	}
	if len(held.StateRoot) != 32 || envelope.Hash(held.StateRoot) != c.State {
		return c, fmt.Errorf("%w: series %s cannot be rebound", ErrBehind, a.rel.Series)
	}
	plan, left, err := a.narrow(s.p.store, a.inScope(a.rel.Pair))
	if err != nil {
		return c, err
	}
	p := pendingRebind{
		GrantID: id, Before: envelope.Hash(held.BoundGrant), JournalEpoch: held.JournalEpoch, Cursor: held.Revision, State: c.State,
		After: plan.Root(), Left: left, Pages: plan.Count(), Asked: envelope.At(s.p.now()),
	}
	if err := a.setRebind(p); err != nil {
		return c, err
	}
	if err := s.askRebind(ctx, a, p, s.p.now(), report); err != nil {
		return c, err
	}
	return a.cursor(s.p.store)
}

// inScope is what the scope by itself holds. What leaves a list that it names by
// its root is deleted by the push that follows; see relist.
func (a agreement) inScope(pair grants.Pair) func(string, envelope.Hash) bool {
	return func(url string, digest envelope.Hash) bool { return pair.Grant.Body.Scope.Holds(url, digest) == nil }
}

// settleRebind resolves a rebind of which no receipt is stored, by asking for
// it again. One that is refused for good is forgotten: what the indexer holds
// is compared next.
func (s *session) settleRebind(ctx context.Context, a agreement, report *Result) error {
	p, err := a.pendingRebind(s.p.store)
	if err != nil || p == nil {
		return err
	}
	err = s.askRebind(ctx, a, *p, time.Time{}, report)
	if refused := (*Refused)(nil); errors.As(err, &refused) && refused.RetryMS == 0 {
		s.p.log.Warn("rebind forgotten", "series", a.rel.Series, "error", err)
		return nil
	}
	return err
}

// askRebind sends a rebind and takes its answer in.
func (s *session) askRebind(ctx context.Context, a agreement, p pendingRebind, sent time.Time, report *Result) error {
	err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Rebind{Rebind: &oiv1.Rebind{
		Series: a.rel.Series, GrantId: p.GrantID[:], JournalEpoch: p.JournalEpoch, Revision: p.Cursor, StateRoot: p.State[:],
	}}})
	if err != nil {
		return err
	}
	answer, err := s.result(ctx, a.rel.Series, p.GrantID)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		refused := refusedBy(answer.Refused)
		if answer.Refused.RetryMs > 0 { // it may have been applied before; it is asked for again
			return refused
		}
		return errors.Join(a.dropRebind(), refused)
	}
	pair, err := s.p.pairOf(a.rel, p.GrantID)
	if err != nil {
		return err
	}
	given, err := answerOf(answer)
	if err != nil {
		return s.violation("answer to a rebind: %v", err)
	}
	log, err := logOf(s.peer, given.Note)
	if err != nil {
		return err
	}
	e := expectedRebind(agreed(s.p.local.Name(), s.peer, log, s.p.keysFor(sent), a.rel, pair), a.rel, p)
	e.Sent, e.Now = sent, s.p.now()
	if e.Seen, err = s.seenOf(log); err != nil {
		return err
	}
	accepted, err := evaluate.Rebind(given, e)
	if err != nil {
		return errors.Join(s.p.keepBadAnswer(a.rel, pair.Grant.Object.Raw, answer), fmt.Errorf("answer of %s to the rebind of %s: %w", s.name(), a.rel.Series, err))
	}
	return s.takeRebind(a, pair, p, answer, accepted, report)
}

func expectedRebind(g evaluate.Agreed, rel *Relationship, p pendingRebind) evaluate.ExpectedRebind {
	return evaluate.ExpectedRebind{
		Agreed: g, JournalEpoch: p.JournalEpoch, Cursor: p.Cursor, Left: p.Left, Pages: p.Pages,
		StateCommitment: rel.LeafKey.StateCommitment(p.JournalEpoch, p.Cursor, p.After), Asked: p.Asked.Time,
	}
}

// takeRebind stores an evaluated answer.
func (s *session) takeRebind(a agreement, pair grants.Pair, p pendingRebind, answer *oiv1.BatchResult, accepted *evaluate.Accepted, report *Result) error {
	committed, err := proto.Marshal(answer.Committed)
	if err != nil {
		return err
	}
	stored := storedAnswer{
		Series: a.rel.Series, Indexer: a.rel.Indexer, GrantID: p.GrantID, PolicyID: pair.Grant.Body.PolicyHash, Rebind: &p,
		Committed: committed, Receipt: accepted.Receipt.ID, IssuedAt: envelope.At(accepted.Receipt.IssuedAt),
		Through: p.Cursor, TreeSize: accepted.Own.Size,
	}
	tree, note := s.grown(accepted, answer.Committed.Note)
	held := s.held[a.rel.Series]
	wider, err := s.p.wider(a.rel, p.Before, pair)
	if err != nil {
		return err
	}
	c, err := a.acceptRebind(stored, pair, wider, note)
	if err != nil {
		return err
	}
	s.tree, s.note = tree, note
	held.StateRoot, held.Receipt, held.BoundGrant = c.State[:], c.Receipt[:], p.GrantID[:]
	report.Receipts = append(report.Receipts, accepted.Receipt.ID)
	report.TreeSize = tree.Size
	return nil
}

// wider reports whether pair reaches pages that could not be offered under the
// grant before it, or pages that were and may not be any more: for other
// purposes, other pages are withheld.
func (p *Publisher) wider(rel *Relationship, before envelope.Hash, pair grants.Pair) (bool, error) {
	old, err := p.pairOf(rel, before)
	if err != nil {
		return false, err
	}
	for _, v := range rel.revocations {
		if v.Signed.Reaches(old.Grant) {
			return true, nil
		}
	}
	return !slices.Equal(old.Grant.Body.Purposes, pair.Grant.Body.Purposes) || !old.Grant.Body.Scope.Covers(pair.Grant.Body.Scope), nil
}

// acceptRebind makes the receipt, the narrowed state, the cursor and the log's
// new tree durable in one commit. A wider grant reaches pages whose revisions
// the cursor has passed: they are offered in a new journal epoch, as after a
// reconciliation, in which only what differs is sent.
func (a agreement) acceptRebind(ans storedAnswer, pair grants.Pair, wider bool, note []byte) (cursor, error) {
	b := a.store.NewBatch()
	defer b.Close()
	c, err := a.cursor(b)
	if err != nil {
		return c, err
	}
	plan, _, err := a.narrow(b, a.inScope(pair))
	if err != nil {
		return c, err
	}
	if plan.Root() != ans.Rebind.After {
		return c, errors.New("the state moved while a rebind was under way")
	}
	if err := a.narrowTo(b, plan); err != nil {
		return c, err
	}
	c.State, c.Pages, c.Receipt = plan.Root(), plan.Count(), ans.Receipt
	if wider {
		if err := c.renumber(); err != nil {
			return c, err
		}
	}
	err = errors.Join(
		durable.WriteJSON(b, receiptKey(ans.Receipt), ans),
		durable.WriteJSON(b, rowKey('A', a.rel.Series, 'c'), c),
		a.countReceipt(b, &ans),
		b.Set(treeKey(a.rel.Indexer), note),
		b.Delete(rowKey('A', a.rel.Series, 'r')),
	)
	if err != nil {
		return c, err
	}
	if err := b.Commit(); err != nil {
		return c, fmt.Errorf("receipt %s: %w", ans.Receipt, err)
	}
	return c, nil
}

// verifyRebind evaluates the stored answer to a rebind again.
func (p *Publisher) verifyRebind(rel *Relationship, a *storedAnswer, now time.Time) error {
	peer, ok := p.trust.Lookup(a.Indexer)
	if !ok {
		return &Refused{Reason: grants.ErrUnknownPeer, Detail: string(a.Indexer)}
	}
	pair, err := p.pairOf(rel, a.GrantID)
	if err != nil {
		return err
	}
	ans, err := a.answer()
	if err != nil {
		return err
	}
	log, err := logOf(peer, ans.Note)
	if err != nil {
		return err
	}
	e := expectedRebind(agreed(p.local.Name(), peer, log, p.trust.Known(), rel, pair), rel, *a.Rebind)
	e.Now = now
	_, err = evaluate.Rebind(ans, e)
	return err
}
