package content

import (
	"cmp"
	"fmt"
	"slices"
)

// A Keeping is for how many days content may be kept, by what a source says; 0
// is no longer than it takes to process it.
type Keeping struct {
	Days   uint64 `json:"days"`
	Origin string `json:"origin"` // as a Preference has it
}

// An Approval names the consumers that content is for, and nobody else: nobody
// at all, if there are none.
type Approval struct {
	Consumers []string `json:"consumers"`
	Origin    string   `json:"origin"` // as a Preference has it
}

// KeepAtMost adds for how long content may be kept. Of several, the shortest
// counts.
func (p *Preferences) KeepAtMost(k Keeping) {
	if p.keeping == nil || k.Days < p.keeping.Days {
		p.keeping = &k
	}
}

// ApproveOnly adds whom content is for. Who is to get it has to be named by each
// of several: TestLimitsOnlyNarrow. What is said twice stands once.
func (p *Preferences) ApproveOnly(a Approval) {
	at, found := slices.BinarySearchFunc(p.approvals, a, func(x, y Approval) int {
		return cmp.Or(cmp.Compare(x.Origin, y.Origin), slices.Compare(x.Consumers, y.Consumers))
	})
	if !found {
		p.approvals = slices.Insert(slices.Clone(p.approvals), at, a)
	}
}

// Keeping returns for how long content may be kept, and false if that is not
// stated.
func (p Preferences) Keeping() (Keeping, bool) {
	if p.keeping == nil {
		return Keeping{}, false
	}
	return *p.keeping, true
}

// Approvals returns all lists of approved consumers, by origin.
func (p Preferences) Approvals() []Approval { return slices.Clone(p.approvals) }

// Approves reports whether nothing names the consumers of the content without
// this one, and if something does, what.
func (p Preferences) Approves(consumer string) (Approval, bool) {
	for _, a := range p.approvals {
		if !slices.Contains(a.Consumers, consumer) {
			return a, false
		}
	}
	return Approval{}, true
}

// Lines says all that is stated in words.
func (p Preferences) Lines() []string {
	all := []string{}
	for _, s := range p.stated {
		all = append(all, s.String())
	}
	if k := p.keeping; k != nil {
		all = append(all, fmt.Sprintf("content may be kept for %d days at most (%s)", k.Days, k.Origin))
	}
	for _, a := range p.approvals {
		all = append(all, fmt.Sprintf("approved are these consumers alone: %.1000q (%s)", a.Consumers, a.Origin))
	}
	return all
}
