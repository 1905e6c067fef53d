package publisher

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// evaluate hands an answer to the one implementation of UZPIF-OI 9.1.4.
func (s *session) evaluate(a agreement, manifest *envelope.Object, m translog.Manifest, all []decided, answer *oiv1.BatchResult, sent time.Time) (*evaluate.Accepted, error) {
	given, err := answerOf(answer)
	if err != nil {
		return nil, err
	}
	pair, err := s.p.pairOf(a.rel, m.GrantID)
	if err != nil {
		return nil, err
	}
	log, err := logOf(s.peer, given.Note)
	if err != nil {
		return nil, err
	}
	e := expected(s.p.local.Name(), s.peer, log, s.p.keysFor(sent), a.rel, pair, manifest, m)
	e.Sent, e.Now = sent, s.p.now()
	for _, d := range all {
		e.Sets = append(e.Sets, evaluate.Decided{Op: d.op, LeafHash: d.leaf, Decision: d.decision})
	}
	if e.Seen, err = s.seenOf(log); err != nil {
		return nil, err
	}
	began := time.Now()
	_, span := s.p.trace.Start(s.traced, "evaluate", "collection", a.rel.Collection)
	accepted, err := evaluate.Batch(given, e)
	s.p.pulse.evaluate.Since(began)
	span.End(outcome(err))
	return accepted, err
}

// answerOf takes an answer out of its messages.
func answerOf(r *oiv1.BatchResult) (evaluate.Answer, error) {
	c := r.Committed
	consistency, err := hashes(r.Consistency)
	if err != nil {
		return evaluate.Answer{}, err
	}
	a := evaluate.Answer{Receipt: c.Receipt, Entries: c.Entries, Checkpoint: c.Checkpoint, Note: c.Note, Consistency: consistency}
	for _, p := range c.Inclusion {
		path, err := hashes(p.GetHashes())
		if err != nil {
			return evaluate.Answer{}, err
		}
		a.Inclusion = append(a.Inclusion, path)
	}
	return a, nil
}
