package evaluate_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestAnHonestAnswerIsAccepted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		pages   []stage.Page
		entries int
	}{
		{"a batch with every decision", stage.Pages(), 4},
		{"a batch of one page", stage.Pages()[:1], 1},
		{"a batch of deletions", stage.Pages()[2:3], 1},
		{"a batch without items", nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stage.New(t, 1)
			b := s.Offer(t, tt.pages...)
			a := s.Answer(t, b, 5, stage.Lie{})
			done, err := evaluate.Batch(a, s.Expect(b, 5))
			if err != nil {
				t.Fatal(err)
			}
			if len(done.Entries) != tt.entries || done.Body.Entries[0].Index != 11 {
				t.Errorf("%d entries from index %d, want %d from 11", len(done.Entries), done.Body.Entries[0].Index, tt.entries)
			}
			if want := s.Tree(s.Size()); done.Tree != want || done.Own != want {
				t.Errorf("trees %v and %v, want %v", done.Tree, done.Own, want)
			}
		})
	}
}

func TestAnAnswerWithoutAnEarlierTreeIsAccepted(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	if _, err := evaluate.Batch(s.Answer(t, b, 0, stage.Lie{}), s.Expect(b, 0)); err != nil {
		t.Error(err)
	}
}

// A stored receipt comes again after the publisher has seen the log grow.
func TestAnOldReceiptIsAcceptedAgainAndTheSeenTreeStays(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	a := s.Answer(t, b, 5, stage.Lie{})
	own := s.Size()
	s.Grow(9)
	a.Consistency = s.Log.Consistency(own, s.Size())
	e := s.Expect(b, s.Size())
	e.Sent, e.Now = time.Time{}, s.Now.Add(30*time.Hour)
	done, err := evaluate.Batch(a, e)
	if err != nil {
		t.Fatal(err)
	}
	if done.Tree != s.Tree(s.Size()) || done.Own != s.Tree(own) {
		t.Errorf("kept %d and %d, want %d and %d", done.Tree.Size, done.Own.Size, s.Size(), own)
	}
}

func TestEveryPartitionOfABatchIsAccepted(t *testing.T) {
	s := stage.New(t, 1)
	rapid.Check(t, func(rt *rapid.T) {
		var pages []stage.Page
		for range rapid.IntRange(0, 9).Draw(rt, "pages") {
			p := rapid.SampledFrom(stage.Pages()).Draw(rt, "page")
			p.Payload = rapid.StringN(0, 8, 8).Draw(rt, "payload")
			pages = append(pages, p)
		}
		seen := rapid.Uint64Range(0, s.Size()).Draw(rt, "seen")
		b := s.Offer(t, pages...)
		if _, err := evaluate.Batch(s.Answer(t, b, seen, stage.Lie{}), s.Expect(b, seen)); err != nil {
			rt.Fatal(err)
		}
	})
}

// dishonest is an answer, or an expectation that an honest answer to something
// else meets, and the failure that it must end in.
type dishonest struct {
	name   string
	lie    stage.Lie
	expect func(*evaluate.Expected)
	step   evaluate.Step
	rule   evaluate.Rule
}

const seen = 5 // size of the tree that the publisher saw before

func TestDishonestAnswersAreRefused(t *testing.T) {
	base := stage.New(t, 1)
	cases := slices.Concat(forgedAnswers(t), otherTerms(), otherSets(), otherTimes(), otherTrees())
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			s := base.Copy()
			b := s.Offer(t, stage.Pages()...)
			e := s.Expect(b, seen)
			a := s.Answer(t, b, seen, tt.lie)
			if tt.expect != nil {
				tt.expect(&e)
			}
			_, err := evaluate.Batch(a, e)
			var f *evaluate.Failure
			if !errors.As(err, &f) {
				t.Fatalf("Batch = %v, want a Failure", err)
			}
			if f.Step != tt.step || f.Rule != tt.rule {
				t.Errorf("failed in step %d by rule %s (%s), want step %d, %s", f.Step, f.Rule, f.Detail, tt.step, tt.rule)
			}
		})
	}
}

func answer(change func(*evaluate.Answer)) stage.Lie { return stage.Lie{Answer: change} }

// flip changes one bit in the middle of b.
func flip(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)/2] ^= 1
	return b
}

func forgedAnswers(t *testing.T) []dishonest {
	other := stage.New(t, 2)
	alien := other.Answer(t, other.Offer(t, stage.Pages()...), seen, stage.Lie{})
	step, form, signature := evaluate.Signatures, evaluate.RuleForm, evaluate.RuleSignature
	return []dishonest{
		{"nothing at all", answer(func(a *evaluate.Answer) { *a = evaluate.Answer{} }), nil, step, form},
		{"five entries", answer(func(a *evaluate.Answer) { a.Entries = append(a.Entries, a.Entries[0]) }), nil, step, form},
		{"an entry without its proof", answer(func(a *evaluate.Answer) { a.Inclusion = a.Inclusion[1:] }), nil, step, form},
		{"signed by a key that nobody knows", stage.Lie{Signer: other.Publisher.Envelope}, nil, step, signature},
		{"signed by the publisher's own key", stage.Lie{}, func(e *evaluate.Expected) { e.Keys = other.Indexer.Card }, step, signature},
		{"signed by another identity that is known", stage.Lie{}, func(e *evaluate.Expected) { e.Indexer = "spiffe://search.example/other" }, step, evaluate.RuleSigner},
		{"a changed receipt", answer(func(a *evaluate.Answer) { a.Receipt = flip(a.Receipt) }), nil, step, signature},
		{"a changed entry", answer(func(a *evaluate.Answer) { a.Entries[1] = flip(a.Entries[1]) }), nil, step, signature},
		{"a changed checkpoint", answer(func(a *evaluate.Answer) { a.Checkpoint = flip(a.Checkpoint) }), nil, step, signature},
		{"an entry in place of the receipt", answer(func(a *evaluate.Answer) { a.Receipt = a.Entries[0] }), nil, step, signature},
		{"a receipt in place of the checkpoint", answer(func(a *evaluate.Answer) { a.Checkpoint = a.Receipt }), nil, step, signature},
		{"an entry with a status of another decision", stage.Lie{Entry: func(i int, _ *envelope.Header, e *translog.Entry) { e.Status = translog.Rebound }}, nil, step, signature},
		{"a changed note", answer(func(a *evaluate.Answer) { a.Note = flip(a.Note) }), nil, step, evaluate.RuleNote},
		{"a note by another key", answer(func(a *evaluate.Answer) { a.Note = alien.Note }), nil, step, evaluate.RuleNote},
		{"a note of another log", stage.Lie{}, func(e *evaluate.Expected) { e.LogOrigin = "log.search.example/2" }, step, evaluate.RuleNote},
	}
}

func receipt(change func(h *envelope.Header, r *translog.Receipt)) stage.Lie {
	return stage.Lie{Receipt: change}
}

// entry is a lie about the i-th entry, told to the log and in the receipt.
func entry(at int, change func(h *envelope.Header, e *translog.Entry)) stage.Lie {
	return stage.Lie{Entry: func(i int, h *envelope.Header, e *translog.Entry) {
		if i == at {
			change(h, e)
		}
	}}
}

func otherTerms() []dishonest {
	hash := envelope.Hash{9}
	match := evaluate.Match
	return []dishonest{
		{"a receipt for another audience", receipt(func(h *envelope.Header, r *translog.Receipt) { h.Audience = "spiffe://example.com/other" }), nil, match, evaluate.RuleParties},
		{"a receipt for another publisher", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Publisher = "spiffe://example.com/other" }), nil, match, evaluate.RuleParties},
		{"a receipt about another relationship", receipt(func(h *envelope.Header, r *translog.Receipt) { h.Subject = "urn:uzpif-oi:rel:other" }), nil, match, evaluate.RuleParties},
		{"a receipt for another grant", receipt(func(h *envelope.Header, r *translog.Receipt) { r.GrantID = hash }), nil, match, evaluate.RuleGrant},
		{"a receipt under another policy", receipt(func(h *envelope.Header, r *translog.Receipt) { r.PolicyHash = hash }), nil, match, evaluate.RulePolicy},
		{"a receipt for another scope", receipt(func(h *envelope.Header, r *translog.Receipt) { r.ScopeHash = hash }), nil, match, evaluate.RuleScope},
		{"a receipt for one purpose more", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Purposes = append(r.Purposes, "ai.train") }), nil, match, evaluate.RulePurposes},
		{"a receipt for another batch", receipt(func(h *envelope.Header, r *translog.Receipt) { r.BatchID = hash }), nil, match, evaluate.RuleBatch},
		{"a receipt for no batch", receipt(func(h *envelope.Header, r *translog.Receipt) { r.BatchID = envelope.Hash{} }), nil, match, evaluate.RuleBatch},
		{"a receipt for another collection", receipt(func(h *envelope.Header, r *translog.Receipt) { r.CollectionRef = hash }), nil, match, evaluate.RuleBatch},
		{"a receipt for another life of the journal", receipt(func(h *envelope.Header, r *translog.Receipt) { r.JournalEpoch++ }), nil, match, evaluate.RuleBatch},
		{"a receipt for fewer revisions", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Through-- }), nil, match, evaluate.RuleBatch},
		{"a receipt that begins later", receipt(func(h *envelope.Header, r *translog.Receipt) { r.From++ }), nil, match, evaluate.RuleBatch},
		{"a receipt out of its place in the log", receipt(func(h *envelope.Header, r *translog.Receipt) { h.Sequence++ }), nil, match, evaluate.RuleSequence},
		{"a receipt of an epoch that nobody was told of", receipt(func(h *envelope.Header, r *translog.Receipt) { h.Epoch++ }), nil, evaluate.Signatures, evaluate.RuleSignature},
		{"a receipt that lists an entry less", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Entries = r.Entries[:3] }), nil, match, evaluate.RuleEntries},
		{"a receipt that lists another entry", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Entries[2].ObjectID = hash }), nil, match, evaluate.RuleEntries},
		{"a receipt that lists a larger set", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Entries[0].Count++ }), nil, match, evaluate.RuleEntries},
		{"a receipt that lists another decision", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Entries[0].Decision = translog.Update }), nil, match, evaluate.RuleEntries},
		{"a receipt that lists other indexes", receipt(func(h *envelope.Header, r *translog.Receipt) {
			for i := range r.Entries {
				r.Entries[i].Index--
			}
		}), nil, match, evaluate.RuleSequence},

		{"an entry about another relationship", entry(1, func(h *envelope.Header, e *translog.Entry) { h.Subject = "urn:uzpif-oi:rel:other" }), nil, match, evaluate.RuleParties},
		{"an entry for another grant", entry(0, func(h *envelope.Header, e *translog.Entry) { e.GrantID = hash }), nil, match, evaluate.RuleGrant},
		{"an entry that prolongs the grant", entry(3, func(h *envelope.Header, e *translog.Entry) {
			e.GrantExpiresAt = envelope.At(e.GrantExpiresAt.Add(time.Hour))
		}), nil, match, evaluate.RuleGrant},
		{"an entry for one purpose more", entry(0, func(h *envelope.Header, e *translog.Entry) { e.Purposes = append(e.Purposes, "ai.train") }), nil, match, evaluate.RulePurposes},
		{"an entry for another batch", entry(2, func(h *envelope.Header, e *translog.Entry) { e.BatchID = hash }), nil, match, evaluate.RuleBatch},
		{"an entry for more revisions", entry(2, func(h *envelope.Header, e *translog.Entry) { e.Through++ }), nil, match, evaluate.RuleBatch},
		{"an entry of another log", entry(0, func(h *envelope.Header, e *translog.Entry) { e.LogOrigin = "log.search.example/2" }), nil, match, evaluate.RuleSequence},
		{"an entry with another state", entry(3, func(h *envelope.Header, e *translog.Entry) { e.State = hash }), nil, match, evaluate.RuleState},
		{"an entry of an epoch that nobody was told of", entry(3, func(h *envelope.Header, e *translog.Entry) { h.Epoch++ }), nil, evaluate.Signatures, evaluate.RuleSignature},
	}
}

func otherSets() []dishonest {
	decided := func(change func([]evaluate.Decided) []evaluate.Decided) stage.Lie { return stage.Lie{Decided: change} }
	match, sets := evaluate.Match, evaluate.RuleSets
	return []dishonest{
		{"an entry over another set", entry(0, func(h *envelope.Header, e *translog.Entry) { e.Objects.Root = envelope.Hash{9} }), nil, match, sets},
		{"an entry over a page more", entry(0, func(h *envelope.Header, e *translog.Entry) { e.Objects.Count++ }), nil, match, sets},
		{"a page that is in no set", decided(func(d []evaluate.Decided) []evaluate.Decided { return d[1:] }), nil, match, sets},
		{"a page that was not offered", decided(func(d []evaluate.Decided) []evaluate.Decided {
			return append(d, evaluate.Decided{LeafHash: [32]byte{1}, Decision: translog.Include})
		}), nil, match, sets},
		{"a page that is in two sets", decided(func(d []evaluate.Decided) []evaluate.Decided {
			return append(d, evaluate.Decided{LeafHash: d[0].LeafHash, Decision: translog.Exclude})
		}), nil, match, sets},
		{"two pages in each other's sets", decided(func(d []evaluate.Decided) []evaluate.Decided {
			d[0].Decision, d[1].Decision = d[1].Decision, d[0].Decision
			return d
		}), nil, match, sets},
		{"pages in another order", decided(func(d []evaluate.Decided) []evaluate.Decided {
			d[0], d[3] = d[3], d[0]
			return d
		}), nil, match, sets},
		{"one decision not logged", decided(func(d []evaluate.Decided) []evaluate.Decided {
			return slices.DeleteFunc(d, func(x evaluate.Decided) bool { return x.Decision == translog.Exclude })
		}), nil, match, sets},
		{"nothing decided at all", decided(func([]evaluate.Decided) []evaluate.Decided { return nil }), nil, match, sets},
		{"a page that was put and is said to be deleted", stage.Lie{}, func(e *evaluate.Expected) { e.Sets[0].Decision = translog.DeleteAck }, match, sets},
		{"a deletion that is said to be included", stage.Lie{}, func(e *evaluate.Expected) { e.Sets[2].Decision = translog.Include }, match, sets},
		{"a decision that there is not", stage.Lie{}, func(e *evaluate.Expected) { e.Sets[0].Decision = "kept" }, match, sets},
		{"an entry that only claims to be reconciled", entry(1, func(h *envelope.Header, e *translog.Entry) { e.Status = translog.Reconciled }), nil, match, sets},
		{"entries with a gap between them", entry(3, func(h *envelope.Header, e *translog.Entry) { h.Sequence++ }), nil, evaluate.Signatures, evaluate.RuleSignature},
		{"a receipt that lists nothing", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Entries = nil }), nil, evaluate.Signatures, evaluate.RuleSignature},
	}
}

func otherTimes() []dishonest {
	match, late := evaluate.Match, evaluate.RuleTime
	shift := func(d time.Duration) stage.Lie {
		return stage.Lie{
			Entry:      func(_ int, h *envelope.Header, _ *translog.Entry) { h.IssuedAt = h.IssuedAt.Add(d) },
			Checkpoint: func(h *envelope.Header, _ *translog.Checkpoint) { h.IssuedAt = h.IssuedAt.Add(d) },
			Receipt:    func(h *envelope.Header, _ *translog.Receipt) { h.IssuedAt = h.IssuedAt.Add(d) },
		}
	}
	return []dishonest{
		{"everything backdated", shift(-121 * time.Second), nil, match, late},
		{"everything backdated, in a later session", shift(-121 * time.Second), func(e *evaluate.Expected) { e.Sent = time.Time{} }, match, late},
		{"everything postdated", shift(123 * time.Second), nil, match, late},
		{"a receipt backdated alone", receipt(func(h *envelope.Header, r *translog.Receipt) { h.IssuedAt = h.IssuedAt.Add(-time.Hour) }), nil, match, late},
		{"a receipt older than its entries", receipt(func(h *envelope.Header, r *translog.Receipt) { h.IssuedAt = h.IssuedAt.Add(-time.Second) }), nil, match, late},
		{"an entry younger than its checkpoint", entry(0, func(h *envelope.Header, e *translog.Entry) { h.IssuedAt = h.IssuedAt.Add(time.Second) }), nil, match, late},
		{"an answer kept back for two minutes", stage.Lie{}, func(e *evaluate.Expected) { e.Now = e.Now.Add(2 * time.Minute) }, match, late},
		{"an answer in the second in which the grant ends", stage.Lie{}, func(e *evaluate.Expected) { e.Now = e.GrantExpiresAt }, match, late},
		{"an entry signed when the grant had ended", shift(30 * 24 * time.Hour), nil, match, evaluate.RuleGrant},
	}
}

func otherTrees() []dishonest {
	proof := evaluate.Proof
	checkpoint := func(change func(h *envelope.Header, c *translog.Checkpoint)) stage.Lie {
		return stage.Lie{Checkpoint: change}
	}
	drop := func(l stage.Tree) stage.Tree { return slices.Delete(l, 2, 3) }
	fork := func(l stage.Tree) stage.Tree { l[2] = [32]byte{1}; return l }
	return []dishonest{
		{"another checkpoint than the receipt names", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Checkpoint.ObjectID = envelope.Hash{9} }), nil, evaluate.Match, evaluate.RuleCheckpoint},
		{"a receipt under another root", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Checkpoint.Root = envelope.Hash{9} }), nil, evaluate.Match, evaluate.RuleCheckpoint},
		{"a receipt under another size", receipt(func(h *envelope.Header, r *translog.Receipt) { r.Checkpoint.Size++ }), nil, evaluate.Match, evaluate.RuleCheckpoint},
		{"a checkpoint of another log", checkpoint(func(h *envelope.Header, c *translog.Checkpoint) { c.LogOrigin = "log.search.example/2" }), nil, evaluate.Match, evaluate.RuleSequence},
		{"a checkpoint whose sequence is not its size", checkpoint(func(h *envelope.Header, c *translog.Checkpoint) { h.Sequence-- }), nil, evaluate.Match, evaluate.RuleSequence},
		{"a checkpoint about someone else", checkpoint(func(h *envelope.Header, c *translog.Checkpoint) { h.Subject = "spiffe://example.com/publisher" }), nil, evaluate.Match, evaluate.RuleParties},
		{"a note of another size", stage.Lie{Note: func(n *translog.Tree) { n.Size++ }}, nil, proof, evaluate.RuleCheckpoint},
		{"a note of another root", stage.Lie{Note: func(n *translog.Tree) { n.Root[0]++ }}, nil, proof, evaluate.RuleCheckpoint},
		{"checkpoint and note of a root that no tree has", stage.Lie{
			Note:       func(n *translog.Tree) { n.Root = [32]byte{9} },
			Checkpoint: func(_ *envelope.Header, c *translog.Checkpoint) { c.Root = envelope.Hash{9} },
		}, nil, proof, evaluate.RuleInclusion},
		{"a proof of another size", answer(func(a *evaluate.Answer) { a.Inclusion[0] = a.Inclusion[0][:len(a.Inclusion[0])-1] }), nil, proof, evaluate.RuleInclusion},
		{"a proof with a hash too many", answer(func(a *evaluate.Answer) { a.Inclusion[0] = append(a.Inclusion[0], [32]byte{}) }), nil, proof, evaluate.RuleInclusion},
		{"the proofs of each other's entries", answer(func(a *evaluate.Answer) { a.Inclusion[0], a.Inclusion[1] = a.Inclusion[1], a.Inclusion[0] }), nil, proof, evaluate.RuleInclusion},
		{"entries at other places in the log than they say", stage.Lie{Log: func(l stage.Tree) stage.Tree { return append(l, [32]byte{1}) },
			Entry: func(_ int, h *envelope.Header, _ *translog.Entry) { h.Sequence-- }}, nil, proof, evaluate.RuleInclusion},
		{"a log that forked", stage.Lie{Log: fork}, nil, proof, evaluate.RuleConsistency},
		{"a log that lost an entry", stage.Lie{Log: drop}, nil, proof, evaluate.RuleConsistency},
		{"a log that was rolled back", stage.Lie{Log: func(l stage.Tree) stage.Tree { return l[:3] }},
			func(e *evaluate.Expected) { e.Seen.Size = 9 }, proof, evaluate.RuleConsistency},
		{"no proof of consistency", answer(func(a *evaluate.Answer) { a.Consistency = nil }), nil, proof, evaluate.RuleConsistency},
		{"a proof from a tree that was never seen", stage.Lie{}, func(e *evaluate.Expected) { e.Seen = translog.Tree{} }, proof, evaluate.RuleConsistency},
		{"a tree seen in another log", stage.Lie{}, func(e *evaluate.Expected) { e.Seen.Origin = "log.search.example/2" }, proof, evaluate.RuleConsistency},
	}
}

func TestAnIncompleteExpectationIsNoFailureOfTheIndexer(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	a := s.Answer(t, b, seen, stage.Lie{})
	for _, tt := range []struct {
		name   string
		change func(*evaluate.Expected)
	}{
		{"no keys", func(e *evaluate.Expected) { e.Keys = nil }},
		{"no key of the log", func(e *evaluate.Expected) { e.LogVKey = "" }},
		{"no batch", func(e *evaluate.Expected) { e.BatchID = envelope.Hash{} }},
		{"no time", func(e *evaluate.Expected) { e.Now = time.Time{} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := s.Expect(b, seen)
			tt.change(&e)
			_, err := evaluate.Batch(a, e)
			var f *evaluate.Failure
			if err == nil || errors.As(err, &f) {
				t.Errorf("Batch = %v, want an error that is no Failure", err)
			}
		})
	}
}

func TestGrowKeepsTheLargerTree(t *testing.T) {
	s := stage.New(t, 1)
	vkey, origin := s.Indexer.Card.Log.VKey, s.Origin()
	for _, tt := range []struct {
		name       string
		seen, note uint64
	}{
		{"nothing was seen before", 0, 7},
		{"the log has grown", 4, 11},
		{"the log stands still", 7, 7},
		{"an older note is shown", 11, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before translog.Tree
			if tt.seen > 0 {
				before = s.Tree(tt.seen)
			}
			small, large := min(tt.seen, tt.note), max(tt.seen, tt.note)
			got, err := evaluate.Grow(before, s.Note(t, tt.note), vkey, origin, s.Log.Consistency(small, large))
			if err != nil || got != s.Tree(large) {
				t.Errorf("Grow = %v, %v, want size %d", got, err, large)
			}
		})
	}
}
