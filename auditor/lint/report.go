package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
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
	CheckpointAt   envelope.Time `json:"checkpoint_at,omitzero"`
	Grants         int           `json:"grants"`
	Collections    int           `json:"collections"`
	Violations     []Violation   `json:"violations"`
	Unlisted       uint64        `json:"unlisted,omitzero"` // violations beyond Options.Limit
	NotJudged      []string      `json:"not_judged"`        // what this log leaves open

	limit   int
	checker *Checker
}

// A Standing is where a grant stands behind the last entry.
type Standing struct {
	Expires envelope.Time
	// Ended is the entry that says that the grant has expired, and Left the one
	// by which another grant took its collection over; nil where there is none.
	Ended, Left *uint64
	// Held is the most pages of the collection that can be held, if they are held
	// under this grant. Known says whether the log tells.
	Held  uint64
	Known bool
}

// Standing is where a grant stands; false if no entry names it.
func (r *Report) Standing(grant envelope.Hash) (Standing, bool) {
	if r.checker == nil || r.checker.Grants[grant] == nil {
		return Standing{}, false
	}
	g := r.checker.Grants[grant]
	s := Standing{Expires: g.Expires}
	at := func(n uint64) *uint64 {
		if n == 0 {
			return nil
		}
		n--
		return &n
	}
	s.Ended, s.Left = at(g.Ended), at(g.Left)
	if in := r.checker.Collections[g.Collection]; in != nil {
		s.Known = !in.Open && !in.Shared
		if in.Grant == grant {
			s.Held = in.Count.held()
		}
	}
	return s, true
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
		fmt.Fprintf(&b, "and %s\n", plural.Count(r.Unlisted, "more violation", "more violations"))
	}
	fmt.Fprintf(&b, "log %s, %s, root %s\n", r.LogOrigin, entriesOf(r.TreeSize), r.Root)
	fmt.Fprintf(&b, "checked: %s under %s in %s, %s; %s\n", entriesOf(r.EntriesChecked), plural.Count(r.Grants, "grant", "grants"),
		plural.Count(r.Collections, "collection", "collections"), plural.Count(r.Checkpoints, "checkpoint", "checkpoints"),
		plural.Count(r.Found(), "violation", "violations"))
	if r.ResumedAt > 0 { // whole bundles, so never one
		fmt.Fprintf(&b, "the first %d entries were checked by earlier runs\n", r.ResumedAt)
	}
	for _, s := range r.NotJudged {
		fmt.Fprintf(&b, "not judged: %s\n", s)
	}
	return b.String()
}

func entriesOf(n uint64) string { return plural.Count(n, "entry", "entries") }

// Count is the number of violations in words.
func (r *Report) Count() string { return plural.Count(r.Found(), "violation", "violations") }
