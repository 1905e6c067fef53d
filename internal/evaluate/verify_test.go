package evaluate_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// prover proves consistency in any tree, true or not.
type prover struct{ tree stage.Tree }

func (p prover) Consistency(_ context.Context, from, to uint64) ([][32]byte, error) {
	if to > uint64(len(p.tree)) {
		return nil, errors.New("beyond the published size")
	}
	return p.tree.Consistency(from, to), nil
}

// scene is a stage with one answered batch.
type scene struct {
	*stage.Stage
	batch  *stage.Batch
	answer evaluate.Answer
}

func newScene(t testing.TB, s *stage.Stage) *scene {
	t.Helper()
	b := s.Offer(t, stage.Pages()...)
	return &scene{s, b, s.Answer(t, b, 5, stage.Lie{})}
}

// evidence is about page i, with a note of the present size.
func (s *scene) evidence(t testing.TB, i int) *evaluate.Evidence {
	t.Helper()
	return s.Evidence(t, s.batch, s.answer, i, s.Size())
}

// options of someone who has the indexer's card.
func (s *scene) options() evaluate.Options {
	return evaluate.Options{Cards: []*identity.Card{s.Indexer.Card}, Now: s.Now.Add(time.Hour)}
}

func seal(t testing.TB, ev *evaluate.Evidence) []byte {
	t.Helper()
	raw, err := evaluate.Seal(ev)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// last is the check that ended the report, in words.
func last(r *evaluate.Report) string {
	c := r.Checks[len(r.Checks)-1]
	return fmt.Sprintf("step %d, rule %s, %s: %s (%s)", c.Step, c.Rule, c.Outcome, c.Text, c.Detail)
}

func TestEveryClaimCanBeProven(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	files := map[string]*evaluate.Evidence{}
	for i, p := range s.batch.Pages {
		files[fmt.Sprintf("page %d, %s", i, p.Decision)] = s.evidence(t, i)
	}
	hidden := s.evidence(t, 0)
	hidden.Leaf.ContentPart, hidden.Leaf.SaltContent, hidden.Digest = s.batch.Leaves[0].Content, evaluate.Salt{}, envelope.Hash{}
	files["a page whose digest stays hidden"] = hidden
	s.Grow(6)
	files["a note later than the checkpoint"] = s.evidence(t, 3)
	for name, ev := range files {
		t.Run(name, func(t *testing.T) {
			o := s.options()
			o.Checkpoints, o.Prover = [][]byte{s.Note(t, s.Size())}, prover{s.Log}
			r := evaluate.Verify(t.Context(), seal(t, ev), o)
			if r.Verdict != evaluate.Proven {
				t.Fatalf("%s: %s", r.Verdict, last(r))
			}
			if r.Facts.Claim != ev.Claim || r.Facts.URL != ev.URL || r.Facts.GrantExpiredNow {
				t.Errorf("facts %+v", r.Facts)
			}
		})
	}
}

func TestDeletionsCanBeProven(t *testing.T) {
	base := newScene(t, stage.New(t, 1))
	for _, tt := range []struct {
		name   string
		after  time.Duration
		make   func(*stage.Stage) *evaluate.Evidence
		status translog.Status
	}{
		{"revoked while the grant still ran", time.Minute, func(s *stage.Stage) *evaluate.Evidence { return s.Deleted(t, base.batch, 1, nil) }, translog.Revoked},
		{"revoked after the grant had ended by itself", 60 * 24 * time.Hour, func(s *stage.Stage) *evaluate.Evidence { return s.Deleted(t, base.batch, 1, nil) }, translog.Revoked},
		{"at the end of the retention", 60 * 24 * time.Hour, func(s *stage.Stage) *evaluate.Evidence { return s.Purged(t, base.batch, 1) }, translog.Retention},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{base.Copy(), base.batch, base.answer}
			s.Now = s.Now.Add(tt.after)
			o := s.options()
			raw := seal(t, tt.make(s.Stage))
			o.Checkpoints = [][]byte{s.Note(t, s.Size())}
			if r := evaluate.Verify(t.Context(), raw, o); r.Verdict != evaluate.Proven || r.Facts.Status != tt.status {
				t.Errorf("%s: %s", r.Verdict, last(r))
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	size := s.Size()
	raw := seal(t, s.evidence(t, 0))
	s.Grow(10)
	forked := slices.Clone(s.Log)
	forked[3] = [32]byte{7}
	forkedNote := func(n uint64) [][]byte { return [][]byte{s.SignNote(t, forked.At(s.Origin(), n))} }
	stranger := stage.New(t, 2)

	for _, tt := range []struct {
		name   string
		change func(*evaluate.Options)
		want   evaluate.Verdict
		reason string // in one of the reasons
	}{
		{"offline, nothing but the indexer's card", func(o *evaluate.Options) {}, evaluate.Included, "no such checkpoint was given"},
		{"an independent note of the same size", func(o *evaluate.Options) { o.Checkpoints = [][]byte{s.Note(t, size)} }, evaluate.Proven, "taken from the card in the file"},
		{"a larger note, linked by the log", func(o *evaluate.Options) { o.Checkpoints, o.Prover = [][]byte{s.Note(t, size+5)}, prover{s.Log} }, evaluate.Proven, ""},
		{"a smaller note, linked by the log", func(o *evaluate.Options) { o.Checkpoints, o.Prover = [][]byte{s.Note(t, 4)}, prover{s.Log} }, evaluate.Proven, ""},
		{"a larger note that nothing links", func(o *evaluate.Options) { o.Checkpoints = [][]byte{s.Note(t, size+5)} }, evaluate.Included, "the log was not asked"},
		{"a log that gives no proof", func(o *evaluate.Options) {
			o.Checkpoints, o.Prover = [][]byte{s.Note(t, size+5)}, prover{s.Log[:size]}
		}, evaluate.Included, "beyond the published size"},
		{"a larger note of a fork", func(o *evaluate.Options) { o.Checkpoints, o.Prover = forkedNote(size+5), prover{forked} }, evaluate.Included, "Not so"},
		{"a note of the same size and another root", func(o *evaluate.Options) { o.Checkpoints = forkedNote(size) }, evaluate.Signed, "forked"},
		{"an agreeing note and a forked one", func(o *evaluate.Options) { o.Checkpoints = append(forkedNote(size), s.Note(t, size)) }, evaluate.Signed, "forked"},
		{"a note by another key", func(o *evaluate.Options) {
			o.Checkpoints = [][]byte{stranger.Note(t, 4)}
		}, evaluate.Included, "checkpoint note"},
		{"a note of the empty log", func(o *evaluate.Options) { o.Checkpoints = [][]byte{s.Note(t, 0)} }, evaluate.Included, "the empty log"},
		{"a card that names another log", func(o *evaluate.Options) { o.Cards = []*identity.Card{s.OtherLog(t)} }, evaluate.Signed, "does not name the log"},
		{"no card at all", func(o *evaluate.Options) { o.Cards = nil }, evaluate.Invalid, "no card of an indexer"},
		{"the card of the publisher alone", func(o *evaluate.Options) { o.Cards = []*identity.Card{s.Publisher.Card} }, evaluate.Invalid, "no card of an indexer"},
		{"the card of another indexer of that name", func(o *evaluate.Options) { o.Cards = []*identity.Card{stranger.Indexer.Card} }, evaluate.Invalid, "not the one that was given"},
		{"a publisher's card that is not the one in the file", func(o *evaluate.Options) { o.Cards = append(o.Cards, stranger.Publisher.Card) }, evaluate.Invalid, "not the one that was given"},
		{"a clock before the entry", func(o *evaluate.Options) { o.Now = s.Now.Add(-time.Hour) }, evaluate.Invalid, "still to come"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := s.options()
			tt.change(&o)
			r := evaluate.Verify(t.Context(), raw, o)
			if r.Verdict != tt.want {
				t.Errorf("%s, want %s: %s", r.Verdict, tt.want, last(r))
			}
			if !strings.Contains(strings.Join(r.Reasons, "\n"), tt.reason) {
				t.Errorf("reasons %q, want one with %q", r.Reasons, tt.reason)
			}
			if (r.Facts == nil) != (r.Verdict == evaluate.Invalid) || len(r.NotProven) == 0 {
				t.Errorf("facts %v and limits %q of a file that is %s", r.Facts, r.NotProven, r.Verdict)
			}
		})
	}
}

func TestOneKeyForTwoIdentitiesIsNoTrust(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	// The same source of randomness gives the same keys.
	twin, err := identity.Create(t.TempDir(), identity.Options{
		Identity: "spiffe://example.com/twin", Role: identity.Publisher, Now: s.Now, Rand: rand.NewChaCha8([32]byte{1}),
	})
	if err != nil {
		t.Fatal(err)
	}
	o := s.options()
	o.Cards = append(o.Cards, s.Publisher.Card, twin.Card)
	r := evaluate.Verify(t.Context(), seal(t, s.evidence(t, 0)), o)
	if r.Verdict != evaluate.Invalid || !strings.Contains(r.Reasons[0], "one public key stands in the cards of") {
		t.Errorf("%s, reasons %q", r.Verdict, r.Reasons)
	}
	ev := s.evidence(t, 0)
	ev.Cards = append(ev.Cards, twin.Card.Object.Raw)
	if r := evaluate.Verify(t.Context(), seal(t, ev), s.options()); r.Verdict != evaluate.Invalid || !strings.Contains(r.Reasons[0], "who is no party") {
		t.Errorf("%s, reasons %q", r.Verdict, r.Reasons)
	}
}

func TestAPublishersCardThatWasGivenIsReliedOn(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	o := s.options()
	o.Cards = append(o.Cards, s.Publisher.Card)
	ev := s.evidence(t, 0)
	ev.Cards = ev.Cards[:0]
	r := evaluate.Verify(t.Context(), seal(t, ev), o)
	if r.Verdict != evaluate.Included || strings.Contains(strings.Join(append(r.Reasons, r.NotProven...), "\n"), "card in") {
		t.Errorf("%s, reasons %q, limits %q", r.Verdict, r.Reasons, r.NotProven)
	}
}

func TestAnExpiredGrantIsToldAndChangesNothing(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	o := s.options()
	o.Now = s.Now.Add(10 * 365 * 24 * time.Hour)
	r := evaluate.Verify(t.Context(), seal(t, s.evidence(t, 0)), o)
	if r.Verdict != evaluate.Included || !r.Facts.GrantExpiredNow {
		t.Errorf("%s, expired %v: %s", r.Verdict, r.Facts != nil && r.Facts.GrantExpiredNow, last(r))
	}
}

func TestListingAndCollectionAreTold(t *testing.T) {
	base := stage.New(t, 1)
	base.Pair = base.Grant(t, 2, func(d *grants.Draft) {
		d.Listing = grants.ListingPublic
		d.Scope = grants.Scope{Type: grants.Collection, ID: "docs", Prefixes: d.Scope.Prefixes}
	})
	s := newScene(t, base)
	r := evaluate.Verify(t.Context(), seal(t, s.evidence(t, 0)), s.options())
	if r.Verdict != evaluate.Included || !strings.Contains(strings.Join(r.Reasons, "\n"), `collection "docs"`) {
		t.Errorf("%s, reasons %q: %s", r.Verdict, r.Reasons, last(r))
	}
	ev := s.evidence(t, 0)
	ev.R = evaluate.Salt(s.R)
	if r := evaluate.Verify(t.Context(), seal(t, ev), s.options()); r.Verdict != evaluate.Invalid {
		t.Errorf("a salt that opens nothing: %s", r.Verdict)
	}
}

// What a later edition adds without making it critical is covered by the
// signature, and kept in the file.
func TestExtensionsPassUnlessTheyAreCritical(t *testing.T) {
	base := stage.New(t, 1)
	for _, tt := range []struct {
		name     string
		critical bool
		want     evaluate.Verdict
	}{
		{"one that may be passed over", false, evaluate.Included},
		{"one that has to be understood", true, evaluate.Invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{Stage: base.Copy()}
			s.batch = s.Offer(t, stage.Pages()...)
			s.answer = s.Answer(t, s.batch, seen, receipt(func(h *envelope.Header, _ *translog.Receipt) {
				h.Extensions = map[string]envelope.Extension{"later.example/note": {Critical: tt.critical, Data: jsontext.Value(`"n"`)}}
			}))
			if _, err := evaluate.Batch(s.answer, s.Expect(s.batch, seen)); (err != nil) != tt.critical {
				t.Errorf("Batch = %v", err)
			}
			if r := evaluate.Verify(t.Context(), seal(t, s.evidence(t, 0)), s.options()); r.Verdict != tt.want {
				t.Errorf("%s, want %s: %s", r.Verdict, tt.want, last(r))
			}
		})
	}
}

func TestVerdictsAreOrdered(t *testing.T) {
	all := evaluate.Verdicts()
	for i, v := range all {
		for j, w := range all {
			if v.Reaches(w) != (i >= j) {
				t.Errorf("%s reaches %s: %v", v, w, v.Reaches(w))
			}
		}
	}
	if evaluate.Verdict("").Reaches(evaluate.Invalid) || evaluate.Proven.Reaches("perfect") {
		t.Error("an unknown verdict reaches or is reached")
	}
}
