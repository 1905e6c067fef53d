package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// A Violation is an alert that stands.
type Violation struct {
	Index  uint64        `json:"index"` // of the entry, or the size of the tree
	Rule   Kind          `json:"rule"`
	Detail string        `json:"detail"`
	Folder string        `json:"folder"`
	At     envelope.Time `json:"at"`
}

// A Report is what one round over one log found.
type Report struct {
	Origin       string        `json:"origin"`
	URL          string        `json:"url"`
	TreeSize     uint64        `json:"tree_size"`        // of the newest note that goes on from the others
	Verified     uint64        `json:"entries_verified"` // in all rounds
	Checked      uint64        `json:"entries_checked"`  // in this round
	CheckpointAt envelope.Time `json:"checkpoint_at,omitzero"`
	Cosignatures int           `json:"cosignatures"` // by witnesses of the policy, lately
	Notes        NoteCount     `json:"notes"`
	Violations   []Violation   `json:"violations"`
	Error        string        `json:"error,omitzero"`
	Reason       Reason        `json:"reason,omitzero"`

	// Err is why the round did not come to its end, nil if it did.
	Err error `json:"-"`
}

// OK reports whether the round came to its end and no alert stands.
func (r *Report) OK() bool { return r.Err == nil && len(r.Violations) == 0 && r.Notes.Refused == 0 }

func (r *Report) fail(err error) {
	if err != nil {
		r.Err, r.Error, r.Reason = err, clean(err.Error()), ReasonOf(err)
	}
}

// A Reason says why a round did not come to its end.
type Reason string

// The reasons.
const (
	Unavailable Reason = "unavailable" // no answer, too busy, or not done in time
	Absent      Reason = "absent"      // the log has no such thing
	Malformed   Reason = "malformed"   // another answer than was asked for
	BadNote     Reason = "note"        // no note by the key of the log
	Alerted     Reason = "alert"       // an alert that could not be kept
	Local       Reason = "local"       // our own disk or files
)

// Reasons are all reasons.
func Reasons() []Reason {
	return []Reason{Unavailable, Absent, Malformed, BadNote, Alerted, Local}
}

// ReasonOf is the reason of an error of a round.
func ReasonOf(err error) Reason {
	var a *Alert
	switch {
	case errors.As(err, &a):
		return Alerted
	case errors.Is(err, remote.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Unavailable
	case errors.Is(err, remote.ErrAbsent):
		return Absent
	case errors.Is(err, translog.ErrNote):
		return BadNote
	case errors.Is(err, remote.ErrMalformed):
		return Malformed
	}
	return Local
}

// Figures are what the metrics of one log show.
type Figures struct {
	Origin                   string
	Size, Verified           uint64
	Checked, Rounds          uint64 // since the start
	Succeeded, Issued        time.Time
	Cosignatures             int
	NotesRefused, NotesAhead int
	Errors                   map[Reason]uint64 // since the start
	Alerts                   map[Kind]int      // that stand
}

// note takes a report into the figures, and tells what is new.
func (f *follower) note(r *Report) {
	f.figuresMu.Lock()
	defer f.figuresMu.Unlock()
	n := &f.figures
	if r.TreeSize > n.Size || r.Checked > 0 {
		f.words.Info("followed", "tree_size", r.TreeSize, "entries_checked", r.Checked, "cosignatures", r.Cosignatures)
	}
	if r.Err != nil {
		n.Errors[r.Reason]++
		f.words.Warn("round", "reason", r.Reason, "error", r.Error)
	} else if f.state != nil {
		n.Succeeded = f.state.Succeeded.Time
	}
	n.Rounds++
	n.Checked += r.Checked
	n.Cosignatures, n.NotesRefused, n.NotesAhead = r.Cosignatures, r.Notes.Refused, r.Notes.Ahead
	if f.state != nil {
		n.Size, n.Verified, n.Issued = r.TreeSize, r.Verified, r.CheckpointAt.Time
	}
	clear(n.Alerts)
	for _, v := range r.Violations {
		n.Alerts[v.Rule]++
	}
}

// clean is text that came from elsewhere, in one line, fit for a terminal.
func clean(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, s)
	if r := []rune(s); len(r) > 2000 {
		return fmt.Sprintf("%s… (%d characters)", string(r[:2000]), len(r))
	}
	return s
}

// copyFigures is for other goroutines than the one that follows.
func (f *follower) copyFigures() Figures {
	f.figuresMu.Lock()
	defer f.figuresMu.Unlock()
	n := f.figures
	n.Errors, n.Alerts = maps.Clone(n.Errors), maps.Clone(n.Alerts)
	return n
}
