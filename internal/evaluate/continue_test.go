package evaluate_test

import (
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// rotated is an indexer whose log was seen at size 5, ended with 11 entries, and
// was rotated twice since.
type rotated struct {
	s    *stage.Stage
	seen translog.Tree
	end  translog.Tree
	two  translog.Tree // the end of the log in between
	now  translog.Tree
	vkey string
	key  ed25519.PrivateKey
}

func newRotated(t *testing.T) *rotated {
	s := stage.New(t, 1)
	r := &rotated{s: s, seen: s.Tree(5), end: s.Tree(11), key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	r.two, r.now = s.Log.At("log.search.example/2", 7), s.Log.At("log.search.example/3", 3)
	var err error
	if r.vkey, err = translog.VerifierKey(r.now.Origin, r.key.Public().(ed25519.PublicKey)); err != nil {
		t.Fatal(err)
	}
	return r
}

// checkpoint signs that tree continues the one before it.
func (r *rotated) checkpoint(t *testing.T, tree translog.Tree, before *translog.Tree, change func(*envelope.Header, *translog.Checkpoint)) []byte {
	t.Helper()
	body := translog.Checkpoint{
		Algorithm: translog.RootAlgorithm, Indexer: r.s.Indexer.Name(), LogOrigin: tree.Origin, Profile: translog.Profile,
		Root: tree.Root, TreeSize: tree.Size,
	}
	if before != nil {
		body.Continues = &translog.Continues{Origin: before.Origin, Root: before.Root, Size: before.Size}
	}
	h := envelope.Header{
		Type: envelope.Checkpoint, Authority: r.s.Indexer.Name().Authority(), Subject: r.s.Indexer.Name(),
		Epoch: 1, Sequence: tree.Size, IssuedAt: r.s.Now,
	}
	if change != nil {
		change(&h, &body)
	}
	o, err := envelope.Sign(h, &body, r.s.Indexer.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	return o.Raw
}

func (r *rotated) note(t *testing.T, tree translog.Tree) []byte {
	t.Helper()
	n, err := translog.SignNote(tree, r.key)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *rotated) honest(t *testing.T) evaluate.Continuation {
	return evaluate.Continuation{
		Note:        r.note(t, r.now),
		Checkpoints: [][]byte{r.checkpoint(t, r.now, &r.two, nil), r.checkpoint(t, r.two, &r.end, nil)},
		Consistency: r.s.Log.Consistency(5, 11),
	}
}

func (r *rotated) verify(seen translog.Tree, c evaluate.Continuation) (now, end translog.Tree, err error) {
	return evaluate.Continue(seen, c, r.vkey, r.now.Origin, r.s.Indexer.Card, r.s.Indexer.Name())
}

func TestALogIsFollowedThroughRotations(t *testing.T) {
	r := newRotated(t)
	now, end, err := r.verify(r.seen, r.honest(t))
	if err != nil || now != r.now || end != r.end {
		t.Errorf("Continue = %+v, %+v, %v", now, end, err)
	}
	// The very end was seen, and one rotation was missed.
	c := evaluate.Continuation{Note: r.note(t, r.now), Checkpoints: [][]byte{r.checkpoint(t, r.now, &r.end, nil)}}
	if now, end, err := r.verify(r.end, c); err != nil || now != r.now || end != r.end {
		t.Errorf("Continue = %+v, %+v, %v", now, end, err)
	}
}

func TestRotationsThatForgetAreRefused(t *testing.T) {
	r := newRotated(t)
	short, fork := r.s.Tree(4), r.end
	fork.Root[0] ^= 1
	stranger := stage.New(t, 2)
	for _, tt := range []struct {
		name string
		lie  func(*evaluate.Continuation)
		rule evaluate.Rule
	}{
		{"a note by another key", func(c *evaluate.Continuation) { c.Note = r.s.Note(t, 3) }, evaluate.RuleNote},
		{"no checkpoint", func(c *evaluate.Continuation) { c.Checkpoints = nil }, evaluate.RuleForm},
		{"more checkpoints than rotations can be", func(c *evaluate.Continuation) { c.Checkpoints = slices.Repeat(c.Checkpoints[:1], 17) }, evaluate.RuleForm},
		{"the checkpoint of another tree", func(c *evaluate.Continuation) {
			c.Checkpoints[0] = r.checkpoint(t, r.s.Log.At(r.now.Origin, 4), &r.two, nil)
		}, evaluate.RuleCheckpoint},
		{"the checkpoint of another log", func(c *evaluate.Continuation) { slices.Reverse(c.Checkpoints) }, evaluate.RuleSequence},
		{"a checkpoint that continues nothing", func(c *evaluate.Continuation) { c.Checkpoints[0] = r.checkpoint(t, r.now, nil, nil) }, evaluate.RuleSequence},
		{"a rotation left out", func(c *evaluate.Continuation) { c.Checkpoints = c.Checkpoints[:1] }, evaluate.RuleSequence},
		{"a checkpoint signed by somebody else", func(c *evaluate.Continuation) {
			o := *r
			o.s = stranger
			c.Checkpoints[1] = o.checkpoint(t, r.two, &r.end, nil)
		}, evaluate.RuleSignature},
		{"a checkpoint with another sequence", func(c *evaluate.Continuation) {
			c.Checkpoints[1] = r.checkpoint(t, r.two, &r.end, func(h *envelope.Header, _ *translog.Checkpoint) { h.Sequence++ })
		}, evaluate.RuleSequence},
		{"an end before what was seen", func(c *evaluate.Continuation) {
			c.Checkpoints[1] = r.checkpoint(t, r.two, &short, nil)
			c.Consistency = r.s.Log.Consistency(4, 5) // which is true
		}, evaluate.RuleConsistency},
		{"an end with another root", func(c *evaluate.Continuation) { c.Checkpoints[1] = r.checkpoint(t, r.two, &fork, nil) }, evaluate.RuleConsistency},
		{"no proof", func(c *evaluate.Continuation) { c.Consistency = nil }, evaluate.RuleConsistency},
		{"a proof of another length", func(c *evaluate.Continuation) { c.Consistency = c.Consistency[1:] }, evaluate.RuleConsistency},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := r.honest(t)
			tt.lie(&c)
			_, _, err := r.verify(r.seen, c)
			var f *evaluate.Failure
			if !errors.As(err, &f) || f.Rule != tt.rule {
				t.Errorf("Continue = %v, want rule %s", err, tt.rule)
			}
		})
	}
}

// TestEvidenceOutlivesARotation verifies a file from before a rotation by the
// card that came after it.
func TestEvidenceOutlivesARotation(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	a := s.Answer(t, b, 5, stage.Lie{})
	ev := s.Evidence(t, b, a, 0, s.Size())
	old := s.Indexer.Card
	dir := t.TempDir()
	r, err := s.Indexer.BeginRotation(dir, identity.RotationOptions{
		Origin: "log.search.example/2", Now: s.Now, URL: func(string) string { return "https://log.search.example/2" },
	})
	if err != nil {
		t.Fatal(err)
	}
	verdict := func(cards ...[]byte) (evaluate.Verdict, string) {
		ev.Cards = nil
		for _, c := range cards {
			ev.Cards = append(ev.Cards, c)
		}
		raw, err := evaluate.Seal(ev)
		if err != nil {
			t.Fatal(err)
		}
		report := evaluate.Verify(t.Context(), raw, evaluate.Options{
			Cards: []*identity.Card{r.Card}, Now: s.Now.Add(time.Hour), Checkpoints: [][]byte{s.Note(t, s.Size())},
		})
		return report.Verdict, strings.Join(report.Reasons, " ")
	}
	publisher := s.Publisher.Card.Object.Raw
	if got, why := verdict(publisher, r.Card.Object.Raw, old.Object.Raw); got != evaluate.Proven {
		t.Errorf("with the card that was replaced: %s: %s", got, why)
	}
	if got, why := verdict(publisher, r.Card.Object.Raw); got != evaluate.Signed || !strings.Contains(why, "does not name the log") {
		t.Errorf("without it: %s: %s", got, why)
	}
	// Another old card of the same identity is not the one that was replaced.
	other := s.OtherLog(t)
	if got, why := verdict(publisher, other.Object.Raw); got == evaluate.Proven || got == evaluate.Included {
		t.Errorf("with a card that was never replaced: %s: %s", got, why)
	}
}
