package indexer

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// proven has a stranger verify evidence of the indexer's making, who trusts both
// cards and got the note elsewhere.
func (s *series) proven(q Question, claim translog.Decision) []byte {
	t, r := s.p.r.t, s.p.r
	t.Helper()
	raw, err := r.x.Evidence(q)
	if err != nil {
		t.Fatalf("evidence about %+v: %v", q, err)
	}
	ev, err := evaluate.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	o := evaluate.Options{Cards: []*identity.Card{r.card, s.p.local.Card}, Now: r.now(), Checkpoints: [][]byte{[]byte(ev.Note)}}
	report := evaluate.Verify(t.Context(), raw, o)
	if report.Verdict != evaluate.Proven || report.Facts.Claim != evaluate.ClaimOf(claim) || report.Facts.URL != q.URL {
		t.Errorf("evidence about %+v: %s\n%v", q, report.Verdict, report.Checks[len(report.Checks)-1])
	}
	return raw
}

// discloses reports which of the urls stand in evidence.
func discloses(raw []byte, urls ...string) (n int) {
	for _, u := range urls {
		if bytes.Contains(raw, []byte(`"`+u+`"`)) {
			n++
		}
	}
	return n
}

func TestAnExclusionCanBeProven(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.example().series("docs-1", site, nil)
	c := s.p.session(s)
	bad := change{url: site + "bad", payload: []byte(`{"canonical_url":"https://example.com/elsewhere"}`)}
	c.push(s, change{url: site + "good", text: "words"}, bad)
	r.publishNow()
	raw := s.proven(Question{URL: site + "bad"}, translog.Exclude)
	if discloses(raw, site+"bad") != 1 || discloses(raw, site+"good") != 0 {
		t.Error("it does not disclose that page alone")
	}
	s.proven(Question{URL: site + "good"}, translog.Include)
}

func TestTheEndOfARetentionCanBeProven(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().keptTwoDays(5)
	c.close()
	page := urls(site, 5)[3]
	if raw, err := r.x.Evidence(Question{URL: page, Deletion: true}); !errors.Is(err, ErrNoEvidence) {
		t.Errorf("before it: %q, %v", raw, err)
	}
	r.forward(48 * time.Hour)
	r.retained()
	r.publishNow()
	raw := s.proven(Question{URL: page, Deletion: true}, translog.DeleteAck)
	if discloses(raw, page) != 1 || discloses(raw, urls(site, 3)...) != 0 {
		t.Error("it does not disclose that page alone")
	}
	s.proven(Question{URL: page}, translog.Include) // what was taken in stays true
}

// TestEvidenceIsMadeOfALogThatHasEnded asks after a rotation for what stands in the
// log before, and for what the new one says of the same pages.
func TestEvidenceIsMadeOfALogThatHasEnded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, c := p.held(4)
	bad := change{url: site + "bad", payload: []byte(`{"canonical_url":"https://example.com/elsewhere"}`)}
	c.push(s, bad, change{url: urls(site, 4)[3]})
	c.close()
	r.rotate(p)
	s.proven(Question{URL: urls(site, 4)[0]}, translog.Include)
	s.proven(Question{URL: bad.url}, translog.Exclude)
	s.proven(Question{URL: urls(site, 4)[3], Deletion: true}, translog.DeleteAck)
	c = p.session(s)
	c.push(s, puts("newer", urls(site, 4)[1])...)
	c.close()
	rev := p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	p.settled(rev)
	r.publishNow()
	for _, page := range urls(site, 2) {
		s.proven(Question{URL: page, Deletion: true}, translog.DeleteAck)
	}
	s.proven(Question{Revocation: rev.Object.ID}, translog.RevokeAck)
	s.proven(Question{URL: urls(site, 4)[3], Deletion: true}, translog.DeleteAck) // still of the log that has ended
}
