package evaluate_test

import (
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
)

func TestListsThatTheFileDoesNotShowAreTold(t *testing.T) {
	for word, change := range map[string]func(*grants.Scope){
		"signed feed": func(s *grants.Scope) { s.Type = grants.InFeed },
		"by its digest": func(s *grants.Scope) {
			s.Type, s.Digests = grants.HashSet, []envelope.Hash{{1}}
		},
	} {
		base := stage.New(t, 1)
		base.Pair = base.Grant(t, 2, func(d *grants.Draft) { change(&d.Scope) })
		s := newScene(t, base)
		r := evaluate.Verify(t.Context(), seal(t, s.evidence(t, 0)), s.options())
		if r.Verdict != evaluate.Included || !strings.Contains(strings.Join(r.Reasons, "\n"), word) {
			t.Errorf("%s, reasons %q: %s", r.Verdict, r.Reasons, last(r))
		}
	}
}
