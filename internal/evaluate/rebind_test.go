package evaluate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestAnHonestRebindIsAccepted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		left    uint64
		entries int
	}{
		{"the same scope", 0, 1},
		{"a narrower scope", 3, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stage.New(t, 1)
			r := s.Renew(t, tt.left, 6)
			done, err := evaluate.Rebind(s.AnswerRebind(t, r, seen, stage.Lie{}), s.ExpectRebind(r, seen))
			if err != nil {
				t.Fatal(err)
			}
			if len(done.Entries) != tt.entries || !done.Body.BatchID.IsZero() || done.Tree != s.Tree(s.Size()) {
				t.Errorf("%d entries, batch %s, tree %v", len(done.Entries), done.Body.BatchID, done.Tree)
			}
		})
	}
}

func TestDishonestRebindsAreRefused(t *testing.T) {
	base := stage.New(t, 1)
	match, sets := evaluate.Match, evaluate.RuleSets
	for _, tt := range []struct {
		name   string
		lie    stage.Lie
		expect func(*evaluate.ExpectedRebind)
		step   evaluate.Step
		rule   evaluate.Rule
	}{
		{"under the old grant", stage.Lie{}, func(e *evaluate.ExpectedRebind) { e.GrantID = base.Pair.Grant.Object.ID }, match, evaluate.RuleGrant},
		{"with a receipt that names a batch", receipt(func(_ *envelope.Header, r *translog.Receipt) { r.BatchID = envelope.Hash{9} }), nil, match, evaluate.RuleBatch},
		{"at another revision", entry(0, func(_ *envelope.Header, e *translog.Entry) { e.From, e.Through = 5, 5 }), nil, match, evaluate.RuleBatch},
		{"a receipt that moves the cursor", receipt(func(_ *envelope.Header, r *translog.Receipt) { r.Through++ }), nil, match, evaluate.RuleBatch},
		{"of another journal epoch", stage.Lie{}, func(e *evaluate.ExpectedRebind) { e.JournalEpoch++ }, match, evaluate.RuleBatch},
		{"with more pages left outside", entry(0, func(_ *envelope.Header, e *translog.Entry) { e.Objects.Count++ }), nil, match, sets},
		{"than the publisher counts", stage.Lie{}, func(e *evaluate.ExpectedRebind) { e.Left++ }, match, sets},
		{"where the publisher expects none outside", stage.Lie{}, func(e *evaluate.ExpectedRebind) { e.Left = 0 }, match, sets},
		{"with fewer pages taken over", stage.Lie{}, func(e *evaluate.ExpectedRebind) { e.Pages++ }, match, sets},
		{"over another state", entry(1, func(_ *envelope.Header, e *translog.Entry) { e.State = envelope.Hash{9} }), nil, match, evaluate.RuleState},
		{"said to be a batch", stage.Lie{}, func(e *evaluate.ExpectedRebind) { e.Subject = "spiffe://example.com/other" }, match, evaluate.RuleParties},
		{"backdated", receipt(func(h *envelope.Header, _ *translog.Receipt) { h.IssuedAt = h.IssuedAt.Add(-time.Hour) }), nil, match, evaluate.RuleTime},
		{"signed by a stranger", stage.Lie{Signer: stage.New(t, 2).Indexer.Envelope}, nil, evaluate.Signatures, evaluate.RuleSignature},
		{"without inclusion", answer(func(a *evaluate.Answer) { a.Inclusion[0] = nil }), nil, evaluate.Proof, evaluate.RuleInclusion},
		{"in a log that forked", stage.Lie{Log: func(l stage.Tree) stage.Tree { l[2] = [32]byte{1}; return l }}, nil, evaluate.Proof, evaluate.RuleConsistency},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base.Copy()
			r := s.Renew(t, 3, 6)
			e := s.ExpectRebind(r, seen)
			if tt.expect != nil {
				tt.expect(&e)
			}
			_, err := evaluate.Rebind(s.AnswerRebind(t, r, seen, tt.lie), e)
			wantFailure(t, err, tt.step, tt.rule)
		})
	}
}

func wantFailure(t *testing.T, err error, step evaluate.Step, rule evaluate.Rule) {
	t.Helper()
	var f *evaluate.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v, want a Failure", err)
	}
	if f.Step != step || f.Rule != rule {
		t.Errorf("failed in step %d by rule %s (%s), want step %d, %s", f.Step, f.Rule, f.Detail, step, rule)
	}
}
