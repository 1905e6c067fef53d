package evaluate_test

import (
	"errors"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestAPartIsNotAcknowledgedAsTheWhole has the log say what of the grant was
// revoked: as the revocation does, or not.
func TestAPartIsNotAcknowledgedAsTheWhole(t *testing.T) {
	for _, kind := range []translog.Decision{translog.RevokeAck, translog.DeleteAck} {
		s := stage.New(t, 1)
		b := s.Offer(t, stage.Pages()...)
		part, err := grants.PrefixScope("https://example.com/doc/a")
		if err != nil {
			t.Fatal(err)
		}
		rev, err := grants.SignRevocation(b.Pair.Grant.RevokeScope(part, grants.DispositionDelete),
			grants.Stamp{Indexer: s.Indexer.Name(), Epoch: 1, Sequence: 1, At: s.Now}, s.Publisher.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		scope, err := rev.ScopeHash(b.Pair.Grant)
		if err != nil {
			t.Fatal(err)
		}
		saying := func(entry, ack envelope.Hash) error {
			s := s.Copy()
			a := s.Acknowledge(t, b, rev, kind, seen, stage.AckLie{
				Lie: stage.Lie{Entry: func(_ int, _ *envelope.Header, e *translog.Entry) { e.ScopeHash = entry }},
				Ack: func(_ *envelope.Header, a *translog.Acknowledgement) { a.ScopeHash = ack },
			})
			_, err := evaluate.Acknowledgement(a, s.ExpectAck(b, rev, seen))
			return err
		}
		if err := saying(scope, scope); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		whole := b.Pair.Grant.ScopeHash
		for name, err := range map[string]error{"both": saying(whole, whole), "the entry": saying(whole, scope), "the acknowledgement": saying(scope, whole)} {
			if f := (*evaluate.Failure)(nil); !errors.As(err, &f) || f.Rule != evaluate.RuleScope {
				t.Errorf("%s: %s of the whole: %v, want rule %s", kind, name, err, evaluate.RuleScope)
			}
		}
	}
}
