package monitor

import (
	"fmt"
	"strings"
	"time"
)

// A Level is how bad a Reason is.
type Level string

const (
	// Failing keeps the daemon from its work: it is not ready.
	Failing Level = "failing"
	// Warning will, or keeps part of it: somebody has to look.
	Warning Level = "warning"
)

// A Reason says what is wrong. Codes are stable, and of lower case with
// underscores; doc/operations.md says of each what to do.
type Reason struct {
	Code   string `json:"code"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`
}

// A Report is how a daemon does at one moment.
type Report struct {
	Reasons []Reason
}

// Fail adds a reason for which the daemon is not ready.
func (r *Report) Fail(code, format string, args ...any) {
	r.Reasons = append(r.Reasons, Reason{code, Failing, fmt.Sprintf(format, args...)})
}

// Warn adds a reason to look.
func (r *Report) Warn(code, format string, args ...any) {
	r.Reasons = append(r.Reasons, Reason{code, Warning, fmt.Sprintf(format, args...)})
}

// Ready reports whether the daemon does its work.
func (r Report) Ready() bool {
	for _, x := range r.Reasons {
		if x.Level == Failing {
			return false
		}
	}
	return true
}

// Word is the state of the daemon in one word.
func (r Report) Word() string {
	switch {
	case !r.Ready():
		return "not ready"
	case len(r.Reasons) > 0:
		return "warning"
	}
	return "ok"
}

// String is the report as text: the state, and a line for each reason.
func (r Report) String() string {
	var b strings.Builder
	b.WriteString(r.Word() + "\n")
	for _, x := range r.Reasons {
		fmt.Fprintf(&b, "%s %s: %s\n", x.Level, x.Code, strings.Join(strings.Fields(x.Detail), " "))
	}
	return b.String()
}

// A Progress watches something that is to move while anything waits for it. The
// zero value is ready; whoever uses it guards it.
type Progress struct {
	count uint64
	since time.Time // when something began to wait, or last moved; zero while nothing waits
}

// Stuck takes how far it is and whether anything waits, and gives for how long
// something has waited without anything having moved.
func (p *Progress) Stuck(now time.Time, waiting bool, count uint64) time.Duration {
	switch {
	case !waiting:
		p.since = time.Time{}
	case p.since.IsZero(), count != p.count, now.Before(p.since):
		p.since = now
	}
	p.count = count
	if p.since.IsZero() {
		return 0
	}
	return now.Sub(p.since)
}

// A Rise notices that a counter has risen lately. The zero value is ready; whoever
// uses it guards it.
type Rise struct {
	seen  bool
	count uint64
	at    time.Time
}

// Within takes the counter and reports whether it was seen to rise during the
// last so long. What it stood at when first seen is no rise.
func (r *Rise) Within(now time.Time, lately time.Duration, count uint64) bool {
	if r.seen && count > r.count {
		r.at = now
	}
	r.seen, r.count = true, count
	return !r.at.IsZero() && now.Sub(r.at) < lately
}
