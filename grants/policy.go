package grants

import (
	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Permission is "allowed" or "denied"; there is no third.
type Permission string

// The two permissions.
const (
	Allowed Permission = "allowed"
	Denied  Permission = "denied"
)

// Attribution is what must be shown where content is shown (UZPIF-OI 11.1).
type Attribution struct {
	LinkBack bool `json:"link_back"` // a link to the page
	Required bool `json:"required"`  // naming the source
}

// Derivatives says what may be made of the content (UZPIF-OI 11.1). Denying
// one denies the purpose that consists in making it: ai.embed, search.snippet,
// ai.summarise.
type Derivatives struct {
	Embeddings Permission `json:"embeddings"`
	Other      Permission `json:"other,omitzero"` // anything else that is made of the content; absent denies
	Snippets   Permission `json:"snippets"`
	Summary    Permission `json:"summary"`
}

// Retention is for how long copies and what was extracted from them may be
// kept (UZPIF-OI 11.1), in days of 24 hours from the last time that the page
// was included, updated or rebound. 0 keeps nothing beyond its processing.
type Retention struct {
	CachedCopyDays uint64 `json:"cached_copy_days"`
	FeatureDays    uint64 `json:"feature_days"`
}

// PolicyBody is the body of a policy (UZPIF-OI 11). Fields stand in canonical
// order.
type PolicyBody struct {
	Allowed        Purposes      `json:"allowed"`
	Attribution    Attribution   `json:"attribution"`
	Denied         Purposes      `json:"denied"` // wins over Allowed
	Derivatives    Derivatives   `json:"derivatives"`
	Issuer         envelope.Name `json:"issuer"` // the publisher
	Nonce          Nonce         `json:"nonce"`
	Redistribution Permission    `json:"redistribution"` // handing the content to third parties
	Retention      Retention     `json:"retention"`
	Scope          Scope         `json:"scope"`
	Series         string        `json:"series"`
	TermsURL       string        `json:"terms_url,omitzero"` // terms for people, in canonical form
}

// Validate makes the checks that the schema leaves open. Each error has its
// Reason.
func (b *PolicyBody) Validate() error {
	for _, p := range []Permission{b.Derivatives.Embeddings, b.Derivatives.Snippets, b.Derivatives.Summary, b.Redistribution} {
		if p != Allowed && p != Denied {
			return refuse(ErrMalformed, "%.40q is neither allowed nor denied", string(p))
		}
	}
	if o := b.Derivatives.Other; o != "" && o != Allowed && o != Denied {
		return refuse(ErrMalformed, "%.40q is neither allowed nor denied", string(o))
	}
	if b.Nonce.IsZero() {
		return refuse(ErrMalformed, "nonce is never zero")
	}
	if b.Retention.CachedCopyDays > maxDays || b.Retention.FeatureDays > maxDays {
		return refuse(ErrMalformed, "retention: at most %d days", maxDays)
	}
	if b.TermsURL != "" {
		if _, _, ok := shape(b.TermsURL); !ok {
			return refuse(ErrMalformed, "terms_url %.200q is not an absolute http or https URL in canonical form", b.TermsURL)
		}
	}
	if err := checkName(b.Series, maxSeries); err != nil {
		return refuse(ErrMalformed, "series: %v", err)
	}
	if err := b.Allowed.Validate(); err != nil {
		return err
	}
	if err := b.Denied.Validate(); err != nil {
		return err
	}
	return b.Scope.Validate()
}

// Permit refuses, by ErrPolicy, a purpose that the policy denies, or does not
// allow, or of which it denies the derivative.
func (b *PolicyBody) Permit(p Purpose) error {
	switch {
	case b.Denied.Deny(p):
		return refuse(ErrPolicy, "%s is denied", p)
	case !b.Allowed.Has(p):
		return refuse(ErrPolicy, "%s is not among what is allowed", p)
	case p == AIEmbed && b.Derivatives.Embeddings == Denied:
		return refuse(ErrPolicy, "%s, and embeddings are denied", p)
	case p == AISummarise && b.Derivatives.Summary == Denied:
		return refuse(ErrPolicy, "%s, and summaries are denied", p)
	case p == SearchSnippet && b.Derivatives.Snippets == Denied:
		return refuse(ErrPolicy, "%s, and snippets are denied", p)
	}
	return nil
}

// A Policy is an opened policy. Its hash is its object_id.
type Policy struct {
	Object *envelope.Object
	Body   PolicyBody
}

// OpenPolicy opens a policy: signature and time, issuer = publisher = subject
// (ErrIssuer), and the indexer as audience if it names one (ErrAudience).
func OpenPolicy(raw []byte, v Verifier) (*Policy, error) {
	o, b, err := open[PolicyBody](raw, envelope.Policy, v)
	if err != nil {
		return nil, err
	}
	if o.Audience == "" { // a policy may be meant for whoever holds a grant under it
		v.Indexer = ""
	}
	if err := v.checkParties(o, b.Issuer, v.Publisher); err != nil {
		return nil, err
	}
	return &Policy{Object: o, Body: b}, nil
}
