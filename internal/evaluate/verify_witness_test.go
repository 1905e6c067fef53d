package evaluate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

// textOf is the body of a signed note.
func textOf(note string) string { return note[:strings.LastIndex(note, "\n\n")+1] }

func TestEnoughCosignaturesProveAndNothingLess(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	vkey, otherLog := s.Indexer.Card.Log.VKey, stage.New(t, 2).Indexer.Card.Log.VKey
	var w []*witnesstest.Witness
	names := ""
	for i := range 3 {
		w = append(w, witnesstest.New(t, fmt.Sprintf("w%d.example", i+1), vkey, byte(i+1)))
		names += w[i].Line(fmt.Sprintf("W%d", i+1), "")
	}
	const two = "group G 2 W1 W2 W3\nquorum G\n"
	own := string(s.Note(t, s.Size()))
	later := func(n uint64) string { return textOf(string(s.Note(t, n))) }
	at := s.Now.Add(time.Minute)
	by := func(i int, text string) string { return w[i].Cosign(t, text, at) }
	stranger := witnesstest.New(t, "w1.example", vkey, 9)
	s.Grow(5)
	for _, tt := range []struct {
		name, policy, note string
		verdict            evaluate.Verdict
		reason             string
	}{
		{"nobody", names + two, own, evaluate.Included, "cosigned by nobody of the policy"},
		{"one where two are asked for", names + two, own + by(0, textOf(own)), evaluate.Included, "is not enough"},
		{"two", names + two, own + by(0, textOf(own)) + by(2, textOf(own)), evaluate.Proven, ""},
		{"one twice", names + two, own + by(0, textOf(own)) + by(0, textOf(own)), evaluate.Included, "is not enough"},
		{"one and a stranger of the same name", names + two, own + by(0, textOf(own)) + stranger.Cosign(t, textOf(own), at), evaluate.Included, "is not enough"},
		{"two, of which one is over another tree", names + two, own + by(0, textOf(own)) + by(1, later(s.Size())), evaluate.Invalid, "cosignature does not verify"},
		{"two, of which one is of the future", names + two, own + by(0, textOf(own)) + w[1].Cosign(t, textOf(own), s.Now.Add(9*time.Hour)), evaluate.Invalid, "future"},
		{"two, for other logs", "log " + otherLog + "\n" + names + two, own + by(0, textOf(own)) + by(2, textOf(own)), evaluate.Included, "other logs"},
		{"two, and nobody is asked for", names + "quorum none\n", own + by(0, textOf(own)) + by(2, textOf(own)), evaluate.Included, "asks for no witness"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := s.options()
			var err error
			if o.Witnesses, err = witness.ParsePolicy([]byte(tt.policy)); err != nil {
				t.Fatal(err)
			}
			ev := s.evidence(t, 0)
			ev.Note, ev.Consistency.To, ev.Consistency.Hashes = tt.note, ev.Consistency.From, nil
			r := evaluate.Verify(t.Context(), seal(t, ev), o)
			if r.Verdict != tt.verdict || !strings.Contains(strings.Join(r.Reasons, "\n"), tt.reason) {
				t.Errorf("%s, want %s: %q", r.Verdict, tt.verdict, r.Reasons)
			}
		})
	}
}

func TestAFalseCosignatureElsewhereKeepsFromProven(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	w := witnesstest.New(t, "w1.example", s.Indexer.Card.Log.VKey, 1)
	note := string(s.Note(t, s.Size()))
	o := s.options()
	var err error
	if o.Witnesses, err = witness.ParsePolicy([]byte(w.Line("W", "") + "quorum W\n")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, checkpoint string
		verdict          evaluate.Verdict
	}{
		{"a note from elsewhere, cosigned", note + w.Cosign(t, textOf(note), s.Now), evaluate.Proven},
		{"a note from elsewhere, and nobody's cosignature", note, evaluate.Proven},
		{"a note from elsewhere, with a false cosignature", note + w.Cosign(t, "else\n", s.Now), evaluate.Included},
	} {
		o.Checkpoints = [][]byte{[]byte(tt.checkpoint)}
		if r := evaluate.Verify(t.Context(), seal(t, s.evidence(t, 0)), o); r.Verdict != tt.verdict {
			t.Errorf("%s: %s, want %s: %q", tt.name, r.Verdict, tt.verdict, r.Reasons)
		}
	}
}
