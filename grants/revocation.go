package grants

import (
	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Disposition says what becomes of content whose grant is revoked (UZPIF-OI
// 12.6). Whatever it is, acquisition and every exit stop at once.
type Disposition string

// The dispositions, from the mildest to the strictest.
const (
	DispositionStop      Disposition = "stop"      // what is held may stay, and goes nowhere
	DispositionRetention Disposition = "retention" // it goes when the policy's retention ends
	DispositionDelete    Disposition = "delete"    // it goes now
)

// A Target is what is revoked: exactly one member is set.
type Target struct {
	GrantID      envelope.Hash `json:"grant_id,omitzero"`
	Relationship bool          `json:"relationship,omitzero"` // every grant of the publisher to this indexer
	Scope        *Scope        `json:"scope,omitzero"`        // these pages, in the series
}

// Through is the highest position of the grants that a revocation reaches.
type Through struct {
	Epoch    uint64 `json:"epoch"`
	Sequence uint64 `json:"sequence"`
}

// RevocationBody is the body of a revocation (UZPIF-OI 12.6). Fields stand in
// canonical order.
type RevocationBody struct {
	Disposition Disposition   `json:"disposition"`
	Publisher   envelope.Name `json:"publisher"`
	Series      string        `json:"series,omitzero"`
	Target      Target        `json:"target"`
	Through     *Through      `json:"through,omitzero"`
}

// Validate makes the checks that the schema leaves open. Series and Through
// are present unless the target is the relationship.
func (b *RevocationBody) Validate() error {
	set := 0
	for _, is := range []bool{!b.Target.GrantID.IsZero(), b.Target.Relationship, b.Target.Scope != nil} {
		if is {
			set++
		}
	}
	switch {
	case b.Disposition != DispositionStop && b.Disposition != DispositionRetention && b.Disposition != DispositionDelete:
		return refuse(ErrMalformed, "disposition %.40q", string(b.Disposition))
	case set != 1:
		return refuse(ErrMalformed, "%d targets, want one", set)
	case b.Target.Relationship != (b.Series == ""), b.Target.Relationship != (b.Through == nil):
		return refuse(ErrMalformed, "series and through go with every target but the relationship")
	case b.Target.Relationship:
		return nil
	case b.Through.Epoch > envelope.MaxInteger || b.Through.Sequence > envelope.MaxInteger:
		return refuse(ErrMalformed, "through: beyond 2^53-1")
	}
	if err := checkName(b.Series, maxSeries); err != nil {
		return refuse(ErrMalformed, "series: %v", err)
	}
	if s := b.Target.Scope; s != nil {
		if s.IsListed() { // it would have to be read as all pages under its prefixes
			return refuse(ErrScopeType, "a revocation names its pages by prefixes, not by a %s", s.Type)
		}
		return s.Validate()
	}
	return nil
}

// A Revocation is an opened revocation. It counts whenever it arrives: no
// later object undoes it.
type Revocation struct {
	Object *envelope.Object
	Body   RevocationBody
}

// Revoke is the body that revokes g, and every older grant of its series.
func (g *Grant) Revoke(d Disposition) RevocationBody {
	return RevocationBody{
		Disposition: d, Publisher: g.Body.Issuer, Series: g.Body.Series,
		Target: Target{GrantID: g.Object.ID}, Through: &Through{g.Object.Epoch, g.Object.Sequence},
	}
}

// RevokeScope is the body that revokes the pages of scope under g and every
// older grant of its series.
func (g *Grant) RevokeScope(scope Scope, d Disposition) RevocationBody {
	b := g.Revoke(d)
	b.Target = Target{Scope: &scope}
	return b
}

// RevokeAll is the body that ends the whole relationship with an indexer, for
// every grant whose epoch is not above the revocation's own. To begin anew the
// publisher issues grants of a higher epoch.
func RevokeAll(publisher envelope.Name, d Disposition) RevocationBody {
	return RevocationBody{Disposition: d, Publisher: publisher, Target: Target{Relationship: true}}
}

// SignRevocation signs b.
func SignRevocation(b RevocationBody, s Stamp, signers ...*envelope.Signer) (*Revocation, error) {
	o, err := sign(s.header(envelope.Revocation, b.Publisher), &b, signers)
	if err != nil {
		return nil, err
	}
	return &Revocation{o, b}, nil
}

// OpenRevocation opens a revocation: signature and time of issue, publisher =
// subject (ErrIssuer), audience = indexer (ErrAudience). The object
// authenticates itself, so it may come over any way: v.Publisher is compared
// only if it is set. One that says when it begins or ends is malformed:
// consent that is withdrawn is withdrawn at once and for good.
func OpenRevocation(raw []byte, v Verifier) (*Revocation, error) {
	o, b, err := open[RevocationBody](raw, envelope.Revocation, v)
	if err != nil {
		return nil, err
	}
	if !o.NotBefore.IsZero() || !o.ExpiresAt.IsZero() {
		return nil, refuse(ErrMalformed, "a revocation has neither not_before nor expires_at")
	}
	if v.Publisher == "" {
		v.Publisher = b.Publisher
	}
	if err := v.checkParties(o, b.Publisher, v.Publisher); err != nil {
		return nil, err
	}
	return &Revocation{o, b}, nil
}

// Reaches reports whether r revokes g, or some of its pages. It never reaches
// the grant of another publisher or to another indexer. A revoked relationship
// reaches each grant whose epoch is not above r's own. Any other target reaches
// within its series, up to Through: a grant that is shown again after it was
// revoked stays revoked, and one that was issued later stands. The grant that
// the target names is reached whatever Series and Through say, and a scope
// reaches only grants that it meets.
func (r *Revocation) Reaches(g *Grant) bool {
	b := r.Body
	if b.Publisher != g.Body.Issuer || r.Object.Audience != g.Object.Audience {
		return false
	}
	switch {
	case b.Target.Relationship:
		return g.Object.Epoch <= r.Object.Epoch
	case b.Target.GrantID == g.Object.ID:
		return true
	case b.Series != g.Body.Series:
		return false
	}
	at := envelope.Position{Epoch: g.Object.Epoch, Sequence: g.Object.Sequence}
	older := at.Compare(envelope.Position{Epoch: b.Through.Epoch, Sequence: b.Through.Sequence}) <= 0
	return older && (b.Target.Scope == nil || Overlaps(*b.Target.Scope, g.Body.Scope))
}

// ReachesWhole reports whether r leaves nothing of g.
func (r *Revocation) ReachesWhole(g *Grant) bool {
	return r.Reaches(g) && (r.Body.Target.Scope == nil || r.Body.Target.Scope.holdsAll(g.Body.Scope))
}

// ScopeHash is what log objects say that r does to g: the hash of g's own scope
// if r leaves nothing of g, else that of the scope that r names, with g's nonce.
// So everyone can tell the two apart who has seen another entry under g.
func (r *Revocation) ScopeHash(g *Grant) (envelope.Hash, error) {
	if r.Body.Target.Scope == nil || r.ReachesWhole(g) {
		return g.ScopeHash, nil
	}
	return ScopeHash(g.Body.Nonce, *r.Body.Target.Scope)
}

// ReachesPage reports whether r revokes the page url under g. With or without a
// query, and in whatever form: in doubt, consent is withdrawn.
func (r *Revocation) ReachesPage(g *Grant, url string) bool {
	return r.Reaches(g) && (r.Body.Target.Scope == nil || r.Body.Target.Scope.reaches(url))
}
