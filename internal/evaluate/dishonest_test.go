package evaluate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// forgery is a file put together, and named, by someone who lies.
type forgery struct {
	name   string
	change func(*evaluate.Evidence)
	step   evaluate.Step
	rule   evaluate.Rule
}

func TestForgedFilesAreInvalid(t *testing.T) {
	s := newScene(t, stage.New(t, 1))
	other := newScene(t, s.Copy()) // a later batch of the same parties
	s.Log = slices.Clone(other.Log)
	stranger := newScene(t, stage.New(t, 2))
	for _, tt := range slices.Concat(forgedSignatures(t, stranger), forgedMatches(t, s, other), forgedProofs(t, s, stranger)) {
		t.Run(tt.name, func(t *testing.T) {
			ev := s.evidence(t, 0)
			tt.change(ev)
			r := evaluate.Verify(t.Context(), seal(t, ev), s.options())
			c := r.Checks[len(r.Checks)-1]
			if r.Verdict != evaluate.Invalid || c.Outcome != evaluate.Failed || c.Step != tt.step || c.Rule != tt.rule {
				t.Errorf("%s by %s, want step %d, rule %s", r.Verdict, last(r), tt.step, tt.rule)
			}
			if !strings.Contains(strings.Join(r.Reasons, "\n"), c.Detail) {
				t.Errorf("reasons %q do not say %q", r.Reasons, c.Detail)
			}
		})
	}
}

func forgedSignatures(t *testing.T, stranger *scene) []forgery {
	foreign := stranger.evidence(t, 0)
	step, signature := evaluate.Signatures, evaluate.RuleSignature
	set := func(name string, change func(ev *evaluate.Evidence)) forgery {
		return forgery{name, change, step, signature}
	}
	return []forgery{
		set("an entry by another key", func(ev *evaluate.Evidence) { ev.Entry = foreign.Entry }),
		set("a checkpoint by another key", func(ev *evaluate.Evidence) { ev.Checkpoint = foreign.Checkpoint }),
		set("a receipt by another key", func(ev *evaluate.Evidence) { ev.Receipt = foreign.Receipt }),
		set("a grant by another key", func(ev *evaluate.Evidence) { ev.Grant = foreign.Grant }),
		set("a policy by another key", func(ev *evaluate.Evidence) { ev.Policy = foreign.Policy }),
		set("a manifest by another key", func(ev *evaluate.Evidence) { ev.Manifest = foreign.Manifest }),
		set("a receipt in place of the entry", func(ev *evaluate.Evidence) { ev.Entry = ev.Receipt }),
		set("a card with a changed signature", func(ev *evaluate.Evidence) {
			card := strings.Replace(string(ev.Cards[1]), `"sig":"`, `"sig":"A`, 1)
			i := strings.Index(card, `"sig":"`) + len(`"sig":"`) + 86
			ev.Cards[1] = jsontext.Value(card[:i-1] + "A" + card[i+1:])
		}),
		{"no card of the publisher", func(ev *evaluate.Evidence) { ev.Cards = ev.Cards[1:] }, step, evaluate.RuleSigner},
		{"the publisher's card of someone else", func(ev *evaluate.Evidence) { ev.Cards[0] = foreign.Cards[0] }, step, signature},
		{"another card of the indexer", func(ev *evaluate.Evidence) { ev.Cards[1] = foreign.Cards[1] }, step, evaluate.RuleSigner},
		{"a grant that is no grant", func(ev *evaluate.Evidence) { ev.Grant = ev.Policy }, step, evaluate.RuleForm},
		{"an entry that is no object", func(ev *evaluate.Evidence) { ev.Entry = jsontext.Value(`{}`) }, step, evaluate.RuleForm},
	}
}

func forgedMatches(t *testing.T, s, other *scene) []forgery {
	later := other.evidence(t, 0)
	updated := s.evidence(t, 1)
	renewed := s.Grant(t, 2, func(d *grants.Draft) {})
	match := evaluate.Match
	return []forgery{
		{"the renewed grant", func(ev *evaluate.Evidence) {
			ev.Grant, ev.Policy = renewed.Grant.Object.Raw, renewed.Policy.Object.Raw
		}, match, evaluate.RuleGrant},
		{"the policy of another grant", func(ev *evaluate.Evidence) { ev.Policy = renewed.Policy.Object.Raw }, match, evaluate.RulePolicy},
		{"the receipt of another batch", func(ev *evaluate.Evidence) { ev.Receipt = later.Receipt }, match, evaluate.RuleBatch},
		{"the manifest of another batch", func(ev *evaluate.Evidence) { ev.Manifest = later.Manifest }, match, evaluate.RuleBatch},
		{"the entry of another batch", func(ev *evaluate.Evidence) { ev.Entry = later.Entry }, match, evaluate.RuleLeaf},
		{"the checkpoint of another commit", func(ev *evaluate.Evidence) { ev.Checkpoint = later.Checkpoint }, match, evaluate.RuleCheckpoint},
		{"the entry of the same batch about other pages", func(ev *evaluate.Evidence) { ev.Entry = updated.Entry }, match, evaluate.RuleLeaf},
		{"no receipt for a batch", func(ev *evaluate.Evidence) { ev.Receipt, ev.Manifest = nil, nil }, match, evaluate.RuleBatch},
		{"an acknowledgement where nothing was revoked", func(ev *evaluate.Evidence) {
			gone := s.Copy().Deleted(t, s.batch, 0, nil)
			ev.Revocation, ev.Acknowledgement = gone.Revocation, gone.Acknowledgement
		}, match, evaluate.RuleRevocation},
		{"a name that cannot be opened", func(ev *evaluate.Evidence) { ev.R = evaluate.Salt{} }, match, evaluate.RuleParties},
		{"a salt of another relationship", func(ev *evaluate.Evidence) { ev.R[0]++ }, match, evaluate.RuleParties},
		{"another claim", func(ev *evaluate.Evidence) { ev.Claim = evaluate.ClaimUpdated }, match, evaluate.RuleLeaf},
		{"no claim", func(ev *evaluate.Evidence) { ev.Claim = "" }, match, evaluate.RuleLeaf},
		{"a URL outside the scope", func(ev *evaluate.Evidence) { ev.URL = "https://example.com/private" }, match, evaluate.RuleScope},
		{"another URL", func(ev *evaluate.Evidence) { ev.URL += "a" }, match, evaluate.RuleLeaf},
		{"another payload", func(ev *evaluate.Evidence) { ev.Digest[0]++ }, match, evaluate.RuleLeaf},
		{"another revision", func(ev *evaluate.Evidence) { ev.Leaf.Revision++ }, match, evaluate.RuleLeaf},
		{"the place of another page", func(ev *evaluate.Evidence) { ev.Set.Index++ }, match, evaluate.RuleLeaf},
		{"a path with a hash too many", func(ev *evaluate.Evidence) { ev.Set.Path = append(ev.Set.Path, envelope.Hash{1}) }, match, evaluate.RuleLeaf},
		{"a page put that is said to be taken away", func(ev *evaluate.Evidence) {
			ev.Leaf.Op, ev.Leaf.SaltContent, ev.Digest = translog.OpTombstone, evaluate.Salt{}, envelope.Hash{}
		}, match, evaluate.RuleLeaf},
	}
}

func forgedProofs(t *testing.T, s, stranger *scene) []forgery {
	proof := evaluate.Proof
	size := s.Size()
	return []forgery{
		{"an inclusion proof of another entry", func(ev *evaluate.Evidence) {
			ev.Inclusion.Hashes = translog.Hashes(s.Log.Inclusion(3, ev.Inclusion.Size))
		}, proof, evaluate.RuleInclusion},
		{"an inclusion proof at another index", func(ev *evaluate.Evidence) { ev.Inclusion.Index++ }, proof, evaluate.RuleInclusion},
		{"an inclusion proof of another size", func(ev *evaluate.Evidence) { ev.Inclusion.Size++ }, proof, evaluate.RuleInclusion},
		{"a note by another key", func(ev *evaluate.Evidence) { ev.Note = string(stranger.SignNote(t, s.Tree(size))) }, proof, evaluate.RuleNote},
		{"a note that is no note", func(ev *evaluate.Evidence) { ev.Note = "log.search.example/1\n" }, proof, evaluate.RuleNote},
		{"a note of another size than is proven", func(ev *evaluate.Evidence) { ev.Note = string(s.Note(t, size-1)) }, proof, evaluate.RuleConsistency},
		{"a note older than the checkpoint", func(ev *evaluate.Evidence) {
			ev.Note, ev.Consistency = string(s.Note(t, 3)), translog.ConsistencyProof{From: ev.Consistency.From, To: 3}
		}, proof, evaluate.RuleConsistency},
		{"no proof from the checkpoint to the note", func(ev *evaluate.Evidence) { ev.Consistency.Hashes = nil }, proof, evaluate.RuleConsistency},
		{"a note of a fork", func(ev *evaluate.Evidence) {
			fork := slices.Clone(s.Log)
			fork[1] = [32]byte{1}
			ev.Note = string(s.SignNote(t, fork.At(s.Origin(), size)))
		}, proof, evaluate.RuleConsistency},
	}
}

// What an indexer signs against its own agreement is no evidence either, even
// if nothing in the file was changed.
func TestFilesOfADishonestIndexerAreInvalid(t *testing.T) {
	base := stage.New(t, 1)
	year := 365 * 24 * time.Hour
	for _, tt := range []struct {
		name string
		lie  stage.Lie
		rule evaluate.Rule
	}{
		{"signed after the grant had ended", stage.Lie{
			Entry:      func(_ int, h *envelope.Header, _ *translog.Entry) { h.IssuedAt = h.IssuedAt.Add(year) },
			Checkpoint: func(h *envelope.Header, _ *translog.Checkpoint) { h.IssuedAt = h.IssuedAt.Add(year) },
			Receipt:    func(h *envelope.Header, _ *translog.Receipt) { h.IssuedAt = h.IssuedAt.Add(year) },
		}, evaluate.RuleGrant},
		{"signed before the batch was", stage.Lie{
			Entry: func(_ int, h *envelope.Header, _ *translog.Entry) { h.IssuedAt = h.IssuedAt.Add(-time.Hour) },
		}, evaluate.RuleTime},
		{"for one purpose more", entry(0, func(_ *envelope.Header, e *translog.Entry) { e.Purposes = append(e.Purposes, "ai.train") }), evaluate.RulePurposes},
		{"with a later end of the grant", entry(0, func(_ *envelope.Header, e *translog.Entry) {
			e.GrantExpiresAt = envelope.At(e.GrantExpiresAt.Add(time.Hour))
		}), evaluate.RuleGrant},
		{"for revisions that were not offered", entry(0, func(_ *envelope.Header, e *translog.Entry) { e.From += 4 }), evaluate.RuleBatch},
		{"for another life of the journal", entry(0, func(_ *envelope.Header, e *translog.Entry) { e.JournalEpoch++ }), evaluate.RuleBatch},
		{"about another relationship", entry(0, func(h *envelope.Header, _ *translog.Entry) { h.Subject = "urn:uzpif-oi:rel:other" }), evaluate.RuleParties},
		{"with a receipt for another policy", receipt(func(_ *envelope.Header, r *translog.Receipt) { r.PolicyHash[0]++ }), evaluate.RulePolicy},
		{"with a receipt about another relationship", receipt(func(h *envelope.Header, _ *translog.Receipt) { h.Subject = "urn:uzpif-oi:rel:other" }), evaluate.RuleParties},
		{"with a receipt that lists other places", receipt(func(_ *envelope.Header, r *translog.Receipt) {
			for i := range r.Entries {
				r.Entries[i].Index -= 5
			}
		}), evaluate.RuleEntries},
		{"with a receipt for someone else", receipt(func(h *envelope.Header, _ *translog.Receipt) { h.Audience = "spiffe://example.com/other" }), evaluate.RuleParties},
		{"with a receipt that lists another entry", receipt(func(_ *envelope.Header, r *translog.Receipt) { r.Entries[0].ObjectID[0]++ }), evaluate.RuleEntries},
		{"with a receipt of another place", receipt(func(h *envelope.Header, _ *translog.Receipt) { h.Sequence += 2 }), evaluate.RuleSequence},
		{"under a checkpoint of another log", stage.Lie{Checkpoint: func(_ *envelope.Header, c *translog.Checkpoint) { c.LogOrigin += "0" }}, evaluate.RuleSequence},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{Stage: base.Copy()}
			s.batch = s.Offer(t, stage.Pages()...)
			s.answer = s.Answer(t, s.batch, 5, tt.lie)
			o := s.options()
			o.Now = o.Now.Add(2 * year)
			r := evaluate.Verify(t.Context(), seal(t, s.evidence(t, 0)), o)
			if c := r.Checks[len(r.Checks)-1]; r.Verdict != evaluate.Invalid || c.Step != evaluate.Match || c.Rule != tt.rule {
				t.Errorf("%s by %s, want rule %s", r.Verdict, last(r), tt.rule)
			}
		})
	}
}

func TestForgedDeletionsAreInvalid(t *testing.T) {
	base := newScene(t, stage.New(t, 1))
	hash := envelope.Hash{9}
	revocation, match := evaluate.RuleRevocation, evaluate.Match
	for _, tt := range []struct {
		name   string
		ack    func(*translog.Acknowledgement)
		change func(*evaluate.Evidence)
		rule   evaluate.Rule
	}{
		{"an acknowledgement of another revocation", func(a *translog.Acknowledgement) { a.RevocationID = hash }, nil, revocation},
		{"an acknowledgement for another publisher", func(a *translog.Acknowledgement) { a.Publisher = "spiffe://example.com/other" }, nil, evaluate.RuleParties},
		{"an acknowledgement of more pages", func(a *translog.Acknowledgement) { a.Count++ }, nil, evaluate.RuleEntries},
		{"an acknowledgement of another entry", func(a *translog.Acknowledgement) { a.Entry.ObjectID = hash }, nil, evaluate.RuleEntries},
		{"an acknowledgement that only stops", func(a *translog.Acknowledgement) { a.AckType = translog.RevokeAck }, nil, evaluate.RuleEntries},
		{"an acknowledgement under another grant", func(a *translog.Acknowledgement) { a.GrantID = hash }, nil, evaluate.RuleGrant},
		{"an acknowledgement under another policy", func(a *translog.Acknowledgement) { a.PolicyHash = hash }, nil, evaluate.RuleGrant},
		{"an acknowledgement under another checkpoint", func(a *translog.Acknowledgement) { a.CheckpointRef = hash }, nil, evaluate.RuleCheckpoint},
		{"neither revocation nor acknowledgement", nil, func(ev *evaluate.Evidence) { ev.Revocation, ev.Acknowledgement = nil, nil }, revocation},
		{"another revocation", nil, func(ev *evaluate.Evidence) {
			later := base.Copy()
			later.Now = later.Now.Add(time.Second)
			ev.Revocation = later.Revoke(t).Object.Raw
		}, revocation},
		{"a receipt for what no batch deleted", nil, func(ev *evaluate.Evidence) {
			ev.Receipt, ev.Manifest = base.answer.Receipt, base.batch.Manifest.Raw
		}, evaluate.RuleBatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base.Copy()
			ev := s.Deleted(t, base.batch, 1, tt.ack)
			if tt.change != nil {
				tt.change(ev)
			}
			r := evaluate.Verify(t.Context(), seal(t, ev), base.options())
			if c := r.Checks[len(r.Checks)-1]; r.Verdict != evaluate.Invalid || c.Step != match || c.Rule != tt.rule {
				t.Errorf("%s by %s, want rule %s", r.Verdict, last(r), tt.rule)
			}
		})
	}
}
