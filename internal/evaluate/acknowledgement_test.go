package evaluate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestAnHonestAcknowledgementIsAccepted(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   translog.Decision
		seen   uint64
		path   bool
		linked bool
	}{
		{"a stop, with the proof from the tree seen before", translog.RevokeAck, seen, true, true},
		{"a deletion, with the proof from the tree seen before", translog.DeleteAck, seen, true, true},
		{"a stop without that proof", translog.RevokeAck, seen, false, false},
		{"a stop when nothing was seen before", translog.RevokeAck, 0, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stage.New(t, 1)
			b := s.Offer(t, stage.Pages()...)
			rev := s.Revoke(t)
			a := s.Acknowledge(t, b, rev, tt.kind, tt.seen, stage.AckLie{})
			if !tt.path {
				a.Consistency = nil
			}
			done, err := evaluate.Acknowledgement(a, s.ExpectAck(b, rev, tt.seen))
			if err != nil {
				t.Fatal(err)
			}
			want := s.Tree(s.Size())
			if !tt.linked {
				want = s.Tree(seen)
			}
			if done.Linked != tt.linked || done.Tree != want || done.Body.Count != uint64(len(b.Pages)) {
				t.Errorf("linked %v, tree %v, %d pages", done.Linked, done.Tree, done.Body.Count)
			}
		})
	}
}

// ackCase is a dishonest acknowledgement, or an expectation that an honest one
// does not meet.
type ackCase struct {
	name   string
	lie    stage.AckLie
	expect func(*evaluate.ExpectedAck)
	step   evaluate.Step
	rule   evaluate.Rule
}

func ackLie(change func(*envelope.Header, *translog.Acknowledgement)) stage.AckLie {
	return stage.AckLie{Ack: change}
}

func ackEntry(change func(*envelope.Header, *translog.Entry)) stage.AckLie {
	return stage.AckLie{Lie: entry(0, change)}
}

func TestDishonestAcknowledgementsAreRefused(t *testing.T) {
	base := stage.New(t, 1)
	for _, tt := range append(ackTerms(), ackProofs(t)...) {
		t.Run(tt.name, func(t *testing.T) {
			s := base.Copy()
			b := s.Offer(t, stage.Pages()...)
			rev := s.Revoke(t)
			e := s.ExpectAck(b, rev, seen)
			if tt.expect != nil {
				tt.expect(&e)
			}
			_, err := evaluate.Acknowledgement(s.Acknowledge(t, b, rev, translog.RevokeAck, seen, tt.lie), e)
			wantFailure(t, err, tt.step, tt.rule)
		})
	}
}

func ackTerms() []ackCase {
	hash, match := envelope.Hash{9}, evaluate.Match
	return []ackCase{
		{"for someone else", ackLie(func(h *envelope.Header, _ *translog.Acknowledgement) { h.Audience = "spiffe://example.com/other" }), nil, match, evaluate.RuleParties},
		{"that names another publisher", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.Publisher = "spiffe://example.com/other" }), nil, match, evaluate.RuleParties},
		{"about another relationship", ackLie(func(h *envelope.Header, _ *translog.Acknowledgement) { h.Subject = "urn:uzpif-oi:rel:other" }), nil, match, evaluate.RuleParties},
		{"of another revocation", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.RevocationID = hash }), nil, match, evaluate.RuleRevocation},
		{"with an entry of another revocation", ackEntry(func(_ *envelope.Header, e *translog.Entry) { e.RevocationID = hash }), nil, match, evaluate.RuleRevocation},
		{"under another grant", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.GrantID = hash }), nil, match, evaluate.RuleGrant},
		{"with an entry under another grant", ackEntry(func(_ *envelope.Header, e *translog.Entry) { e.GrantID = hash }), nil, match, evaluate.RuleGrant},
		{"under another policy", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.PolicyHash = hash }), nil, match, evaluate.RulePolicy},
		{"of another scope", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.ScopeHash = hash }), nil, match, evaluate.RuleScope},
		{"a deletion whose entry is a stop", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.AckType = translog.DeleteAck }), nil, match, evaluate.RuleEntries},
		{"of more pages than its entry", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.Count++ }), nil, match, evaluate.RuleEntries},
		{"of another entry", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.Entry.ObjectID = hash }), nil, match, evaluate.RuleEntries},
		{"of another index", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.Entry.Index-- }), nil, match, evaluate.RuleEntries},
		{"a stop that claims pages singly", ackEntry(func(_ *envelope.Header, e *translog.Entry) { e.Objects.Root = hash }), nil, match, evaluate.RuleSets},
		{"at a revision that was never acknowledged", ackEntry(func(_ *envelope.Header, e *translog.Entry) { e.From, e.Through = 5, 5 }), nil, match, evaluate.RuleBatch},
		{"over another state", ackEntry(func(_ *envelope.Header, e *translog.Entry) { e.State = hash }), nil, match, evaluate.RuleState},
		{"of another collection", ackEntry(func(_ *envelope.Header, e *translog.Entry) { e.CollectionRef = hash }), nil, match, evaluate.RuleBatch},
		{"with an entry that is no answer to a revocation", ackEntry(func(_ *envelope.Header, e *translog.Entry) {
			e.Status, e.Decision, e.RevocationID = translog.GrantExpired, translog.Exclude, envelope.Hash{}
		}), nil, evaluate.Signatures, evaluate.RuleSignature},
		{"for a revocation that does not reach the grant", stage.AckLie{}, func(e *evaluate.ExpectedAck) {
			r := *e.Revocation
			r.Body.Series, r.Body.Target = "other", grants.Target{GrantID: hash}
			e.Revocation = &r
		}, match, evaluate.RuleRevocation},
		{"with another place in the log", ackLie(func(h *envelope.Header, _ *translog.Acknowledgement) { h.Sequence++ }), nil, match, evaluate.RuleSequence},
		{"under a checkpoint that it does not name", ackLie(func(_ *envelope.Header, a *translog.Acknowledgement) { a.CheckpointRef = hash }), nil, match, evaluate.RuleCheckpoint},
		{"signed before the revocation was", ackEntry(func(h *envelope.Header, _ *translog.Entry) { h.IssuedAt = h.IssuedAt.Add(-time.Hour) }), nil, match, evaluate.RuleTime},
		{"signed before its entry", ackLie(func(h *envelope.Header, _ *translog.Acknowledgement) { h.IssuedAt = h.IssuedAt.Add(-time.Second) }), nil, match, evaluate.RuleTime},
		{"signed in time to come", stage.AckLie{}, func(e *evaluate.ExpectedAck) { e.Now = e.Now.Add(-time.Hour) }, match, evaluate.RuleTime},
	}
}

func ackProofs(t *testing.T) []ackCase {
	other := stage.New(t, 2)
	proof := evaluate.Proof
	return []ackCase{
		{"signed by a stranger", stage.AckLie{Lie: stage.Lie{Signer: other.Indexer.Envelope}}, nil, evaluate.Signatures, evaluate.RuleSignature},
		{"with a note by another key", stage.AckLie{Answer: func(a *evaluate.AckAnswer) { a.Note = other.Note(t, 4) }}, nil, evaluate.Signatures, evaluate.RuleNote},
		{"with a note of another tree", stage.AckLie{Lie: stage.Lie{Note: func(n *translog.Tree) { n.Root[0]++ }}}, nil, proof, evaluate.RuleCheckpoint},
		{"without inclusion", stage.AckLie{Answer: func(a *evaluate.AckAnswer) { a.Inclusion = nil }}, nil, proof, evaluate.RuleInclusion},
		{"in a log that forked", stage.AckLie{Lie: stage.Lie{Log: func(l stage.Tree) stage.Tree { l[2] = [32]byte{1}; return l }}}, nil, proof, evaluate.RuleConsistency},
		{"in a fork of the size that was seen, without a proof", stage.AckLie{Answer: func(a *evaluate.AckAnswer) { a.Consistency = nil }},
			func(e *evaluate.ExpectedAck) { e.Seen.Size, e.Seen.Root = 12, [32]byte{1} }, proof, evaluate.RuleConsistency},
	}
}

func TestADeletionThatNobodyAskedForIsRefused(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	rev, err := grants.SignRevocation(s.Pair.Grant.Revoke(grants.DispositionStop),
		grants.Stamp{Indexer: s.Indexer.Name(), Epoch: 1, Sequence: 1, At: s.Now}, s.Publisher.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	_, err = evaluate.Acknowledgement(s.Acknowledge(t, b, rev, translog.DeleteAck, seen, stage.AckLie{}), s.ExpectAck(b, rev, seen))
	wantFailure(t, err, evaluate.Match, evaluate.RuleRevocation)
}

func TestAnIncompleteExpectationOfAnAcknowledgementIsNoFailure(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	rev := s.Revoke(t)
	a := s.Acknowledge(t, b, rev, translog.RevokeAck, seen, stage.AckLie{})
	for _, change := range []func(*evaluate.ExpectedAck){
		func(e *evaluate.ExpectedAck) { e.Revocation = nil },
		func(e *evaluate.ExpectedAck) { e.Standings = nil },
		func(e *evaluate.ExpectedAck) { e.Keys = nil },
		func(e *evaluate.ExpectedAck) { e.Now = time.Time{} },
	} {
		e := s.ExpectAck(b, rev, seen)
		change(&e)
		var f *evaluate.Failure
		if _, err := evaluate.Acknowledgement(a, e); err == nil || errors.As(err, &f) {
			t.Errorf("%v, want an error that is no Failure", err)
		}
	}
}

// TestARestoredPublisherAcceptsALaterPlace: records that were put back to an older copy
// do not know where the series stood, and still what came before.
func TestARestoredPublisherAcceptsALaterPlace(t *testing.T) {
	base := stage.New(t, 1)
	for _, tt := range []struct {
		name     string
		lie      func(*translog.Entry)
		unplaced bool
		rule     evaluate.Rule // "" accepts
	}{
		{"the place that is known", func(*translog.Entry) {}, false, ""},
		{"further on", func(e *translog.Entry) { e.From, e.Through, e.State = e.From+5, e.Through+5, envelope.Hash{9} }, true, ""},
		{"another journal epoch", func(e *translog.Entry) { e.JournalEpoch++ }, true, ""},
		{"before the place that is known", func(e *translog.Entry) { e.From, e.Through = e.From-1, e.Through-1 }, false, evaluate.RuleBatch},
		{"the place that is known, in another state", func(e *translog.Entry) { e.State = envelope.Hash{9} }, false, evaluate.RuleState},
		{"further on, of another collection", func(e *translog.Entry) {
			e.From, e.Through, e.CollectionRef = e.From+5, e.Through+5, envelope.Hash{9}
		}, false, evaluate.RuleBatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base.Copy()
			b := s.Offer(t, stage.Pages()...)
			rev := s.Revoke(t)
			e := s.ExpectAck(b, rev, seen)
			e.Lost = true
			done, err := evaluate.Acknowledgement(s.Acknowledge(t, b, rev, translog.RevokeAck, seen,
				ackEntry(func(_ *envelope.Header, e *translog.Entry) { tt.lie(e) })), e)
			if tt.rule != "" {
				wantFailure(t, err, evaluate.Match, tt.rule)
			} else if err != nil || done.Unplaced != tt.unplaced {
				t.Errorf("unplaced %v, want %v; %v", done != nil && done.Unplaced, tt.unplaced, err)
			}
		})
	}
}
