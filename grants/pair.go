package grants

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Pair is a grant with the policy that it names: what is in force for one
// agreement. What is allowed is what both allow (UZPIF-OI 11.1).
type Pair struct {
	Grant  *Grant
	Policy *Policy
}

// NewPair joins a grant with its policy, and refuses, by ErrPolicy:
//   - no policy (nil), and another policy than the one whose hash the grant holds,
//   - a policy of another issuer, audience or series,
//   - one whose scope does not cover the grant's: pages without a policy would
//     have no terms, and what is not stated is not allowed,
//   - one that does not permit each purpose that is granted.
//
// The last could be read as a grant of the rest, and is refused instead: the
// grant's purposes go as they stand into entries and receipts, which are read
// by people who do not see the policy. A record that names a purpose which the
// same publisher denied would prove two things at once.
func NewPair(g *Grant, p *Policy) (Pair, error) {
	switch {
	case p == nil:
		return Pair{}, refuse(ErrPolicy, "the grant names policy %s, which is missing", g.Body.PolicyHash)
	case p.Object.ID != g.Body.PolicyHash:
		return Pair{}, refuse(ErrPolicy, "the grant names policy %s, this is %s", g.Body.PolicyHash, p.Object.ID)
	case p.Body.Issuer != g.Body.Issuer || p.Body.Series != g.Body.Series:
		return Pair{}, refuse(ErrPolicy, "of series %s of %s, the grant is of %s of %s", p.Body.Series, p.Body.Issuer, g.Body.Series, g.Body.Issuer)
	case p.Object.Audience != "" && p.Object.Audience != g.Object.Audience:
		return Pair{}, refuse(ErrPolicy, "for %s, the grant is for %s", p.Object.Audience, g.Object.Audience)
	case !p.Body.Scope.Covers(g.Body.Scope):
		return Pair{}, refuse(ErrPolicy, "its scope does not cover the grant's")
	}
	for _, purpose := range g.Body.Purposes {
		if err := p.Body.Permit(purpose); err != nil {
			return Pair{}, err
		}
	}
	return Pair{g, p}, nil
}

// OpenPair opens a grant and its policy, and joins them.
func OpenPair(grant, policy []byte, v Verifier) (Pair, error) {
	g, err := OpenGrant(grant, v)
	if err != nil {
		return Pair{}, err
	}
	p, err := OpenPolicy(policy, v)
	if err != nil {
		return Pair{}, err
	}
	return NewPair(g, p)
}

// ReadPair reads back a pair that was opened or issued before, from a store
// that only its own program writes. It checks form, schema and that the two
// belong together; it says nothing about signatures, parties and time.
func ReadPair(grant, policy []byte) (Pair, error) {
	g, err := ReadGrant(grant)
	if err != nil {
		return Pair{}, err
	}
	o, b, err := read[PolicyBody](policy, envelope.Policy)
	if err != nil {
		return Pair{}, err
	}
	return NewPair(g, &Policy{o, b})
}

// ReadGrant is ReadPair for a grant alone.
func ReadGrant(raw []byte) (*Grant, error) {
	o, b, err := read[GrantBody](raw, envelope.DiscoveryGrant)
	if err != nil {
		return nil, err
	}
	return newGrant(o, b)
}

// Fresh refuses a pair that is not in force at now: ErrNotYetValid, or, from
// the very second of expiry, ErrExpired.
func (p Pair) Fresh(now time.Time) error {
	if err := fresh(p.Grant.Object, now); err != nil {
		return err
	}
	return fresh(p.Policy.Object, now)
}

// Check refuses a URL that is outside the scope (ErrScope), and every URL while
// the pair is not in force. It allocates nothing unless it refuses. Membership
// of a collection, and revocations, are for the caller to check.
func (p Pair) Check(url string, now time.Time) error {
	if err := p.Fresh(now); err != nil {
		return err
	}
	return p.Grant.Body.Scope.Match(url)
}

// Permits refuses a purpose that the grant does not name (ErrPurpose) or the
// policy does not permit (ErrPolicy), and every purpose while the pair is not
// in force.
func (p Pair) Permits(purpose Purpose, now time.Time) error {
	if err := p.Fresh(now); err != nil {
		return err
	}
	if !p.Grant.Body.Purposes.Has(purpose) {
		return refuse(ErrPurpose, "%.80q", string(purpose))
	}
	return p.Policy.Body.Permit(purpose)
}

// Retention is for how many days copies and what was extracted from them may
// be kept: the policy's, capped by the grant's.
func (p Pair) Retention() Retention {
	r := p.Policy.Body.Retention
	if limit := p.Grant.Body.Constraints.RetentionDays; limit > 0 {
		r.CachedCopyDays = min(r.CachedCopyDays, limit)
		r.FeatureDays = min(r.FeatureDays, limit)
	}
	return r
}

// BeginsAt is when the grant begins: at not_before, or when it was issued.
func (p Pair) BeginsAt() time.Time {
	if nb := p.Grant.Object.NotBefore; !nb.IsZero() {
		return nb
	}
	return p.Grant.Object.IssuedAt
}

// ExpiresAt is when the pair ends: the earlier of the two expiries.
func (p Pair) ExpiresAt() time.Time {
	end := p.Grant.Object.ExpiresAt
	if e := p.Policy.Object.ExpiresAt; !e.IsZero() && e.Before(end) {
		return e
	}
	return end
}
