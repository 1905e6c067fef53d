package evaluate

import "fmt"

// A Step is one of the three of UZPIF-OI 9.1.4. A later one is only taken when
// the earlier ones have passed.
type Step int

// The steps, by the numbers that the text gives them.
const (
	Signatures Step = 1
	Match      Step = 2
	Proof      Step = 3
)

func (s Step) String() string {
	switch s {
	case Signatures:
		return "signature check"
	case Match:
		return "object match and freshness check"
	case Proof:
		return "proof check"
	}
	return fmt.Sprintf("step %d", int(s))
}

// A Rule names what a check asks for. Rules are stable: scripts and alarms may
// branch on them.
type Rule string

// The rules, in the order in which they are mostly checked.
const (
	RuleForm        Rule = "form"        // sizes, counts and the form of what was answered
	RuleSignature   Rule = "signature"   // a true signature by a trusted key of the signer
	RuleSigner      Rule = "signer"      // the signer is the party that was expected
	RuleNote        Rule = "note"        // the checkpoint note is signed by the log's key
	RuleParties     Rule = "parties"     // indexer, publisher, subject and audience
	RuleGrant       Rule = "grant"       // the grant, and its expiry
	RulePolicy      Rule = "policy"      // the policy
	RuleScope       Rule = "scope"       // the scope, and the page's place inside it
	RulePurposes    Rule = "purposes"    // the purposes
	RuleBatch       Rule = "batch"       // batch, collection, journal epoch, revisions
	RuleEntries     Rule = "entries"     // the receipt lists exactly these entries
	RuleSets        Rule = "sets"        // the decision sets are what was offered, and no more
	RuleLeaf        Rule = "leaf"        // the page is in the entry's decision set
	RuleState       Rule = "state"       // the commitment to the state after the batch
	RuleTime        Rule = "time"        // when it was signed
	RuleSequence    Rule = "sequence"    // log, epoch, sequence and indexes
	RuleCheckpoint  Rule = "checkpoint"  // receipt, checkpoint and note speak of one tree
	RuleInclusion   Rule = "inclusion"   // the entry is under the checkpoint
	RuleConsistency Rule = "consistency" // one tree extends the other
	RuleWitness     Rule = "witness"     // enough witnesses have cosigned the note
	RuleRevocation  Rule = "revocation"  // revocation and acknowledgement
)

// A Failure is one rule that did not hold. Detail says what was found, in
// words; it may quote what the other side sent, bounded and escaped.
type Failure struct {
	Step   Step
	Rule   Rule
	Detail string
	cause  error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s: %s", f.Step, f.Rule, f.Detail)
}

// Unwrap is the error of the check beneath, where there was one.
func (f *Failure) Unwrap() error { return f.cause }

// because gives a Failure its cause where the words of the cause would only
// repeat it, in octets.
func because(cause, failure error) error {
	if f, ok := failure.(*Failure); ok {
		f.cause = cause
	}
	return failure
}

func fail(step Step, rule Rule, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	f := &Failure{Step: step, Rule: rule, Detail: err.Error()}
	if u, ok := err.(interface{ Unwrap() error }); ok {
		f.cause = u.Unwrap()
	}
	return f
}
