package evaluate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestRevocationsCanBeProven(t *testing.T) {
	base := newScene(t, stage.New(t, 1))
	for _, after := range []time.Duration{time.Minute, 60 * 24 * time.Hour} {
		s := &scene{base.Copy(), base.batch, base.answer}
		s.Now = s.Now.Add(after)
		raw, o := seal(t, s.Stopped(t, base.batch, stage.AckLie{})), s.options()
		o.Checkpoints = [][]byte{s.Note(t, s.Size())}
		r := evaluate.Verify(t.Context(), raw, o)
		if r.Verdict != evaluate.Proven || r.Facts.Status != translog.Stopped || r.Facts.URL != "" || !r.Facts.RevokedAt.Equal(s.Now) {
			t.Errorf("%s after: %s: %s", after, r.Verdict, last(r))
		}
		if said := strings.Join(r.NotProven, "\n"); !strings.Contains(said, "auditor status") {
			t.Errorf("what it does not prove: %s", said)
		}
	}
}

func TestForgedRevocationsAreInvalid(t *testing.T) {
	base := newScene(t, stage.New(t, 1))
	hash := envelope.Hash{9}
	for _, tt := range []struct {
		name   string
		lie    stage.AckLie
		change func(*evaluate.Evidence)
		rule   evaluate.Rule
	}{
		{"an acknowledgement of another revocation", stage.AckLie{Ack: func(_ *envelope.Header, a *translog.Acknowledgement) { a.RevocationID = hash }}, nil, evaluate.RuleRevocation},
		{"an acknowledgement of more pages", stage.AckLie{Ack: func(_ *envelope.Header, a *translog.Acknowledgement) { a.Count++ }}, nil, evaluate.RuleEntries},
		{"an entry of another part of the grant", stage.AckLie{Lie: stage.Lie{Entry: func(_ int, _ *envelope.Header, e *translog.Entry) { e.ScopeHash = hash }}}, nil, evaluate.RuleScope},
		{"an entry that names pages", stage.AckLie{Lie: stage.Lie{Entry: func(_ int, _ *envelope.Header, e *translog.Entry) { e.Objects.Root = hash }}}, nil, evaluate.RuleLeaf},
		{"an entry that deleted", stage.AckLie{Lie: stage.Lie{Entry: func(_ int, _ *envelope.Header, e *translog.Entry) {
			e.Decision, e.Status = translog.DeleteAck, translog.Revoked
		}}}, nil, evaluate.RuleLeaf},
		{"another revocation", stage.AckLie{}, func(ev *evaluate.Evidence) {
			later := base.Copy()
			later.Now = later.Now.Add(time.Second)
			ev.Revocation = later.Revoke(t).Object.Raw
		}, evaluate.RuleRevocation},
		{"neither revocation nor acknowledgement", stage.AckLie{}, func(ev *evaluate.Evidence) { ev.Revocation, ev.Acknowledgement = nil, nil }, evaluate.RuleRevocation},
		{"the entry of an acceptance", stage.AckLie{}, func(ev *evaluate.Evidence) { ev.Entry = base.answer.Entries[0] }, evaluate.RuleLeaf},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base.Copy()
			ev := s.Stopped(t, base.batch, tt.lie)
			if tt.change != nil {
				tt.change(ev)
			}
			r := evaluate.Verify(t.Context(), seal(t, ev), base.options())
			if c := r.Checks[len(r.Checks)-1]; r.Verdict != evaluate.Invalid || c.Step != evaluate.Match || c.Rule != tt.rule {
				t.Errorf("%s by %s, want rule %s", r.Verdict, last(r), tt.rule)
			}
		})
	}
	for _, change := range []func(*evaluate.Evidence){
		func(ev *evaluate.Evidence) { ev.URL = "https://example.com/" },
		func(ev *evaluate.Evidence) { ev.Leaf.Revision = 1 },
		func(ev *evaluate.Evidence) { ev.Set.Index = 1 },
		func(ev *evaluate.Evidence) { ev.Digest = hash },
		func(ev *evaluate.Evidence) { ev.Claim = evaluate.ClaimDeleted },
	} {
		ev := base.Copy().Stopped(t, base.batch, stage.AckLie{})
		change(ev)
		if raw, err := evaluate.Seal(ev); err == nil {
			t.Errorf("a page beside a revocation, or none beside a deletion, is sealed as %.100s…", raw)
		}
	}
}
