package publisher

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// badState is an indexer that signs another state than was offered.
func badState() stage.Lie {
	return stage.Lie{Entry: func(_ int, _ *envelope.Header, e *translog.Entry) { e.State = envelope.Hash{9} }}
}

func TestCursorMovesWithItsReceipt(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	x.fake.lie = badState()
	_, err := x.push()
	var f *evaluate.Failure
	if !errors.As(err, &f) || f.Rule != evaluate.RuleState {
		t.Fatalf("push = %v, want a failure of the state", err)
	}
	if c := x.cursor(); c.Acked != 0 || !c.Receipt.IsZero() || x.receipts() != 0 {
		t.Errorf("cursor %+v after an answer that does not hold", c)
	}
	if kept, _ := filepath.Glob(filepath.Join(x.p.dir, "alarms", "*.json")); len(kept) != 1 {
		t.Errorf("%d alarms are kept, want 1", len(kept))
	}

	y := newFixture(t)
	y.write("a", "first")
	results, err := y.push()
	check(t, err)
	c := y.cursor()
	if c.Acked != 1 || c.Pages != 1 || y.receipts() != 1 || len(results) != 1 || results[0].Receipts[0] != c.Receipt {
		t.Errorf("cursor %+v, results %+v", c, results)
	}
	if _, err := y.push(); err != nil || y.fake.batches != 1 {
		t.Errorf("a second push made %d batches: %v", y.fake.batches, err)
	}
}

func TestPendingBatchIsResolvedByItsReceipt(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	x.fake.hangUp = true
	if _, err := x.push(); err == nil {
		t.Fatal("a push whose answer was lost succeeded")
	}
	a := agreement{x.p.store, x.rel}
	if p, err := a.pending(x.p.store); err != nil || p == nil || x.cursor().Acked != 0 {
		t.Fatalf("pending %v, cursor %+v: %v", p, x.cursor(), err)
	}
	_, err := x.push()
	check(t, err)
	if c := x.cursor(); c.Acked != 1 || x.receipts() != 1 || x.fake.batches != 1 {
		t.Errorf("cursor %+v after %d batches", c, x.fake.batches)
	}
	if p, err := a.pending(x.p.store); err != nil || p != nil {
		t.Errorf("pending %v: %v", p, err)
	}

	// One that never reached the indexer is forgotten, and offered anew.
	x.write("a", "second")
	check(t, a.setPending(*x.unknownBatch()))
	_, err = x.push()
	check(t, err)
	if c := x.cursor(); c.Acked != 2 || x.receipts() != 2 || x.fake.batches != 2 {
		t.Errorf("cursor %+v after %d batches", c, x.fake.batches)
	}
}

// unknownBatch is a batch that was written down and never sent.
func (x *fixture) unknownBatch() *pendingBatch {
	s := &session{p: x.p, peer: x.peer(), rels: []*Relationship{x.rel}}
	items := []offered{{URL: "https://example.com/doc/z", Op: translog.OpPut, Revision: 9}}
	_, p, err := s.manifest(agreement{x.p.store, x.rel}, x.cursor(), &draft{items: items, through: 9})
	check(x.t, err)
	return &p
}

func TestARenewedGrantTakesTheStateOver(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prefix  string
		pages   uint64
		batches int
	}{
		{"with the same scope nothing is sent", "https://example.com/doc/", 3, 1},
		{"with a narrower scope pages leave the state", "https://example.com/doc/sub/", 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.write("a", "first")
			x.write("b", "first")
			x.write("sub/c", "first")
			_, err := x.push()
			check(t, err)
			x.renew(2, tt.prefix)
			_, err = x.push()
			check(t, err)
			c := x.cursor()
			if c.Pages != tt.pages || c.State != rootOf(t, x.fake.pages) || x.fake.rebinds != 1 || x.fake.batches != tt.batches || x.receipts() != 2 {
				t.Errorf("cursor %+v, %d rebinds, %d batches", c, x.fake.rebinds, x.fake.batches)
			}
			if _, err := x.push(); err != nil || x.fake.rebinds != 1 {
				t.Errorf("%d rebinds after another push: %v", x.fake.rebinds, err)
			}
		})
	}
}

func TestAWiderGrantBringsThePagesThatWerePassed(t *testing.T) {
	x := newFixture(t)
	x.renew(2, "https://example.com/doc/sub/")
	x.write("a", "first")
	x.write("sub/c", "first")
	_, err := x.push()
	check(t, err)
	x.renew(3, "https://example.com/doc/")
	results, err := x.push()
	check(t, err)
	c := x.cursor()
	if c.Pages != 2 || len(x.fake.pages) != 2 || results[0].Sent != 1 || c.Reconciling || x.receipts() != 3 {
		t.Errorf("cursor %+v, sent %d, receipts %d", c, results[0].Sent, x.receipts())
	}
}

func TestALostRebindIsResolvedByAskingAgain(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	x.write("sub/c", "first")
	_, err := x.push()
	check(t, err)
	x.renew(2, "https://example.com/doc/sub/")
	x.fake.hangUp = true
	if _, err := x.push(); err == nil {
		t.Fatal("a push whose rebind was lost succeeded")
	}
	if c := x.cursor(); c.Pages != 2 {
		t.Fatalf("cursor %+v moved without a receipt", c)
	}
	_, err = x.push()
	check(t, err)
	if c := x.cursor(); c.Pages != 1 || x.receipts() != 2 || x.fake.rebinds != 2 {
		t.Errorf("cursor %+v, %d rebinds", c, x.fake.rebinds)
	}
}

func TestADishonestRebindMovesNothing(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	_, err := x.push()
	check(t, err)
	before := x.cursor()
	x.renew(2, "https://example.com/doc/sub/")
	x.fake.lie = badState()
	_, err = x.push()
	var f *evaluate.Failure
	if !errors.As(err, &f) || x.cursor() != before || x.receipts() != 1 {
		t.Errorf("push = %v, cursor %+v, want %+v", err, x.cursor(), before)
	}
}

func TestRevocationIsDeliveredAndItsAcknowledgementsAreKept(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	_, err := x.push()
	check(t, err)
	v := &Revocation{Indexer: x.rel.Indexer, Signed: x.s.Revoke(t)}
	check(t, v.write(x.p.dir))
	for i, want := range []string{"deleting", "done", "done"} {
		check(t, x.p.DeliverRevocations(t.Context(), x.rel.Indexer))
		v, err := x.p.Revocation(v.ID())
		check(t, err)
		if s := v.Status(); s.State != want || len(s.Acknowledgements) != min(i+1, 2) {
			t.Errorf("after call %d: %+v, want %s", i+1, s, want)
		}
		for _, a := range v.Acknowledgements {
			if tree, _, err := x.p.logTree(x.rel.Indexer); err != nil || !a.Linked || tree != x.s.Tree(x.s.Size()) {
				t.Errorf("after call %d: %s linked: %v, and the log was seen at %d entries of %d (%v)", i+1, a.Type, a.Linked, tree.Size, x.s.Size(), err)
			}
		}
	}
	info, err := os.Stat(revocationPath(x.p.dir, v.ID()))
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
	s, err := x.p.Status()
	check(t, err)
	if l := s.Indexers[0]; l.State != "revoked" || l.Pages != 0 || len(l.Revocations) != 1 {
		t.Errorf("status %+v", l)
	}
	if _, err := x.push(); !errors.Is(err, ErrNothingToPush) {
		t.Errorf("push under a revoked grant = %v", err)
	}
	if _, err := x.p.Evidence("https://example.com/doc/a.html", ""); err != nil {
		t.Errorf("evidence after the deletion: %v", err)
	}
}

func TestPushDeliversRevocationsFirst(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	_, err := x.push()
	check(t, err)
	v := &Revocation{Indexer: x.rel.Indexer, Signed: x.s.Revoke(t)}
	check(t, v.write(x.p.dir))
	x.write("a", "second")
	_, err = x.push()
	check(t, err)
	if len(x.fake.acks) != 1 || x.fake.batches != 1 {
		t.Errorf("%d acknowledgements, %d batches", len(x.fake.acks), x.fake.batches)
	}
}

func TestADishonestAcknowledgementIsNotKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		lie  stage.AckLie
		rule evaluate.Rule
	}{
		{"of more pages than its entry", stage.AckLie{Ack: func(_ *envelope.Header, a *translog.Acknowledgement) { a.Count += 7 }}, evaluate.RuleEntries},
		{"in a tree that does not go on from what was seen", stage.AckLie{Answer: func(a *evaluate.AckAnswer) { a.Consistency[0][0] ^= 1 }}, evaluate.RuleConsistency},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			x.write("a", "first")
			_, err := x.push()
			check(t, err)
			before, _, err := x.p.logTree(x.rel.Indexer)
			check(t, err)
			v := &Revocation{Indexer: x.rel.Indexer, Signed: x.s.Revoke(t)}
			check(t, v.write(x.p.dir))
			x.fake.ackLie = tt.lie
			err = x.p.DeliverRevocations(t.Context(), x.rel.Indexer)
			var f *evaluate.Failure
			if !errors.As(err, &f) || f.Rule != tt.rule {
				t.Errorf("DeliverRevocations = %v", err)
			}
			if v, err := x.p.Revocation(v.ID()); err != nil || len(v.Acknowledgements) != 0 || v.Delivered.IsZero() {
				t.Errorf("kept %+v: %v", v, err)
			}
			if tree, _, err := x.p.logTree(x.rel.Indexer); err != nil || tree != before {
				t.Errorf("the log was seen at %d entries, and now at %d (%v)", before.Size, tree.Size, err)
			}
			if kept, _ := filepath.Glob(filepath.Join(x.p.dir, "alarms", "*.json")); len(kept) != 1 {
				t.Errorf("%d alarms are kept, want 1", len(kept))
			}
		})
	}
}

// TestConsentIsWithdrawnWithoutAProof leaves the proof out: the acknowledgement
// counts, and the tree that was seen stays.
func TestConsentIsWithdrawnWithoutAProof(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	_, err := x.push()
	check(t, err)
	before, _, err := x.p.logTree(x.rel.Indexer)
	check(t, err)
	v := &Revocation{Indexer: x.rel.Indexer, Signed: x.s.Revoke(t)}
	check(t, v.write(x.p.dir))
	x.fake.ackLie = stage.AckLie{Answer: func(a *evaluate.AckAnswer) { a.Consistency = nil }}
	check(t, x.p.DeliverRevocations(t.Context(), x.rel.Indexer))
	v, err = x.p.Revocation(v.ID())
	check(t, err)
	tree, _, err := x.p.logTree(x.rel.Indexer)
	if err != nil || len(v.Acknowledgements) != 1 || v.Acknowledgements[0].Linked || tree != before {
		t.Errorf("%+v, seen at %d entries (%v)", v.Acknowledgements, tree.Size, err)
	}
}
