package status

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// Options of a status. Card, Now and Grant must be set.
type Options struct {
	// Card is that of the log's indexer: its keys alone count.
	Card *identity.Card
	// Grant is the object_id of the grant.
	Grant envelope.Hash
	// Now is the time by which lateness is told.
	Now time.Time
	// State is a folder in which is remembered where the scan has come to, in a
	// folder of its own for each grant. Empty remembers nothing.
	State string
	// Revocations are those that their publisher signed, opened by its keys.
	Revocations []*grants.Revocation
	// Within is how long an acknowledgement, a deletion, or the note of an expiry
	// may take; 0 means a day.
	Within time.Duration
	// Ended: the log has ended, and signs nothing new.
	Ended    bool
	Progress func(done, total uint64)
}

// Remote scans the log that c reads. An error means that it could not be done:
// those of lint.Remote.
func Remote(ctx context.Context, c *remote.Client, o Options) (*Report, error) {
	o.Within = cmp.Or(o.Within, 24*time.Hour)
	noted := &record{Grant: o.Grant}
	l := lint.Options{Card: o.Card, Now: o.Now, Ended: o.Ended, Progress: o.Progress, Record: noted}
	if o.State != "" {
		l.State = filepath.Join(o.State, hex.EncodeToString(o.Grant[:]))
	}
	found, err := lint.Remote(ctx, c, l)
	if err != nil {
		return nil, err
	}
	if noted.Grant != o.Grant {
		return nil, fmt.Errorf("%w: %s is of the grant %s; remove it to begin anew", lint.ErrState, l.State, noted.Grant)
	}
	r := &Report{
		Grant: o.Grant, Indexer: o.Card.Identity, LogOrigin: found.LogOrigin, LogURL: c.URL(), TreeSize: found.TreeSize, Root: found.Root,
		CheckpointAt: found.CheckpointAt, Now: envelope.At(o.Now), Checked: found.EntriesChecked, ResumedAt: found.ResumedAt,
		Terms: noted.Terms, Totals: make(map[string]Tally), Revocations: []Withdrawal{}, Findings: []Finding{},
		Violations: []lint.Violation{}, OfTheLog: []lint.Violation{}, MoreFound: found.Unlisted,
		OverTime: noted.spans(), Events: append([]Event{}, noted.Events...), Unlisted: noted.Unlisted,
	}
	for name, t := range noted.Totals {
		r.Totals[name] = *t
		r.Entries += t.Entries
	}
	r.sort(found, noted)
	r.withdrawals(noted, o.Revocations)
	standing, _ := found.Standing(o.Grant)
	r.stand(standing, o)
	r.judge(standing, noted, o)
	r.Shown, r.NotShown = shown(r), notShown(r)
	return r, nil
}

// sort tells the violations that entries under the grant make from others.
func (r *Report) sort(found *lint.Report, noted *record) {
	mine := make(map[uint64]bool, len(noted.Events)+len(noted.Unsound))
	for _, e := range noted.Events {
		mine[e.Index] = true
	}
	for _, n := range noted.Unsound {
		mine[n] = true
	}
	for _, v := range found.Violations {
		if mine[v.Index] && !v.Rule.OfCheckpoint() {
			r.Violations = append(r.Violations, v)
		} else {
			r.OfTheLog = append(r.OfTheLog, v)
		}
	}
}

// withdrawals puts together what the log says of each revocation, and what is
// known of those that were given.
func (r *Report) withdrawals(noted *record, given []*grants.Revocation) {
	find := func(id envelope.Hash) *Withdrawal {
		i := slices.IndexFunc(r.Revocations, func(w Withdrawal) bool { return w.ID == id })
		if i < 0 {
			r.Revocations, i = append(r.Revocations, Withdrawal{ID: id}), len(r.Revocations)
		}
		return &r.Revocations[i]
	}
	for _, e := range noted.eventsOf(translog.Stopped) {
		w := find(e.Revocation)
		if w.Ack == nil {
			w.Ack = &Answer{Index: e.Index, At: e.At, Pages: e.Pages}
			w.Whole = e.Scope == noted.Terms.Scope || noted.Terms.Scope.IsZero()
		}
	}
	for _, e := range noted.eventsOf(translog.Revoked) {
		w := find(e.Revocation)
		if w.Deletion == nil {
			w.Deletion = &Answer{Index: e.Index, At: e.At, Pages: e.Pages}
		}
		if w.Ack != nil {
			w.DeletionAfterAck = seconds(w.Ack.At.Time, e.At.Time)
		}
	}
	for _, rev := range given {
		id, signed := rev.Object.ID, rev.Object.IssuedAt
		named := slices.ContainsFunc(r.Revocations, func(w Withdrawal) bool { return w.ID == id })
		if !named && rev.Body.Target.GrantID != r.Grant {
			continue // whether it reaches this grant is not to be told from here
		}
		w := find(id)
		w.Signed, w.Disposition = envelope.At(signed), rev.Body.Disposition
		w.Whole = w.Whole || rev.Body.Target.GrantID == r.Grant
		for _, a := range []*Answer{w.Ack, w.Deletion} {
			if a != nil {
				a.After = seconds(signed, a.At.Time)
			}
		}
	}
}

func seconds(from, to time.Time) *int64 {
	s := int64(to.Sub(from).Seconds())
	return &s
}

// stand says where the grant stands.
func (r *Report) stand(s lint.Standing, o Options) {
	stopped, deleted := r.whole()
	switch {
	case r.Terms == nil:
		r.State = Unknown
		return
	case deleted:
		r.State = Deleted
	case stopped:
		r.State = Stopped
	case s.Left != nil:
		r.State = Superseded
	case !o.Now.Before(s.Expires.Time):
		r.State = Expired
	default:
		r.State = Active
	}
	if s.Known {
		held := s.Held
		if deleted || s.Left != nil {
			held = 0
		}
		r.Held = &held
	}
}
