package publisher

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A GrantRequest is what `publisherd grant issue` is told.
type GrantRequest struct {
	Indexer     envelope.Name
	Source      string
	Scope       grants.Scope
	List        *List // of a scope that is for one; its own scope counts then
	Purposes    grants.Purposes
	Terms       grants.PolicyTerms
	Statements  []*Statement // by which purposes and terms are narrowed
	Constraints grants.Constraints
	Listing     grants.Listing
	Mode        grants.Mode // "" is push
	Lifetime    time.Duration
	DryRun      bool // nothing is signed with the identity's keys, and nothing kept
}

// IssueGrant signs a grant with its policy for a trusted indexer, and stores
// both with the secrets of the new series. It needs no store: the identity and
// the folder are enough.
func IssueGrant(dir string, q GrantRequest, now time.Time) (*Relationship, []grants.Warning, error) {
	q.Mode = cmp.Or(q.Mode, grants.ModePush)
	if q.List != nil {
		q.Scope = q.List.Scope
	}
	local, err := identity.Load(dir, now)
	if err != nil {
		return nil, nil, err
	}
	unlock, err := lockGrants(dir)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	rel, err := newRelationship(q.Indexer, q.Source)
	if err != nil {
		return nil, nil, err
	}
	rel.Statements = q.Statements
	if q.Purposes, q.Terms, err = byStatements(q.Statements, q.Indexer, q.Purposes, q.Terms, q.Scope); err != nil {
		return nil, nil, err
	}
	if err := checkIssue(dir, rel, q.Scope, now); err != nil {
		return nil, nil, err
	}
	draft := grants.Draft{
		Stamp:     grants.Stamp{Indexer: q.Indexer, Epoch: local.Epoch(envelope.UseEnvelope), Sequence: 1, At: now},
		Publisher: local.Name(), Series: rel.Series, Scope: q.Scope, Purposes: q.Purposes, Constraints: q.Constraints,
		Mode: q.Mode, Listing: q.Listing, Terms: q.Terms, LeafKeyCommit: rel.LeafKey.Commit(), Lifetime: q.Lifetime,
	}
	if q.DryRun {
		warnings, err := rel.preview(dir, draft, q.List)
		return rel, warnings, err
	}
	warnings, err := rel.issue(dir, draft, q.List, local)
	return rel, warnings, err
}

// preview is issue without its effect: the pair is signed by a key that nobody
// trusts and that is forgotten.
func (r *Relationship) preview(dir string, draft grants.Draft, l *List) ([]grants.Warning, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	nobody, err := envelope.NewSigner(key)
	if err != nil {
		return nil, err
	}
	pair, warnings, err := r.sign(dir, draft, nobody)
	if l != nil {
		warnings = append(warnings, l.warnings()...)
	}
	r.Pair = pair
	return warnings, err
}

// sign makes a pair of a draft, if nothing stands against it.
func (r *Relationship) sign(dir string, draft grants.Draft, signer *envelope.Signer) (grants.Pair, []grants.Warning, error) {
	stated, err := readPreferences(dir, r.Collection)
	if err != nil {
		return grants.Pair{}, nil, err
	}
	if err := withheld(stated, r.Collection, r.Indexer, draft.Purposes); err != nil {
		return grants.Pair{}, nil, err
	}
	if k, limited := stated.Keeping(); limited {
		draft.Terms.KeepAtMost(k.Days)
	}
	for _, n := range []*grants.Nonce{&draft.GrantNonce, &draft.PolicyNonce} {
		if _, err := rand.Read(n[:]); err != nil {
			return grants.Pair{}, nil, err
		}
	}
	pair, warnings, err := grants.Issue(draft, signer)
	if err != nil {
		return grants.Pair{}, nil, err
	}
	return pair, warnings, checkRevocations(dir, r.Indexer, pair.Grant)
}

// issue signs what is drafted, takes it as the pair in force, and stores it, with
// the list that its scope is for, unless that stays as it is.
func (r *Relationship) issue(dir string, draft grants.Draft, l *List, local *identity.Local) ([]grants.Warning, error) {
	pair, warnings, err := r.sign(dir, draft, local.Envelope)
	if err != nil {
		return nil, err
	}
	var before envelope.Hash
	if r.Pair.Grant != nil {
		before = r.listed().Root
	}
	r.Pair = pair
	if err := r.takeList(dir, l, before, draft.At, local); err != nil {
		return nil, err
	}
	if l != nil {
		warnings = append(warnings, l.warnings()...)
	}
	return warnings, r.write(dir)
}

// checkRevocations refuses a grant that was revoked before it was issued.
func checkRevocations(dir string, indexer envelope.Name, g *grants.Grant) error {
	all, err := Revocations(dir)
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.Indexer == indexer && v.Signed.Reaches(g) {
			return &Refused{Reason: grants.ErrRevoked, Detail: fmt.Sprintf("revocation %s reaches it: to begin anew with %s takes a key of a higher epoch", v.ID(), indexer)}
		}
	}
	return nil
}

// checkIssue refuses what the indexer would refuse later: an indexer that is
// not trusted, a collection that is not configured, and a scope that collides with
// that of another grant in force for the same indexer.
func checkIssue(dir string, rel *Relationship, scope grants.Scope, now time.Time) error {
	trust, err := OpenTrust(dir)
	if err != nil {
		return err
	}
	peer, ok := trust.Lookup(rel.Indexer)
	if !ok {
		return &Refused{Reason: grants.ErrUnknownPeer, Detail: fmt.Sprintf("%s; import its card with trust add", rel.Indexer)}
	}
	if peer.Card.Role != identity.Indexer {
		return &Refused{Reason: grants.ErrUnknownPeer, Detail: fmt.Sprintf("%s is no indexer", rel.Indexer)}
	}
	if _, err := ReadSource(dir, rel.Collection); err != nil {
		return err
	}
	rels, err := Relationships(dir)
	if err != nil {
		return err
	}
	for _, r := range rels {
		if r.Series == rel.Series || r.Indexer != rel.Indexer || r.Revoked() || !now.Before(r.Pair.ExpiresAt()) {
			continue
		}
		if grants.Collide(r.Pair.Grant.Body.Scope, scope) {
			return &Refused{Reason: grants.ErrOverlap, Detail: fmt.Sprintf("grant %s of series %s reaches the same pages", r.Pair.Grant.Object.ID, r.Series)}
		}
	}
	return nil
}

// FindGrant finds a series by its name or by the id of its grant.
func FindGrant(dir, id string) (*Relationship, error) {
	rels, err := Relationships(dir)
	if err != nil {
		return nil, err
	}
	for _, r := range rels {
		if r.Series == id || r.Pair.Grant.Object.ID.String() == id {
			return r, nil
		}
	}
	return nil, fmt.Errorf("%w: %.80q", ErrNoGrant, id)
}
