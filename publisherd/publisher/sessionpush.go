package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// push brings one collection up to the journal's head, and reports it.
func (s *session) push(ctx context.Context, rel *Relationship, col *collection, report *Result) error {
	a := agreement{s.p.store, rel}
	if err := s.settle(ctx, a, report); err != nil {
		return err
	}
	if err := s.settleRebind(ctx, a, report); err != nil {
		return err
	}
	h, err := col.journal.head(s.p.store)
	if err != nil {
		return err
	}
	c, err := a.cursor(s.p.store)
	if err != nil {
		return err
	}
	if c, err = s.hear(ctx, a, c); err != nil {
		return err
	}
	if c, err = s.catchUp(a, c); err != nil {
		return err
	}
	if err := s.checkHeld(a, c); err != nil {
		return err
	}
	resend := s.probing.resend[rel.Series]
	if s.partly && (resend != nil || c.Reconciling || !s.agrees(a, c)) {
		return nil // it is compared when all has been read
	}
	if resend != nil || !s.agrees(a, c) {
		s.first.filter = nil
		if c, err = s.reconcile(ctx, a, col.journal); err != nil {
			return err
		}
		if h, err = col.journal.head(s.p.store); err != nil { // it has tombstones of strangers now
			return err
		}
	} else if c.Doubted {
		c.Doubted = false
		if err := a.setCursor(c); err != nil {
			return err
		}
	}
	if c, err = s.rebind(ctx, a, c, report); err != nil {
		return err
	}
	if c, err = a.relist(c); err != nil {
		return err
	}
	if c, err = s.regrant(a, c); err != nil {
		return err
	}
	if c.JournalEpoch == 0 {
		c.JournalEpoch = h.Epoch
	}
	report.JournalEpoch, report.Revision = c.JournalEpoch, h.Revision
	if c.Reconciling && c.Acked >= h.Revision { // settled: its last batch was under way in a crash
		c.Reconciling = false
		if err := a.setCursor(c); err != nil {
			return err
		}
	}
	if c.Seen >= h.Revision && !c.Reconciling {
		return a.noteRoom(nil, s.p.now()) // nothing changed costs nothing
	}
	s.reach = h.Revision
	d, err := s.newDrafter(a, col, h.Revision, h.Pages)
	if err != nil {
		return err
	}
	d.resend = s.probing.resend[rel.Series]
	defer func() {
		report.OutOfScope += d.report.OutOfScope
		report.Withheld += d.report.Withheld
		for _, x := range d.report.Refused {
			report.refuse(x.URL, x.Reason)
		}
		report.RefusedCount += d.report.RefusedCount - len(d.report.Refused)
	}()
	if !rel.Pair.Grant.Body.Mode.Pushes() {
		return s.signal(ctx, a, c, d, report)
	}
	if s.partly {
		s.first.begin(rel.Series, c.Seen)
		d.most = mostItems // nobody knows how many pages there are
	}
	if d.filter, err = s.first.held(s.p.store, a, h.Revision-min(c.Seen, h.Revision), s.partly); err != nil {
		return err
	}
	return s.deliver(ctx, a, c, d, report)
}

// newDrafter makes a drafter of what the journal, with so many pages, has up to target.
func (s *session) newDrafter(a agreement, col *collection, target uint64, pages uint64) (*drafter, error) {
	members, err := a.rel.openMembers(s.p.dir)
	if err != nil {
		return nil, err
	}
	paced, err := a.pacing(s.p.store)
	if err != nil {
		return nil, err
	}
	return &drafter{
		p: s.p, journal: col.journal, agreed: a, members: members, source: col.source, cache: col.cache, spooled: spoolReader{s: col.cache.spool},
		limits: s.welcome.Limits, target: target, most: itemsFor(pages), fewer: &s.fewer, report: new(Result), one: make(chan struct{}, 1),
		pace: pacer{limits: a.limits(), used: paced.Used}, patches: s.patches(),
	}, nil
}

// deliver sends the drafter's batches one after the other.
func (s *session) deliver(ctx context.Context, a agreement, c cursor, d *drafter, report *Result) error {
	defer s.p.frames.push()()
	defer a.ascends(d.target - min(c.Seen, d.target))()
	defer d.cache.shared.use()()
	drafts := make(chan *draft)
	group, ctx := errgroup.WithContext(ctx)
	from, begins, spent := c.Seen, c.Acked, false
	told := &pushTeller{a: a, wire: s.wire, from: s.first.from(a.rel.Series, from), done: from, target: max(from, d.target), open: s.partly}
	defer told.watch(ctx)()
	group.Go(func() error { return d.run(ctx, from, begins, drafts) })
	group.Go(func() error {
		for dr := range drafts {
			if dr.spent {
				spent = true
				if len(dr.items) == 0 {
					if err := a.buryAll(dr.dead, dr.over); err != nil {
						return err
					}
					continue
				}
			}
			told.begin(dr)
			var err error
			if c, err = s.isolate(ctx, a, c, d, dr, report); err != nil {
				return err
			}
			told.end(ctx, dr.through)
			if dr.alone != nil {
				d.giveBack()
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil || !spent {
		return err
	}
	return s.stopForToday(a)
}

// deliverOne sends one draft, when the limits of the grant allow it.
func (s *session) deliverOne(ctx context.Context, a agreement, c cursor, dr *draft, report *Result) (cursor, error) {
	if len(dr.items) == 0 && (!c.Reconciling || !dr.last) {
		c.Seen = dr.through
		return c, a.setCursor(c)
	}
	return s.paced(ctx, a, dr, func() (cursor, error) { return s.offerOne(ctx, a, c, dr, report) })
}

// offerOne sends one draft, evaluates the answer, and moves the cursor.
func (s *session) offerOne(ctx context.Context, a agreement, c cursor, dr *draft, report *Result) (cursor, error) {
	// A reconciliation ends in a batch that reaches the head, if need be one
	// without items: until then the indexer's cursor is behind.
	manifest, pending, err := s.manifest(a, c, dr)
	if err != nil {
		return c, err
	}
	// Durable before it is sent: a crash after the indexer's commit is resolved
	// by asking for the receipt of this very manifest.
	if err := a.setPending(pending); err != nil {
		return c, err
	}
	sent := s.p.now()
	began := time.Now()
	_, span := s.p.trace.Start(s.traced, "batch", "collection", a.rel.Collection)
	span.Count("items", len(dr.items))
	span.Count("frame_bytes", len(dr.frame))
	answer, err := s.exchange(ctx, a.rel.Series, manifest, dr)
	span.End(answered(answer, err))
	if err != nil {
		return c, err
	}
	s.p.pulse.answer.Since(began)
	s.fewer.Store(answer.BatchItems)
	if answer.Refused != nil {
		s.noteRefusal(a.rel, clean(answer.Refused.Reason))
		refused := refusedBy(answer.Refused)
		return c, cmp.Or(errors.Join(a.dropPending(), a.noteRoom(refused, s.p.now())), refused)
	}
	c, err = s.take(a, manifest, pending, answer, sent, kept{dr.bodies, s.p.patchBytes()}, report)
	if err == nil {
		s.p.pulse.items.Observe(float64(len(dr.items)))
		s.p.pulse.octets.Observe(float64(dr.rawBytes))
	}
	if err == nil {
		err = a.noteRoom(nil, s.p.now())
	}
	if err == nil && dr.patch != nil {
		report.Patched += dr.patch.pages
	}
	return c, err
}

// manifest signs what a draft offers.
func (s *session) manifest(a agreement, c cursor, dr *draft) (*envelope.Object, pendingBatch, error) {
	plan, err := a.plan(s.p.store, dr.items)
	if err != nil {
		return nil, pendingBatch{}, err
	}
	leaves := leavesOf(a.rel.LeafKey, c.JournalEpoch, dr.items)
	now := s.p.now()
	body := translog.Manifest{
		CollectionRef: a.rel.CollectionRef(), From: c.Acked, GrantID: a.rel.Pair.Grant.Object.ID, JournalEpoch: c.JournalEpoch,
		Offered: translog.SetOf(leaves), Publisher: s.p.local.Name(), StateAfter: plan.Root(), StateBefore: c.State, Through: dr.through,
	}
	if dr.request != 0 {
		body.Request, body.Through = dr.request, c.Acked
	}
	o, err := envelope.Sign(envelope.Header{
		Type: envelope.BatchManifest, Authority: s.p.local.Name().Authority(), Subject: a.rel.Subject(s.p.local.Name()), Audience: s.name(),
		Epoch: s.p.local.Epoch(envelope.UseEnvelope), Sequence: body.Through, IssuedAt: now,
	}, body, s.p.local.Envelope)
	if err != nil {
		return nil, pendingBatch{}, fmt.Errorf("manifest of %s: %w", a.rel.Collection, err)
	}
	return o, pendingBatch{Manifest: o.Raw, Items: dr.items, plan: plan, leaves: leaves}, nil
}

func leavesOf(k translog.LeafKey, journalEpoch uint64, items []offered) [][32]byte {
	leaves, maker := make([][32]byte, len(items)), k.Maker()
	for i, it := range items {
		leaves[i] = maker.Hash(it.Op, journalEpoch, it.Revision, it.URL, [32]byte(it.Digest))
	}
	return leaves
}

// sendBatch sends a draft, as far as it is not answered meanwhile.
func (s *session) sendBatch(ctx context.Context, series string, manifest *envelope.Object, dr *draft) error {
	s.beginBatch()
	var err error
	if dr.alone != nil {
		err = s.sendAlone(ctx, series, manifest, dr)
	} else {
		header, frame := dr.header(series, manifest)
		if err = s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: header}}); err == nil {
			err = s.sendChunks(ctx, frame, false)
		}
	}
	if errors.Is(err, errAnswered) {
		return nil
	}
	return err
}

// answered is how an exchange ended, in one word; empty if with a receipt.
func answered(r *oiv1.BatchResult, err error) string {
	if err == nil && r.Refused != nil {
		return "refused"
	}
	return outcome(err)
}

// result waits for the answer to one batch.
func (s *session) result(ctx context.Context, series string, batch envelope.Hash) (*oiv1.BatchResult, error) {
	r, err := s.answerFrame(ctx)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Series != series || string(r.BatchId) != string(batch[:]) || (r.Refused == nil) == (r.Committed == nil) {
		return nil, s.violation("an answer to something else than the batch that was sent")
	}
	return r, nil
}

// settle resolves a batch of which no receipt is stored: the indexer is asked
// what became of it. If it was never applied it is forgotten, and what it
// offered is offered anew.
func (s *session) settle(ctx context.Context, a agreement, report *Result) error {
	p, err := a.pending(s.p.store)
	if err != nil || p == nil {
		return err
	}
	manifest, err := envelope.Parse(p.Manifest)
	if err != nil {
		return fmt.Errorf("pending batch of %s: %w", a.rel.Series, err)
	}
	err = s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ReceiptRequest{ReceiptRequest: &oiv1.ReceiptRequest{
		Series: a.rel.Series, BatchId: manifest.ID[:],
	}}})
	if err != nil {
		return err
	}
	answer, err := s.result(ctx, a.rel.Series, manifest.ID)
	if err != nil {
		return err
	}
	if answer.Refused != nil {
		if answer.Refused.Reason != string(grants.ErrNotHeld) {
			return refusedBy(answer.Refused)
		}
		return a.dropPending()
	}
	c, err := s.take(a, manifest, *p, answer, time.Time{}, kept{most: s.p.patchBytes()}, report)
	if err != nil {
		return err
	}
	held := s.held[a.rel.Series]
	held.JournalEpoch, held.Revision, held.StateRoot, held.Receipt = c.JournalEpoch, c.Acked, c.State[:], c.Receipt[:]
	return nil
}

// agrees reports whether the indexer stands where this publisher's last receipt
// says: the receipt itself is the proof, since it was evaluated under a
// checkpoint that the log still continues.
func (s *session) agrees(a agreement, c cursor) bool {
	held := s.held[a.rel.Series]
	if held.JournalEpoch == 0 && c.Receipt.IsZero() && c.State.IsZero() && !c.Reconciling {
		return true // nothing was ever delivered
	}
	return held.JournalEpoch == c.JournalEpoch && held.Revision == c.Acked && sameState(held, c)
}

// checkHeld refuses what contradicts the indexer's own receipt: under the last
// one that is stored here it can be at that revision alone, and in that state,
// unless a revocation has deleted pages since.
func (s *session) checkHeld(a agreement, c cursor) error {
	held := s.held[a.rel.Series]
	if c.Reconciling || c.Receipt.IsZero() || string(held.Receipt) != string(c.Receipt[:]) {
		return nil
	}
	if held.JournalEpoch != c.JournalEpoch || held.Revision != c.Acked {
		if c.Told > 0 && c.ToldEpoch == c.JournalEpoch {
			return nil // no receipt says how far signals are durable: all is compared anew
		}
		return s.violation("it says that it is at revision %d of series %s, and its receipt says %d", held.Revision, a.rel.Series, c.Acked)
	}
	for _, v := range a.rel.revocations {
		if v.Signed.Body.Disposition != grants.DispositionStop && (!v.Settled() || v.open()) {
			return nil
		}
	}
	if string(held.StateRoot) != string(c.State[:]) {
		return s.violation("it says that series %s is in another state than its receipt says", a.rel.Series)
	}
	return nil
}

// take evaluates an answer (UZPIF-OI 9.1.4) and stores it. sent is the time at
// which the batch was first sent in this session, zero if it was not.
func (s *session) take(a agreement, manifest *envelope.Object, p pendingBatch, answer *oiv1.BatchResult, sent time.Time, k kept, report *Result) (cursor, error) {
	var m translog.Manifest
	if err := manifest.DecodeBody(&m); err != nil {
		return cursor{}, err
	}
	decided, err := s.decisions(a, m, p, answer.Committed)
	if err != nil {
		return cursor{}, err
	}
	accepted, err := s.evaluate(a, manifest, m, decided, answer, sent)
	if err != nil {
		// The proof is kept: it shows what the indexer signed.
		return cursor{}, errors.Join(s.p.keepBadAnswer(a.rel, manifest.Raw, answer), fmt.Errorf("answer of %s to batch %s: %w", s.name(), manifest.ID, err))
	}
	committed, err := proto.Marshal(answer.Committed)
	if err != nil {
		return cursor{}, err
	}
	stored := storedAnswer{
		Series: a.rel.Series, Indexer: a.rel.Indexer, GrantID: m.GrantID, PolicyID: a.rel.Pair.Grant.Body.PolicyHash,
		Manifest: manifest.Raw, Committed: committed, Receipt: accepted.Receipt.ID, IssuedAt: envelope.At(accepted.Receipt.IssuedAt),
		Through: m.Through, TreeSize: accepted.Own.Size,
	}
	tree, note := s.grown(accepted, answer.Committed.Note)
	c, err := a.accept(stored, m, p, decided, note, s.reach, k)
	if err != nil {
		return c, err
	}
	s.tree, s.note = tree, note
	s.noteReceipt(a.rel, stored, p.Items)
	report.add(accepted, p.Items, decided)
	report.TreeSize = tree.Size // of the log that lives
	return c, nil
}

// decisions pairs each offered item with what the indexer decided.
func (s *session) decisions(a agreement, m translog.Manifest, p pendingBatch, c *oiv1.Committed) ([]decided, error) {
	items, leaves := p.Items, p.leaves
	if len(c.Decisions) != len(items) {
		return nil, s.violation("%d decisions on %d items", len(c.Decisions), len(items))
	}
	if leaves == nil {
		leaves = leavesOf(a.rel.LeafKey, m.JournalEpoch, items)
	}
	all := make([]decided, len(items))
	for i, b := range c.Decisions {
		d, ok := decisionOf(oiv1.Decision(b))
		if !ok {
			return nil, s.violation("decision %d", b)
		}
		all[i] = decided{op: items[i].Op, leaf: leaves[i], decision: d}
	}
	for _, r := range c.Refusals {
		if int(r.Item) >= len(all) || all[r.Item].decision != translog.Exclude || len(r.Reason) > 64 {
			return nil, s.violation("a reason for item %d, which was not excluded", r.Item)
		}
		all[r.Item].reason = r.Reason
	}
	return all, nil
}

func decisionOf(d oiv1.Decision) (translog.Decision, bool) {
	switch d {
	case oiv1.Decision_DECISION_INCLUDE:
		return translog.Include, true
	case oiv1.Decision_DECISION_UPDATE:
		return translog.Update, true
	case oiv1.Decision_DECISION_DELETE:
		return translog.DeleteAck, true
	case oiv1.Decision_DECISION_EXCLUDE:
		return translog.Exclude, true
	}
	return "", false
}
