package evaluate_test

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
)

// kinds are evidence of each claim, and what verifies it.
func kinds(t *testing.T) map[string]struct {
	raw []byte
	o   evaluate.Options
} {
	all := make(map[string]struct {
		raw []byte
		o   evaluate.Options
	})
	base := newScene(t, stage.New(t, 1))
	add := func(name string, s *scene, ev *evaluate.Evidence) {
		o := s.options()
		o.Checkpoints = [][]byte{s.Note(t, s.Size())}
		all[name] = struct {
			raw []byte
			o   evaluate.Options
		}{seal(t, ev), o}
	}
	for i, p := range base.batch.Pages {
		add(string(p.Decision), base, base.evidence(t, i))
	}
	for name, make := range map[string]func(*stage.Stage) *evaluate.Evidence{
		"deleted after a revocation":     func(s *stage.Stage) *evaluate.Evidence { return s.Deleted(t, base.batch, 1, nil) },
		"gone at the end of a retention": func(s *stage.Stage) *evaluate.Evidence { return s.Purged(t, base.batch, 1) },
		"revoked":                        func(s *stage.Stage) *evaluate.Evidence { return s.Stopped(t, base.batch, stage.AckLie{}) },
	} {
		s := &scene{base.Copy(), base.batch, base.answer}
		add(name, s, make(s.Stage))
	}
	return all
}

// TestRandomChangesOfEachKindAreInvalid changes one octet at a time, at random
// and to anything, in evidence of each kind.
func TestRandomChangesOfEachKindAreInvalid(t *testing.T) {
	all := kinds(t)
	if len(all) < 7 {
		t.Fatalf("only %d kinds of evidence", len(all))
	}
	for name, k := range all {
		if r := evaluate.Verify(t.Context(), k.raw, k.o); r.Verdict != evaluate.Proven {
			t.Fatalf("%s, unchanged: %s: %s", name, r.Verdict, last(r))
		}
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), uint64(len(k.raw))))
				changed := bytes.Clone(k.raw)
				for range randomChanges / workers {
					i := random.IntN(len(changed))
					changed[i] ^= byte(1 + random.IntN(255))
					if r := evaluate.Verify(t.Context(), changed, k.o); r.Verdict != evaluate.Invalid {
						t.Errorf("%s: octet %d changed from %q to %q: %s", name, i, k.raw[i], changed[i], r.Verdict)
					}
					changed[i] = k.raw[i]
				}
			})
		}
		wg.Wait()
	}
}
