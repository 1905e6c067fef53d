package publisher

import (
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// MaxRenewal is for how long a grant may renew itself before somebody has to
// wish it again.
const MaxRenewal = 365 * 24 * time.Hour

// A Renewal is the wish that the daemon renew a grant before it ends: as it is,
// and for as long as it was, never wider and never longer
// (TestARenewalByItselfNeverWidens). It stops where the source, or a statement
// on which the grant rests, denies something that is granted; where the grant
// is revoked; and at Until. A grant that has expired is not renewed by itself.
type Renewal struct {
	Within    uint64        `json:"within_seconds"` // before the end
	Until     envelope.Time `json:"until"`          // nothing is renewed by itself from then on
	Stopped   string        `json:"stopped,omitzero"`
	StoppedAt envelope.Time `json:"stopped_at,omitzero"`
}

// ErrRenewal is returned for a wish that cannot be met.
var ErrRenewal = errors.New("no renewal by itself")

// SetRenewal has the daemon renew a grant within a time before its end, from
// now on for as long as during says, 0 being MaxRenewal. A time of 0 takes the
// wish back. Nothing is signed.
func SetRenewal(dir, id string, within, during time.Duration, now time.Time) (*Relationship, error) {
	unlock, err := lockGrants(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := FindGrant(dir, id)
	if err != nil {
		return nil, err
	}
	if within == 0 {
		r.Renewal = nil
		return r, r.write(dir)
	}
	if during == 0 {
		during = MaxRenewal
	}
	half := r.life() / 2
	switch state := r.State(now); {
	case state != "in-force" && state != "not-yet-valid":
		return nil, fmt.Errorf("%w: grant %s is %s; renew it by hand, or issue another", ErrRenewal, r.Pair.Grant.Object.ID, state)
	case within < time.Second || within > half:
		return nil, fmt.Errorf("%w: %s before the end; want a second to %s, which is half the grant's life", ErrRenewal, within, half)
	case during < time.Second || during > MaxRenewal:
		return nil, fmt.Errorf("%w: for %s; want a second to %s", ErrRenewal, during, MaxRenewal)
	}
	r.Renewal = &Renewal{Within: uint64(within / time.Second), Until: envelope.At(now.Add(during))}
	return r, r.write(dir)
}

func (r *Relationship) life() time.Duration {
	return r.Pair.Grant.Object.ExpiresAt.Sub(r.Pair.Grant.Object.IssuedAt)
}

// renewsAt is when the grant is renewed by itself; ok is false if it is not.
func (r *Relationship) renewsAt() (at time.Time, ok bool) {
	w := r.Renewal
	if w == nil || w.Stopped != "" || r.Revoked() {
		return at, false
	}
	at = r.Pair.ExpiresAt().Add(-time.Duration(w.Within) * time.Second)
	return at, at.Before(w.Until.Time)
}

// renewIfDue renews a grant whose time has come, and reports whether it did. A
// refusal stops the renewal for good; other errors are for the caller to try
// again.
func (p *Publisher) renewIfDue(r *Relationship, now time.Time) (bool, error) {
	at, ok := r.renewsAt()
	if !ok || now.Before(at) || r.State(now) != "in-force" || !now.Before(r.Renewal.Until.Time) {
		return false, nil
	}
	renewed, _, err := RenewGrant(p.dir, r.Series, RenewRequest{Of: r.Pair.Grant.Object.ID}, now)
	var refused *Refused
	var reason grants.Reason
	switch {
	case errors.Is(err, errOvertaken):
		return true, nil // somebody renewed it meanwhile
	case errors.As(err, &refused), errors.As(err, &reason):
		p.log.Error("renewal stopped", "series", r.Series, "indexer", r.Indexer, "expires_at", envelope.At(r.Pair.ExpiresAt()), "error", err)
		return false, p.stopRenewal(r, err.Error(), now)
	case err != nil:
		return false, err
	}
	p.log.Info("renewed", "series", r.Series, "indexer", r.Indexer, "grant", renewed.Pair.Grant.Object.ID, "expires_at", envelope.At(renewed.Pair.ExpiresAt()))
	return true, nil
}

// stopRenewal notes why a grant is not renewed by itself any more.
func (p *Publisher) stopRenewal(r *Relationship, why string, now time.Time) error {
	unlock, err := lockGrants(p.dir)
	if err != nil {
		return err
	}
	defer unlock()
	kept, err := readRelationship(p.dir, r.Series)
	if err != nil || kept.Renewal == nil {
		return err
	}
	kept.Renewal.Stopped, kept.Renewal.StoppedAt = why, envelope.At(now)
	r.Renewal = kept.Renewal
	return kept.write(p.dir)
}
