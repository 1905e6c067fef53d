package evaluate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// A Prover gives the consistency proof between two sizes of the log. What it
// answers is verified, not believed.
type Prover interface {
	Consistency(ctx context.Context, from, to uint64) ([][32]byte, error)
}

// Options is what the one who verifies brings along.
type Options struct {
	// Cards were obtained independently of the file, and are trusted. The
	// indexer's must be among them; without the publisher's, the one in the
	// file is used, and the report says so.
	Cards []*identity.Card
	// Now is the verifier's clock. It refuses what was signed in the future,
	// and tells whether the grant is still in force; a grant that has expired
	// since does not change the verdict.
	Now time.Time
	// Checkpoints are notes of the log that were obtained independently.
	Checkpoints [][]byte
	// Prover links notes of different sizes. Nil: only equal sizes compare.
	Prover Prover
	// Witnesses says whose cosignatures make a note of the log an independent
	// one; nil: nobody's. A policy that asks for none proves nothing.
	Witnesses *witness.Policy
}

// verification is one run of Verify; what a check opens stays for the next.
type verification struct {
	o   Options
	raw []byte
	rep *Report
	ev  *Evidence

	trusted            ring // the cards given
	cards              ring // those in the file
	indexerKeys        ring
	publisherKeys      ring
	publisherFromFile  bool
	indexer, publisher envelope.Name

	records
	entry           signed[translog.Entry] // records.entries[0]
	manifest        signed[translog.Manifest]
	acknowledgement signed[translog.Acknowledgement]
	pair            grants.Pair
	revocation      *grants.Revocation // nil where there is none
	log             *identity.Log      // of the trusted card, or of one that it replaced; nil if they name other logs
	note            translog.Tree
}

// check is one statement, and what shows it. run returns what it found where
// that says more than the statement.
type check struct {
	step Step
	rule Rule
	text string
	run  func() (detail string, err error)
}

// errMissing marks what is neither right nor wrong, since something that it
// needs was not given.
var errMissing = errors.New("missing")

func missing(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMissing, fmt.Sprintf(format, args...))
}

// Verify evaluates an evidence file in the three steps of UZPIF-OI 9.1.4, and
// says in words what was checked, what is missing or first found wrong, and
// what the file does not show. Grant, policy and keys are judged as of the
// time at which the indexer issued the entry.
//
// The network is reached through o.Prover alone, and only for a file that is
// included already.
func Verify(ctx context.Context, raw []byte, o Options) *Report {
	v := &verification{o: o, raw: raw, rep: &Report{Verdict: Invalid, Reasons: []string{}}}
	if v.take(v.fileChecks()) && v.take(v.signatureChecks()) && v.take(v.matchChecks()) {
		v.rep.Verdict = Signed
		v.prove(ctx)
	}
	if v.rep.Verdict != Invalid {
		v.rep.Facts = v.facts()
		v.remarkLost()
		if v.publisherFromFile {
			v.remark("The keys of the publisher, %s, were taken from the card in the file, since no card of it was given; its fingerprint is %s.",
				v.publisher, v.publisherKeys[0].Fingerprint())
		}
		if v.ev.Claim == ClaimRevoked {
			v.rep.limits(v.publisherFromFile)
			return v.rep
		}
		switch c := v.pair.Grant.Body.Scope; c.Type {
		case grants.Collection:
			v.remark("The grant is for the collection %q; that the page belongs to it is the publisher's word.", c.ID)
		case grants.InFeed:
			v.remark("The grant is for what a signed feed lists; the file does not show that it listed the page.")
		case grants.HashSet:
			v.remark("The grant is for content by its digest; the file does not show that the page's was among them.")
		}
	}
	v.rep.limits(v.publisherFromFile && v.rep.Verdict != Invalid)
	return v.rep
}

func (v *verification) remark(format string, args ...any) {
	v.rep.Reasons = append(v.rep.Reasons, fmt.Sprintf(format, args...))
}

// take makes the checks in order, up to the first that does not pass.
func (v *verification) take(checks []check) bool {
	for _, c := range checks {
		if !v.one(c) {
			return false
		}
	}
	return true
}

// one makes a check and enters it into the report.
func (v *verification) one(c check) bool {
	detail, err := c.run()
	done := Check{Step: c.step, Rule: c.rule, Text: c.text, Outcome: Passed, Detail: detail}
	var f *Failure
	switch {
	case errors.Is(err, errMissing):
		done.Outcome, done.Detail = Missing, plain(err)
	case errors.As(err, &f):
		done.Outcome, done.Rule, done.Detail = Failed, f.Rule, f.Detail
	case err != nil:
		done.Outcome, done.Detail = Failed, err.Error()
	}
	v.rep.Checks = append(v.rep.Checks, done)
	if err != nil {
		word := "Not so"
		if done.Outcome == Missing {
			word = "Not shown"
		}
		v.remark("%s %s: %s.", done.Text, word, done.Detail)
	}
	return err == nil
}

// plain is the text of an error by missing.
func plain(err error) string { return err.Error()[len(errMissing.Error())+2:] }

// fileChecks read the file, and find out who is meant.
func (v *verification) fileChecks() []check {
	return []check{
		{Signatures, RuleForm, "The file is complete, and unchanged since it was made.", v.readFile},
		{Signatures, RuleSigner, "The indexer's card was given.", v.findIndexer},
		{Signatures, RuleSigner, "The identity cards in the file are genuine, and contradict none that was given.", v.readCards},
	}
}

func (v *verification) readFile() (string, error) {
	var err error
	if v.ev, err = Parse(v.raw); err != nil {
		return "", err
	}
	return v.ev.ID.String(), nil
}

// findIndexer takes the indexer's name from the entry, whose signature is
// checked next, and its keys from the cards given.
func (v *verification) findIndexer() (string, error) {
	var err error
	if v.trusted, err = newRing(v.o.Cards); err != nil {
		return "", err
	}
	entry, err := envelope.Parse(v.ev.Entry)
	if err != nil {
		return "", fail(Signatures, RuleForm, "log entry: %w", err)
	}
	v.indexer = entry.Signer
	v.indexerKeys = v.trusted.of(v.indexer, identity.Indexer)
	if len(v.indexerKeys) == 0 {
		return "", fail(Signatures, RuleSigner, "the entry says that it is by %s, and no card of an indexer of that name was given", v.indexer)
	}
	return string(v.indexer), nil
}

// readCards opens the cards in the file. They add no trust in the indexer, and
// in the publisher only where no card of it was given.
func (v *verification) readCards() (string, error) {
	grant, err := grants.ReadGrant(v.ev.Grant)
	if err != nil {
		return "", fail(Signatures, RuleForm, "grant: %w", err)
	}
	v.publisher = grant.Body.Issuer
	if v.publisher == v.indexer {
		return "", fail(Match, RuleParties, "the grant is by the indexer itself")
	}
	all := v.trusted
	for i, raw := range v.ev.Cards {
		c, err := identity.AuthenticateCard(raw)
		switch {
		case err != nil:
			return "", fail(Signatures, RuleSignature, "card %d: %w", i+1, err)
		case c.Identity != v.publisher && c.Identity != v.indexer:
			return "", fail(Match, RuleParties, "card %d is of %s, who is no party", i+1, c.Identity)
		case all.contradicts(c):
			return "", fail(Signatures, RuleSigner, "card %d of %s is not the one that was given for the same epoch and sequence", i+1, c.Identity)
		}
		all, v.cards = append(all, c), append(v.cards, c)
	}
	if all, err = newRing(all); err != nil {
		return "", fail(Signatures, RuleSigner, "%w", err)
	}
	if v.publisherKeys = v.trusted.of(v.publisher, identity.Publisher); len(v.publisherKeys) > 0 {
		return "", nil
	}
	v.publisherFromFile = true
	if v.publisherKeys = all.of(v.publisher, identity.Publisher); len(v.publisherKeys) == 0 {
		return "", fail(Signatures, RuleSigner, "there is no card of %s, the publisher", v.publisher)
	}
	return "the publisher's is taken from the file", nil
}

// facts is what an honest reader may take from a file that is not invalid.
func (v *verification) facts() *Facts {
	e := &v.entry.body
	f := &Facts{
		Claim: v.ev.Claim, URL: v.ev.URL, Digest: v.ev.Digest,
		Publisher: v.publisher, Indexer: v.indexer, Purposes: e.Purposes,
		SignedAt: envelope.At(v.entry.IssuedAt), GrantID: e.GrantID, GrantExpiresAt: e.GrantExpiresAt,
		GrantExpiredNow: !v.o.Now.Before(v.pair.ExpiresAt()), Status: e.Status,
		LogOrigin: e.LogOrigin, EntryIndex: v.entry.Sequence, EntryPages: e.Objects.Count,
		TreeSize: v.checkpoint.body.TreeSize,
	}
	if v.revocation != nil {
		f.RevokedAt = envelope.At(v.revocation.Object.IssuedAt)
	}
	return f
}
