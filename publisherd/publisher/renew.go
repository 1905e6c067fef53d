package publisher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A RenewRequest is what `publisherd grant renew` is told. What is absent
// stays as it is.
type RenewRequest struct {
	Prefixes []string
	List     *List // in place of the present scope, prefixes included
	Purposes grants.Purposes
	Terms    *grants.PolicyTerms
	Lifetime time.Duration
	Mode     grants.Mode
	// Statements take the place of those that the grant was drawn from. Without
	// them, those are read again, and have to allow what is granted still.
	Statements []*Statement
	Of         envelope.Hash // the grant to be renewed, where a later one must not be
}

// errOvertaken is returned where the grant to be renewed is not the newest.
var errOvertaken = errors.New("the grant was renewed already")

// RenewGrant signs the next grant of a series, with its policy, in place of
// the one in force, which may have expired. Leaf key and relation stay: the
// pages that the indexer holds are rebound to the new grant, not sent again.
// A grant that was revoked is not renewed if its pages had to be deleted.
func RenewGrant(dir, id string, q RenewRequest, now time.Time) (*Relationship, []grants.Warning, error) {
	local, err := identity.Load(dir, now)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := lockGrants(dir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	rel, err := FindGrant(dir, id)
	if err != nil {
		return nil, nil, err
	}
	if !q.Of.IsZero() && rel.Pair.Grant.Object.ID != q.Of {
		return nil, nil, errOvertaken
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
	if err := rel.restate(&draft, q.Statements); err != nil {
		return nil, nil, err
	}
	if err := checkIssue(dir, rel, draft.Scope, now); err != nil {
		return nil, nil, err
	}
	warnings, err := rel.issue(dir, draft, q.List, local)
	return rel, warnings, err
}

// restate narrows a draft by the statements on which it rests, as they are now.
// One that denies, or allows no more, what is to be granted ends the renewal.
func (r *Relationship) restate(d *grants.Draft, anew []*Statement) error {
	if anew == nil {
		for _, old := range r.Statements {
			s, err := ReadStatement(old.File)
			if err != nil {
				return &Refused{Reason: grants.ErrPolicy, Detail: fmt.Sprintf("the grant rests on %s, which cannot be read (%v); name it anew by --from-policy", old.File, err)}
			}
			anew = append(anew, s)
		}
	}
	granted, terms, err := byStatements(anew, r.Indexer, d.Purposes, d.Terms, d.Scope)
	if err != nil {
		return err
	}
	if !slices.Equal(granted, d.Purposes) {
		return &Refused{Reason: grants.ErrPurpose, Detail: fmt.Sprintf("of %v, the statements on which the grant rests allow %v now", d.Purposes, granted)}
	}
	d.Terms, r.Statements = terms, anew
	return nil
}

// apply puts what is asked for in the place of what was.
func (q *RenewRequest) apply(d *grants.Draft) error {
	if q.Lifetime != 0 {
		d.Lifetime = q.Lifetime
	}
	if q.Mode != "" {
		d.Mode = q.Mode
	}
	if len(q.Prefixes) > 0 {
		scope, err := grants.PrefixScope(q.Prefixes...)
		if err != nil {
			return err
		}
		d.Scope.Prefixes = scope.Prefixes
		d.Terms.Scope = nil
	}
	if q.List != nil {
		d.Scope, d.Terms.Scope = q.List.Scope, nil
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
