package witness

import "fmt"

// A Reason says in one word why a witness did not cosign. Reasons are stable:
// they label metrics.
type Reason string

// The reasons. Ahead and Fork are alarms: the witness says that the log has
// been rolled back, or has forked. The others mean that it is unwell.
const (
	Ahead       Reason = "ahead"       // it has cosigned a larger tree
	Fork        Reason = "fork"        // it has cosigned a tree that this one does not extend
	Unreachable Reason = "unreachable" // no answer came
	Timeout     Reason = "timeout"     // no answer came in time
	UnknownLog  Reason = "unknown_log" // 404: it does not know the log's origin
	UnknownKey  Reason = "unknown_key" // 403: it does not know the log's key, or, with some, the log
	Conflict    Reason = "conflict"    // 409 again, although it was told what it had asked for
	Busy        Reason = "busy"        // 429, or its own fault (5xx)
	BadAnswer   Reason = "answer"      // too long, or of another form or status
	BadSigning  Reason = "signature"   // no cosignature of this note by its key
	BadClock    Reason = "clock"       // its cosignature is old, or of the future
	Resting     Reason = "resting"     // it failed a moment ago and was not asked
)

// Reasons lists the reasons for which a witness that was asked may fail.
func Reasons() []Reason {
	return []Reason{Ahead, Fork, Unreachable, Timeout, UnknownLog, UnknownKey, Conflict, Busy, BadAnswer, BadSigning, BadClock}
}

// A Failure is why one witness did not cosign.
type Failure struct {
	Witness string // its name in the policy
	Reason  Reason
	Size    uint64 // that it says it has cosigned; with Ahead
	First   bool   // it has not cosigned since the Group was made
	Counts  bool   // the quorum may depend on it
	detail  error
}

func (f *Failure) Error() string {
	return fmt.Sprintf("witness %s: %s: %v", f.Witness, f.Reason, f.detail)
}

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.detail }

// Alarm reports whether the witness contradicts the log.
func (f *Failure) Alarm() bool { return f.Reason == Ahead || f.Reason == Fork }

func fail(r Reason, format string, args ...any) *Failure {
	return &Failure{Reason: r, detail: fmt.Errorf(format, args...)}
}
