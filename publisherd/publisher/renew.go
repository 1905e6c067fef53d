package publisher

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A RenewRequest is what `publisherd grant renew` is told. What is absent
// stays as it is.
type RenewRequest struct {
	Prefixes []string
	Purposes grants.Purposes
	Terms    *grants.PolicyTerms
	Lifetime time.Duration
}

// RenewGrant signs the next grant of a series, with its policy, in place of
// the one in force, which may have expired. Leaf key and relation stay: the
// pages that the indexer holds are rebound to the new grant, not sent again.
// A grant that was revoked is not renewed if its pages had to be deleted.
func RenewGrant(dir, id string, q RenewRequest, now time.Time) (*Relationship, []grants.Warning, error) {
	local, err := identity.Load(dir, now)
	if err != nil {
		return nil, nil, err
	}
	rel, err := FindGrant(dir, id)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range rel.revocations {
		if v.Signed.Body.Disposition == grants.DispositionDelete && v.Signed.ReachesWhole(rel.Pair.Grant) {
			return nil, nil, &Refused{Reason: grants.ErrRevoked, Detail: "its pages are to be deleted; issue a new grant"}
		}
	}
	g := rel.Pair.Grant
	draft := grants.Draft{
		Stamp:     grants.Stamp{Indexer: rel.Indexer, Epoch: local.Epoch(envelope.UseEnvelope), Sequence: g.Object.Sequence + 1, At: now},
		Publisher: local.Name(), Series: rel.Series, Scope: g.Body.Scope, Purposes: g.Body.Purposes, Constraints: g.Body.Constraints,
		Mode: g.Body.Mode, Listing: g.Body.Listing, Terms: termsOf(rel.Pair), LeafKeyCommit: rel.LeafKey.Commit(),
		Lifetime: g.Object.ExpiresAt.Sub(g.Object.IssuedAt),
	}
	if err := q.apply(&draft); err != nil {
		return nil, nil, err
	}
	if err := checkIssue(dir, rel, draft.Scope, now); err != nil {
		return nil, nil, err
	}
	warnings, err := rel.issue(dir, draft, local)
	return rel, warnings, err
}

// apply puts what is asked for in the place of what was.
func (q *RenewRequest) apply(d *grants.Draft) error {
	if q.Lifetime != 0 {
		d.Lifetime = q.Lifetime
	}
	if len(q.Prefixes) > 0 {
		scope, err := grants.PrefixScope(q.Prefixes...)
		if err != nil {
			return err
		}
		d.Scope.Prefixes = scope.Prefixes
		d.Terms.Scope = nil
	}
	if len(q.Purposes) > 0 {
		// What the policy allows and denies follows the purposes.
		d.Purposes = q.Purposes
		d.Terms.Allowed, d.Terms.Denied, d.Terms.Derivatives = nil, nil, grants.Derivatives{}
	}
	if q.Terms != nil {
		d.Terms = *q.Terms
	}
	return nil
}

// termsOf are the terms that make the policy of pair again.
func termsOf(pair grants.Pair) grants.PolicyTerms {
	b := pair.Policy.Body
	scope := b.Scope
	return grants.PolicyTerms{
		Allowed: b.Allowed.Strings(), Attribution: &b.Attribution, Denied: append([]string{}, b.Denied.Strings()...), Derivatives: b.Derivatives,
		Redistribution: b.Redistribution, Scope: &scope, TermsURL: b.TermsURL,
		Retention: &grants.RetentionTerms{CachedCopyDays: &b.Retention.CachedCopyDays, FeatureDays: &b.Retention.FeatureDays},
	}
}
