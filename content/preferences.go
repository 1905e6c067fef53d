package content

import (
	"cmp"
	"fmt"
	"slices"
)

// An Answer is what a source says about one use of its content.
type Answer uint8

// The answers. Unknown is no permission: what a source does not speak of, it
// does not allow.
const (
	Unknown Answer = iota
	Yes
	No
)

// String returns "unknown", "yes" or "no".
func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "unknown"
}

// The purposes that sources speak of, spelt as grants spell them. Each
// vocabulary has words of its own for them.
const (
	PurposeAIEmbed       = "ai.embed"
	PurposeAIFinetune    = "ai.finetune"
	PurposeAISummarise   = "ai.summarise"
	PurposeAITrain       = "ai.train"
	PurposeArchive       = "archive"
	PurposeRAGRetrieve   = "rag.retrieve"
	PurposeSearchIndex   = "search.index"
	PurposeSearchSnippet = "search.snippet"
)

// A Preference is one statement of a source.
type Preference struct {
	Purpose string
	Answer  Answer // Yes or No
	// Origin says where it stands and in what words, for the operator.
	Origin string
}

// Preferences are what a source states about the use of its content, gathered
// from all the places where it does. They narrow what a grant over the source
// allows, and never widen it. The zero value states nothing.
//
// Statements that contradict one another are no permission: TestDenyWins.
type Preferences struct {
	stated    []Preference // by purpose, then answer; one of each
	keeping   *Keeping     // nil: not limited
	approvals []Approval   // by origin; one of each
}

// State adds a statement. Of several that say the same, the first stays.
func (p *Preferences) State(purpose string, a Answer, origin string) {
	if a == Unknown {
		return
	}
	at, found := slices.BinarySearchFunc(p.stated, Preference{Purpose: purpose, Answer: a}, comparePreferences)
	if !found {
		p.stated = slices.Insert(slices.Clone(p.stated), at, Preference{purpose, a, origin})
	}
}

func comparePreferences(a, b Preference) int {
	return cmp.Or(cmp.Compare(a.Purpose, b.Purpose), cmp.Compare(a.Answer, b.Answer))
}

// Join adds all that q states.
func (p *Preferences) Join(q Preferences) {
	for _, s := range q.stated {
		p.State(s.Purpose, s.Answer, s.Origin)
	}
	if q.keeping != nil {
		p.KeepAtMost(*q.keeping)
	}
	for _, a := range q.approvals {
		p.ApproveOnly(a)
	}
}

// About returns what is stated about a purpose: No if anything says so, else
// Yes if anything does, with the statement that decides.
func (p Preferences) About(purpose string) (Answer, Preference) {
	var decides Preference
	for _, s := range p.stated {
		if s.Purpose == purpose && s.Answer > decides.Answer {
			decides = s
		}
	}
	return decides.Answer, decides
}

// Allows reports whether a purpose is expressly allowed, and nowhere denied.
func (p Preferences) Allows(purpose string) bool {
	a, _ := p.About(purpose)
	return a == Yes
}

// Denied returns the purposes that are denied, ascending, each by the
// statement that denies it.
func (p Preferences) Denied() []Preference {
	var denied []Preference
	for _, s := range p.stated {
		if s.Answer == No {
			denied = append(denied, s)
		}
	}
	return denied
}

// Stated returns all statements, by purpose.
func (p Preferences) Stated() []Preference { return slices.Clone(p.stated) }

// String says a statement in words.
func (s Preference) String() string { return fmt.Sprintf("%s: %s (%s)", s.Purpose, s.Answer, s.Origin) }
