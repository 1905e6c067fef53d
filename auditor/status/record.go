package status

import (
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Bounds of what is noted of one grant. Further entries of batches are counted,
// and not listed; all others are listed up to maxOthers.
const (
	maxBatches = 100_000
	maxOthers  = 20_000
	maxHours   = 200_000 // hours in which something was decided, twenty years of them
)

// An Event is one entry under the grant.
type Event struct {
	Index      uint64            `json:"index"`
	At         envelope.Time     `json:"at"`
	Decision   translog.Decision `json:"decision"`
	Status     translog.Status   `json:"status"`
	Pages      uint64            `json:"pages"`
	Epoch      uint64            `json:"journal_epoch"`
	From       uint64            `json:"from"`
	Through    uint64            `json:"through"`
	Batch      envelope.Hash     `json:"batch_id,omitzero"`
	Revocation envelope.Hash     `json:"revocation_id,omitzero"`
	Scope      envelope.Hash     `json:"scope_hash"`
}

// Terms are what the entries say of the grant itself. That they all say the same
// is a rule of lint.
type Terms struct {
	Subject    envelope.Name `json:"subject"`
	Collection envelope.Hash `json:"collection_ref"`
	ExpiresAt  envelope.Time `json:"expires_at"`
	Policy     envelope.Hash `json:"policy_hash"`
	Scope      envelope.Hash `json:"scope_hash,omitzero"` // zero while only revocations name one
	Purposes   []string      `json:"purposes"`
}

// A Tally counts what was decided.
type Tally struct {
	Entries uint64 `json:"entries"`
	Pages   uint64 `json:"pages"`
}

// A record is what is noted while the log is read.
type record struct {
	Grant    envelope.Hash                         `json:"grant"`
	Terms    *Terms                                `json:"terms,omitempty"`
	First    Event                                 `json:"first,omitzero"`
	Last     Event                                 `json:"last,omitzero"`
	Events   []Event                               `json:"events,omitempty"`
	Totals   map[string]*Tally                     `json:"totals,omitempty"` // by decision and status
	Hours    map[int64]map[translog.Decision]Tally `json:"hours,omitempty"`  // by hours since 1970
	Unlisted uint64                                `json:"unlisted,omitzero"`
	Unsound  []uint64                              `json:"unsound,omitempty"` // entries that name the grant and do not count
	Batches  int                                   `json:"batches,omitzero"`
}

// Take notes an entry under the grant.
func (r *record) Take(o *envelope.Object, e *translog.Entry, sound bool) {
	if e.GrantID != r.Grant {
		return
	}
	if !sound {
		if len(r.Unsound) < maxOthers {
			r.Unsound = append(r.Unsound, o.Sequence)
		}
		return
	}
	r.terms(o, e)
	event := Event{
		Index: o.Sequence, At: envelope.At(o.IssuedAt), Decision: e.Decision, Status: e.Status, Pages: e.Objects.Count,
		Epoch: e.JournalEpoch, From: e.From, Through: e.Through, Batch: e.BatchID, Revocation: e.RevocationID, Scope: e.ScopeHash,
	}
	if r.Last.At.IsZero() {
		r.First = event
	}
	r.Last = event
	r.count(event)
	batch := !e.BatchID.IsZero()
	switch {
	case batch && r.Batches >= maxBatches, !batch && len(r.Events)-r.Batches >= maxOthers:
		r.Unlisted++
		return
	case batch:
		r.Batches++
	}
	r.Events = append(r.Events, event)
}

// terms notes what the grant is said to be.
func (r *record) terms(o *envelope.Object, e *translog.Entry) {
	if r.Terms == nil {
		r.Terms = &Terms{
			Subject: o.Subject, Collection: e.CollectionRef, ExpiresAt: e.GrantExpiresAt, Policy: e.PolicyHash, Purposes: slices.Clone(e.Purposes),
		}
	}
	if e.RevocationID.IsZero() && r.Terms.Scope.IsZero() {
		r.Terms.Scope = e.ScopeHash
	}
}

func (r *record) count(e Event) {
	if r.Totals == nil {
		r.Totals, r.Hours = make(map[string]*Tally), make(map[int64]map[translog.Decision]Tally)
	}
	name := string(e.Decision) + "/" + string(e.Status)
	if r.Totals[name] == nil {
		r.Totals[name] = new(Tally)
	}
	r.Totals[name].Entries++
	r.Totals[name].Pages += e.Pages
	hour := e.At.Unix() / 3600
	if r.Hours[hour] == nil {
		if len(r.Hours) >= maxHours {
			return
		}
		r.Hours[hour] = make(map[translog.Decision]Tally)
	}
	t := r.Hours[hour][e.Decision]
	t.Entries, t.Pages = t.Entries+1, t.Pages+e.Pages
	r.Hours[hour][e.Decision] = t
}

// Len is what grows with the log.
func (r *record) Len() int { return len(r.Events) + len(r.Hours) }
