package grants

import (
	"slices"
	"strings"
)

// A Purpose is a use that content may be put to (UZPIF-OI 3, 11). What is not
// named is not allowed.
type Purpose string

// The purposes that have a common meaning.
const (
	SearchIndex   Purpose = "search.index"
	SearchSnippet Purpose = "search.snippet"
	RAGRetrieve   Purpose = "rag.retrieve"
	AITrain       Purpose = "ai.train"
	AIFinetune    Purpose = "ai.finetune"
	AISummarise   Purpose = "ai.summarise"
	AIEmbed       Purpose = "ai.embed"
	Archive       Purpose = "archive"
)

// Bounds of purposes in a body.
const (
	MaxPurposes   = 32  // in one list
	maxPurposeLen = 128 // octets
)

// CommonPurposes are the purposes above, in the order of bodies.
func CommonPurposes() Purposes {
	return Purposes{AIEmbed, AIFinetune, AISummarise, AITrain, Archive, RAGRetrieve, SearchIndex, SearchSnippet}
}

// ParsePurpose accepts a common purpose, or a private one: "x.", a domain of
// two labels or more, and a name, as in "x.example.com.newsletter". Private
// purposes are compared octet for octet and imply nothing (UZPIF-OI 11). The
// error is ErrPurpose.
func ParsePurpose(s string) (Purpose, error) {
	if slices.Contains(CommonPurposes(), Purpose(s)) || isPrivatePurpose(s) {
		return Purpose(s), nil
	}
	return "", refuse(ErrPurpose, "%.80q is not known", s)
}

func isPrivatePurpose(s string) bool {
	rest, ok := strings.CutPrefix(s, "x.")
	if !ok || len(s) > maxPurposeLen || strings.Count(rest, ".") < 2 {
		return false
	}
	for label := range strings.SplitSeq(rest, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; !isLowerOrDigit(c) && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

func isLowerOrDigit(c byte) bool { return 'a' <= c && c <= 'z' || isDigit(c) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// Purposes is a set of purposes, ascending and without duplicates.
type Purposes []Purpose

// ParsePurposes makes the set of words, in any order. The error is ErrPurpose.
func ParsePurposes(words []string) (Purposes, error) {
	ps := make(Purposes, 0, len(words))
	for _, w := range words {
		p, err := ParsePurpose(w)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	slices.Sort(ps)
	ps = slices.Compact(ps)
	return ps, ps.Validate()
}

// Validate refuses, by ErrPurpose, an unknown purpose, and a list that is not
// strictly ascending or holds more than MaxPurposes.
func (ps Purposes) Validate() error {
	if len(ps) > MaxPurposes {
		return refuse(ErrPurpose, "%d purposes, at most %d", len(ps), MaxPurposes)
	}
	for i, p := range ps {
		if _, err := ParsePurpose(string(p)); err != nil {
			return err
		}
		if i > 0 && ps[i-1] >= p {
			return refuse(ErrPurpose, "%s stands out of order", p)
		}
	}
	return nil
}

// Has reports whether p itself is in the set: a purpose allowed allows no
// other.
func (ps Purposes) Has(p Purpose) bool { return slices.Contains(ps, p) }

// Deny reports whether the set, as a list of what is denied, denies p. Denying
// ai.train denies ai.finetune, which is training.
func (ps Purposes) Deny(p Purpose) bool {
	return ps.Has(p) || p == AIFinetune && ps.Has(AITrain)
}

// Strings is the set as log objects and receipts hold it.
func (ps Purposes) Strings() []string {
	s := make([]string, len(ps))
	for i, p := range ps {
		s[i] = string(p)
	}
	return s
}
