package status

import (
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func (r *Report) found(k Kind, what, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{k, what, fmt.Sprintf(format, args...)})
}

// judge says what is missing, and what came late. An honest log shows nothing of
// either as long as the indexer keeps its times.
func (r *Report) judge(s lint.Standing, noted *record, o Options) {
	for i := range r.Revocations {
		r.judgeAck(&r.Revocations[i], o)
		r.judgeDeletion(&r.Revocations[i], o)
	}
	if r.Terms != nil {
		r.judgeExpiry(s, noted, o)
	}
}

// judgeAck asks for the acknowledgement of a revocation that was given.
func (r *Report) judgeAck(w *Withdrawal, o Options) {
	if w.Signed.IsZero() {
		return
	}
	switch age := o.Now.Sub(w.Signed.Time); {
	case w.Ack == nil && age > o.Within:
		r.found(Missing, "acknowledgement", "revocation %s was signed %s ago, and the log does not name it: either it did not reach the indexer, or it was not followed", w.ID, lasted(int64(age.Seconds())))
	case w.Ack == nil:
		r.found(Open, "acknowledgement", "revocation %s was signed %s ago, and the log does not name it yet", w.ID, lasted(int64(age.Seconds())))
	case *w.Ack.After > int64(o.Within.Seconds()):
		r.found(Late, "acknowledgement", "revocation %s was acknowledged %s after it was signed, which is longer than %s", w.ID, lasted(*w.Ack.After), o.Within)
	}
}

// judgeDeletion asks for the deletion after an acknowledgement, where it was
// asked for.
func (r *Report) judgeDeletion(w *Withdrawal, o Options) {
	if w.Ack == nil {
		return // lint says what is wrong with a deletion by itself
	}
	age := o.Now.Sub(w.Ack.At.Time)
	switch {
	case w.Deletion != nil && *w.DeletionAfterAck > int64(o.Within.Seconds()) && w.Disposition != grants.DispositionRetention:
		// Without the revocation it may have been asked for at the end of a retention.
		kind := Late
		if w.Signed.IsZero() {
			kind = Open
		}
		r.found(kind, "deletion", "the deletion after revocation %s was acknowledged %s after the stop, which is longer than %s", w.ID, lasted(*w.DeletionAfterAck), o.Within)
	case w.Deletion != nil || w.Disposition == grants.DispositionStop:
	case w.Disposition == grants.DispositionDelete && age > o.Within:
		r.found(Missing, "deletion", "revocation %s asks for deletion, was acknowledged %s ago by entry %d, and no deletion is in the log", w.ID, lasted(int64(age.Seconds())), w.Ack.Index)
	case w.Disposition == grants.DispositionRetention:
		r.found(Open, "deletion", "revocation %s lets pages stay until the end of their retention, which the policy names and the log does not", w.ID)
	default:
		r.found(Open, "deletion", "revocation %s was acknowledged %s ago, and no deletion is in the log; whether one was asked for is not in the log either", w.ID, lasted(int64(age.Seconds())))
	}
}

// judgeExpiry asks for the note that the grant has expired, while pages may be
// held under it.
func (r *Report) judgeExpiry(s lint.Standing, noted *record, o Options) {
	end, within := s.Expires.Time, int64(o.Within.Seconds())
	if s.Ended != nil {
		for _, e := range noted.eventsOf(translog.GrantExpired) {
			if d := *seconds(end, e.At.Time); e.Index == *s.Ended && d > within {
				r.found(Late, "expiry", "the log says %s after the grant's end that it has expired, which is longer than %s", lasted(d), o.Within)
			}
		}
		return
	}
	over := o.Now.Sub(end)
	if r.State != Expired || !s.Known || s.Held == 0 {
		return
	}
	// The log may have stopped growing before that: then it is old, which lint tells.
	if until := r.lastWord(o.Now).Sub(end); over > o.Within && until > o.Within {
		r.found(Missing, "expiry", "the grant ended at %s, up to %d pages are held under it, and the log does not say that it has expired", envelope.At(end), s.Held)
	}
}

// lastWord is the time up to which the log speaks.
func (r *Report) lastWord(now time.Time) time.Time {
	if r.CheckpointAt.IsZero() {
		return now
	}
	return r.CheckpointAt.Time
}
