package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Report is what a log says about a grant, up to a checkpoint.
type Report struct {
	Grant        envelope.Hash    `json:"grant_id"`
	Indexer      envelope.Name    `json:"indexer"`
	LogOrigin    string           `json:"log_origin"`
	LogURL       string           `json:"log_url"`
	TreeSize     uint64           `json:"tree_size"`
	Root         envelope.Hash    `json:"root"`
	CheckpointAt envelope.Time    `json:"checkpoint_at,omitzero"`
	Now          envelope.Time    `json:"now"`                 // by which lateness is told
	Checked      uint64           `json:"entries_checked"`     // of the whole log, with those of earlier runs
	ResumedAt    uint64           `json:"resumed_at,omitzero"` // how many of them were
	State        State            `json:"state"`
	Terms        *Terms           `json:"terms,omitempty"` // nil if no entry names the grant
	Entries      uint64           `json:"entries"`         // under the grant
	Held         *uint64          `json:"pages_held_at_most,omitempty"`
	Totals       map[string]Tally `json:"totals"` // by decision/status
	Revocations  []Withdrawal     `json:"revocations"`
	Findings     []Finding        `json:"findings"`
	Violations   []lint.Violation `json:"violations"`                // of the rules, by entries under the grant
	OfTheLog     []lint.Violation `json:"violations_of_the_log"`     // all others
	MoreFound    uint64           `json:"violations_more,omitempty"` // that are not listed
	OverTime     []Span           `json:"over_time"`
	Events       []Event          `json:"events"`
	Unlisted     uint64           `json:"events_unlisted,omitzero"`
	Shown        []string         `json:"shows"`
	NotShown     []string         `json:"does_not_show"`
}

// A State is where a grant stands, by what the log says.
type State string

// The states.
const (
	Unknown    State = "unknown"    // the log does not name the grant
	Active     State = "active"     // it is in force
	Superseded State = "superseded" // another grant took over what was held
	Expired    State = "expired"    // its time is over
	Stopped    State = "stopped"    // all of it was revoked
	Deleted    State = "deleted"    // and what was held is gone
)

// A Withdrawal is one revocation, and how it was answered.
type Withdrawal struct {
	ID          envelope.Hash      `json:"revocation_id"`
	Whole       bool               `json:"whole"`              // nothing of the grant is left
	Signed      envelope.Time      `json:"signed_at,omitzero"` // as its publisher signed; absent if it was not given
	Disposition grants.Disposition `json:"disposition,omitempty"`
	Ack         *Answer            `json:"acknowledged,omitempty"`
	Deletion    *Answer            `json:"deleted,omitempty"`
	// DeletionAfterAck is the time between the two, in seconds.
	DeletionAfterAck *int64 `json:"seconds_from_acknowledgement_to_deletion,omitempty"`
}

// An Answer is an entry that answers a revocation. After is the time since the
// revocation was signed, in seconds, where that is known.
type Answer struct {
	Index uint64        `json:"index"`
	At    envelope.Time `json:"at"`
	Pages uint64        `json:"pages"`
	After *int64        `json:"seconds_from_revocation,omitempty"`
}

// A Kind says how grave a finding is.
type Kind string

// The kinds. What is open is no fault: the log alone does not tell.
const (
	Missing Kind = "missing"
	Late    Kind = "late"
	Open    Kind = "open"
)

// A Finding is something that is not there, or came late.
type Finding struct {
	Kind   Kind   `json:"kind"`
	What   string `json:"what"` // acknowledgement, deletion, expiry
	Detail string `json:"detail"`
}

// OK reports whether the log is as it has to be, as far as the grant goes, and
// names the grant at all.
func (r *Report) OK() bool { return r.Fault() == "" }

// Fault is the first thing that is not as it has to be, empty if there is none.
func (r *Report) Fault() string {
	if len(r.Violations) > 0 {
		return r.Violations[0].String()
	}
	for _, f := range r.Findings {
		if f.Kind != Open {
			return fmt.Sprintf("%s %s: %s", f.Kind, f.What, f.Detail)
		}
	}
	if len(r.OfTheLog) > 0 {
		return "the log itself is not sound: " + r.OfTheLog[0].String()
	}
	if r.State == Unknown {
		return "the log says nothing of this grant"
	}
	return ""
}

// Words is the state for people.
func (s State) Words() string {
	return map[State]string{
		Unknown: "Not in this log", Active: "In force", Superseded: "Taken over by another grant",
		Expired: "Expired", Stopped: "Revoked, and stopped", Deleted: "Revoked, and deleted",
	}[s]
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "grant %s: %s\n", r.Grant, r.State.Words())
	line("log", "%s at %s, %d entries, all verified, checkpoint of %s", r.LogOrigin, r.LogURL, r.Checked, r.CheckpointAt)
	if t := r.Terms; t != nil {
		line("subject", "%s", t.Subject)
		line("purposes", "%s", strings.Join(t.Purposes, ", "))
		line("until", "%s", t.ExpiresAt)
		line("entries", "%d under the grant, the first of %s, the last of %s", r.Entries, r.firstAt(), r.lastAt())
	}
	if r.Held != nil {
		line("pages", "at most %d are held under it", *r.Held)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Totals)) {
		fmt.Fprintf(&b, "  %-22s %s in %s\n", name, pagesOf(r.Totals[name].Pages), entriesOf(r.Totals[name].Entries))
	}
	for _, w := range r.Revocations {
		fmt.Fprintf(&b, "revocation %s, %s\n", w.ID, w.words())
		if w.Ack != nil {
			line("acknowledged", "%s, entry %d, %s%s", w.Ack.At, w.Ack.Index, pagesOf(w.Ack.Pages), after(w.Ack.After, "the revocation"))
		}
		if w.Deletion != nil {
			line("deleted", "%s, entry %d, %s%s%s", w.Deletion.At, w.Deletion.Index, pagesOf(w.Deletion.Pages),
				after(w.Deletion.After, "the revocation"), after(w.DeletionAfterAck, "its acknowledgement"))
		}
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s\n", strings.ToUpper(string(f.Kind)), f.What, f.Detail)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION %s\n", v)
	}
	if n := len(r.OfTheLog); n > 0 {
		fmt.Fprintf(&b, "THE LOG is not sound: %d violations elsewhere, the first: %s\n", n, r.OfTheLog[0])
	}
	for _, s := range r.Shown {
		fmt.Fprintf(&b, "shown: %s\n", s)
	}
	b.WriteString("what this does not show\n")
	for _, s := range r.NotShown {
		fmt.Fprintf(&b, "  - %s\n", s)
	}
	return b.String()
}

func (r *Report) firstAt() envelope.Time {
	if len(r.Events) == 0 {
		return envelope.Time{}
	}
	return r.Events[0].At
}

func (r *Report) lastAt() envelope.Time {
	if len(r.Events) == 0 {
		return envelope.Time{}
	}
	return r.Events[len(r.Events)-1].At
}

// words say what a revocation is of.
func (w *Withdrawal) words() string {
	s := "of a part of the scope"
	if w.Whole {
		s = "of the whole grant"
	}
	if w.Ack == nil {
		s = "which the log does not name"
	}
	if !w.Signed.IsZero() {
		s += fmt.Sprintf(", signed at %s, disposition %s", w.Signed, w.Disposition)
	}
	return s
}

func after(seconds *int64, what string) string {
	if seconds == nil {
		return ""
	}
	return fmt.Sprintf(", %s after %s", lasted(*seconds), what)
}

// lasted is a number of seconds in words.
func lasted(s int64) string {
	sign := ""
	if s < 0 {
		sign, s = "minus ", -s
	}
	switch {
	case s < 120:
		return fmt.Sprintf("%s%d s", sign, s)
	case s < 2*3600:
		return fmt.Sprintf("%s%d min %d s", sign, s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%s%d h %d min", sign, s/3600, s%3600/60)
	}
	return fmt.Sprintf("%s%d d %d h", sign, s/86400, s%86400/3600)
}

func entriesOf(n uint64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// pagesOf is a number of pages in words.
func pagesOf(n uint64) string {
	if n == 1 {
		return "1 page"
	}
	return number(n) + " pages"
}

// shown is what the scan confirms; nothing if the log is not sound.
func shown(r *Report) []string {
	all := []string{}
	if len(r.Violations) > 0 || len(r.OfTheLog) > 0 {
		return all
	}
	all = append(all, fmt.Sprintf("All %s of the log were read and verified, and are under the root that the log signed; no rule of its profile is broken.", entriesOf(r.Checked)))
	for _, w := range r.Revocations {
		if w.Whole && w.Ack != nil {
			all = append(all, fmt.Sprintf("Nothing was taken in under the grant after entry %d, which acknowledges its revocation, up to the tree of %s.", w.Ack.Index, entriesOf(r.TreeSize)))
			break
		}
	}
	return all
}

// notShown are the limits of every such report.
func notShown(r *Report) []string {
	all := []string{
		"That the indexer does what it signs: an acknowledgement, and a deletion that is acknowledged, are signed promises.",
		"Which pages these are: the log hides them. Who has the key of the series can tell (auditor lint --disclosed).",
		"The exact times: they are those that the parties stated and signed.",
		"That the log shows everybody the same: compare its checkpoints with what others were shown (auditor follow --notes, --witnesses).",
	}
	for _, w := range r.Revocations {
		if w.Signed.IsZero() {
			return append(all, "When the revocations were signed, and what they ask for: the log only names them. Give the signed revocation with --revocation, and its publisher's card with --key.")
		}
	}
	return all
}

// whole reports what was done of a revocation of all of the grant.
func (r *Report) whole() (stopped, deleted bool) {
	for _, w := range r.Revocations {
		if w.Whole && w.Ack != nil {
			stopped = true
			deleted = deleted || w.Deletion != nil
		}
	}
	return stopped, deleted
}

var _ lint.Recorder = (*record)(nil)

// eventsOf are those of one status.
func (r *record) eventsOf(s translog.Status) []Event {
	var all []Event
	for _, e := range r.Events {
		if e.Status == s {
			all = append(all, e)
		}
	}
	return all
}
