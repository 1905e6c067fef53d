package evaluate_test

import (
	"fmt"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxBeside is how large evidence may be beside grant and policy, in octets.
const maxBeside = 12_000

// BenchmarkEvidence seals and verifies evidence about a page of a batch of 1,000,
// whose entry is in the middle of a log, with a checkpoint note of the whole log.
// The other entries are opaque octets, since proofs are made of hashes alone. It
// prints how large the file is, and what of it is neither grant nor policy.
func BenchmarkEvidence(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			s := stage.New(b, 1)
			var pages []stage.Page
			for i := range 1000 {
				pages = append(pages, stage.Page{Op: translog.OpPut, URL: fmt.Sprintf("https://example.com/doc/page-%d", i), Payload: fmt.Sprint(i), Decision: translog.Include})
			}
			s.Grow(n/2 - len(s.Log))
			batch := s.Offer(b, pages...)
			answer := s.Answer(b, batch, 0, stage.Lie{})
			s.Grow(n - len(s.Log))
			ev := s.Evidence(b, batch, answer, 500, s.Size())
			o := (&scene{s, batch, answer}).options()
			o.Checkpoints = [][]byte{s.Note(b, s.Size())}
			var raw []byte
			for b.Loop() {
				raw = seal(b, ev)
				if r := evaluate.Verify(b.Context(), raw, o); r.Verdict != evaluate.Proven {
					b.Fatalf("%s: %s", r.Verdict, last(r))
				}
			}
			beside := len(raw) - len(ev.Grant) - len(ev.Policy)
			if beside > maxBeside {
				b.Errorf("%d octets beside grant and policy, at most %d", beside, maxBeside)
			}
			b.ReportMetric(float64(len(raw)), "octets")
			b.ReportMetric(float64(beside), "octets-beside")
		})
	}
}
