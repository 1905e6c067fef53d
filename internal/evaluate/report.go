package evaluate

import (
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Verdict is how far a file carries. Only Proven may be called verified
// evidence of append-only consistency (UZPIF-OI 9.1.4).
type Verdict string

// The verdicts, from least to most.
const (
	Invalid  Verdict = "invalid"  // not to be treated as evidence at all
	Signed   Verdict = "signed"   // true signatures that match one another
	Included Verdict = "included" // and under a checkpoint that the log signed
	Proven   Verdict = "proven"   // and that checkpoint agrees with one got independently
)

// Verdicts lists the verdicts from least to most.
func Verdicts() []Verdict { return []Verdict{Invalid, Signed, Included, Proven} }

// Reaches reports whether v is at least w. An unknown verdict reaches nothing
// and is reached by nothing.
func (v Verdict) Reaches(w Verdict) bool {
	i, j := slices.Index(Verdicts(), v), slices.Index(Verdicts(), w)
	return i >= 0 && j >= 0 && i >= j
}

// An Outcome is how one check ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "ok"
	Failed  Outcome = "failed"  // what was signed or shown contradicts it
	Missing Outcome = "missing" // what it needs is not there
)

// A Check is one thing that was looked at, as a sentence for people.
type Check struct {
	Step    Step    `json:"step"` // of UZPIF-OI 9.1.4
	Rule    Rule    `json:"rule"`
	Text    string  `json:"text"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"` // what was found, where that says more
}

// A Report is the result of Verify, for people and for scripts.
type Report struct {
	Verdict Verdict  `json:"verdict"`
	Reasons []string `json:"reasons"` // what keeps the verdict from being higher, and what it rests on
	Checks  []Check  `json:"checks"`  // in the order in which they were made; the first that failed is the last
	Facts   *Facts   `json:"facts,omitempty"`
	// NotProven says what the file does not show, whatever the verdict.
	NotProven []string `json:"does_not_prove"`

	// Note is the file's own checkpoint note; zero below Included.
	Note translog.Tree `json:"-"`
	// VKey verified it, by the card that was given.
	VKey string `json:"-"`
}

// Facts is what the file shows. It is absent when the file is invalid.
type Facts struct {
	Claim           Claim           `json:"claim"`
	URL             string          `json:"url,omitzero"` // absent from what is about no page
	Digest          envelope.Hash   `json:"digest,omitzero"`
	Publisher       envelope.Name   `json:"publisher"`
	Indexer         envelope.Name   `json:"indexer"`
	Purposes        []string        `json:"purposes"`
	SignedAt        envelope.Time   `json:"signed_at"`           // the entry's issued_at
	RevokedAt       envelope.Time   `json:"revoked_at,omitzero"` // the revocation's issued_at, where there is one
	GrantID         envelope.Hash   `json:"grant_id"`
	GrantExpiresAt  envelope.Time   `json:"grant_expires_at"`
	GrantExpiredNow bool            `json:"grant_expired_now"` // judged by the verifier's clock; the verdict does not depend on it
	Status          translog.Status `json:"status"`
	LogOrigin       string          `json:"log_origin"`
	EntryIndex      uint64          `json:"entry_index"`
	EntryPages      uint64          `json:"entry_pages"` // pages that the entry decided upon together
	TreeSize        uint64          `json:"tree_size"`   // of the checkpoint that it is under
}

// limits adds the sentences that stand beside every verdict.
func (r *Report) limits(publisherFromFile bool) {
	claim := Claim("")
	if r.Facts != nil {
		claim = r.Facts.Claim
	}
	say := func(s string) { r.NotProven = append(r.NotProven, s) }
	switch claim {
	case ClaimAccepted, ClaimUpdated:
		say("That the indexer stored, showed or used the page, or used it for the named purposes only: a receipt proves that the indexer acknowledged it, not what it did with it.")
		say("That the page is still held: a later deletion, revocation or expiry would not change this file.")
	case ClaimDeleted:
		say("That every copy is gone: it proves that the indexer signed the deletion, not what its disks hold.")
		say("That the page was not accepted again later: that takes a scan of the log, for a whole grant, or the key of the series, for one page.")
	case ClaimRevoked:
		say("That the indexer stopped: it proves that the indexer signed that it did, not what it shows or does since.")
		say("That pages were deleted: a deletion has an entry of its own, and evidence for each page.")
		say("That nothing was taken in under the grant later: that takes a scan of the log (auditor status).")
	case ClaimExcluded:
		say("That the refusal was justified: the log records that the indexer refused the page, not whether it should have.")
	}
	say("Fairness, neutral ranking or justified decisions: no log proves these (UZPIF-OI 9.1.4).")
	say("The exact time: the times are those that the parties stated and signed.")
	if publisherFromFile {
		say("Who the publisher is: its keys come from the card in this file, and not from one that was obtained independently.")
	}
	if r.Verdict != Proven {
		say("That the indexer shows everyone the same log: nothing below “proven” is verified evidence of append-only consistency (UZPIF-OI 9.1.4).")
	}
}
