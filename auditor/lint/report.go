package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Violation is one thing that an honest log does not show. Index is that of an
// entry, or the size of a tree where the rule is about a checkpoint.
type Violation struct {
	Index  uint64 `json:"index"`
	Rule   Rule   `json:"rule"`
	Detail string `json:"detail"`
}

// String is the violation for people.
func (v Violation) String() string {
	return fmt.Sprintf("%d %s: %s", v.Index, v.Rule, strings.Join(strings.Fields(v.Detail), " "))
}

// A Report is what a lint found.
type Report struct {
	LogOrigin      string        `json:"log_origin"`
	TreeSize       uint64        `json:"tree_size"`
	Root           envelope.Hash `json:"root"`
	EntriesChecked uint64        `json:"entries_checked"` // with those of the runs that this one goes on from
	ResumedAt      uint64        `json:"resumed_at"`      // where this run began
	Checkpoints    uint64        `json:"checkpoints"`     // that this run looked at
	Grants         int           `json:"grants"`
	Collections    int           `json:"collections"`
	Violations     []Violation   `json:"violations"`
	Unlisted       uint64        `json:"unlisted,omitzero"` // violations beyond Options.Limit
	NotJudged      []string      `json:"not_judged"`        // what this log leaves open

	limit int
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Found is the number of violations.
func (r *Report) Found() uint64 { return uint64(len(r.Violations)) + r.Unlisted }

// add adds a violation, or counts it if there are too many. The entries behind
// the last full bundle are read again by the next run: what is known is not
// added twice.
func (r *Report) add(v Violation) {
	const most = 1000 // octets; a log may not fill memory by what is quoted of it
	v.Detail = strings.ToValidUTF8(v.Detail[:min(len(v.Detail), most)], "")
	switch {
	case slices.Contains(r.Violations, v):
	case len(r.Violations) >= r.limit:
		r.Unlisted++
	default:
		r.Violations = append(r.Violations, v)
	}
}

// sort brings the violations into the order of the log.
func (r *Report) sort() {
	slices.SortStableFunc(r.Violations, func(a, b Violation) int { return cmp.Compare(a.Index, b.Index) })
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintln(&b, v)
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(&b, "and %d more violations\n", r.Unlisted)
	}
	fmt.Fprintf(&b, "log %s, %d entries, root %s\n", r.LogOrigin, r.TreeSize, r.Root)
	fmt.Fprintf(&b, "checked: %d entries under %d grants in %d collections, %d checkpoints; %d violations\n",
		r.EntriesChecked, r.Grants, r.Collections, r.Checkpoints, r.Found())
	if r.ResumedAt > 0 {
		fmt.Fprintf(&b, "the first %d entries were checked by earlier runs\n", r.ResumedAt)
	}
	for _, s := range r.NotJudged {
		fmt.Fprintf(&b, "not judged: %s\n", s)
	}
	return b.String()
}
