package indexer

import (
	"cmp"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// Terms are what whoever is handed a page has to keep to: what the grant and its
// policy both allow at the moment of the read (UZPIF-OI 11.1). Where a newer grant
// has come that has not taken the page over yet, each member is the stricter one
// of the two.
type Terms struct {
	Purposes       grants.Purposes    `json:"purposes"`
	Attribution    Attribution        `json:"attribution"`
	Derivatives    grants.Derivatives `json:"derivatives"`
	Redistribution grants.Permission  `json:"redistribution"` // denied: to no third party
	TermsURL       string             `json:"terms_url,omitzero"`
	// CopyUntil and FeaturesUntil are when copies, and what was extracted, have to
	// be gone; ExpiresAt is when all use ends unless the grant is renewed.
	CopyUntil     envelope.Time `json:"copy_until"`
	FeaturesUntil envelope.Time `json:"features_until"`
	ExpiresAt     envelope.Time `json:"expires_at"`
}

// Attribution is what has to be shown with the content.
type Attribution struct {
	Required bool   `json:"required"`
	LinkBack bool   `json:"link_back"`
	Text     string `json:"text,omitzero"` // in the publisher's words; empty: its name
}

// terms are the terms of a page that is in the catalogue.
func (g *gate) terms(row *catalogueRow) Terms {
	newest, bound := g.newest, g.bound
	k := g.rec.keeping(newest, bound)
	from := max(row.At, k.from)
	a, b := newest.Policy.Body, bound.Policy.Body
	t := Terms{
		Attribution: Attribution{
			Required: a.Attribution.Required || b.Attribution.Required,
			LinkBack: a.Attribution.LinkBack || b.Attribution.LinkBack,
			Text:     cmp.Or(newest.Grant.Body.Constraints.Attribution, bound.Grant.Body.Constraints.Attribution),
		},
		Derivatives: grants.Derivatives{
			Embeddings: both(a.Derivatives.Embeddings, b.Derivatives.Embeddings),
			Other:      both(a.Derivatives.Other, b.Derivatives.Other),
			Snippets:   both(a.Derivatives.Snippets, b.Derivatives.Snippets),
			Summary:    both(a.Derivatives.Summary, b.Derivatives.Summary),
		},
		Redistribution: both(a.Redistribution, b.Redistribution),
		TermsURL:       cmp.Or(a.TermsURL, b.TermsURL),
		CopyUntil:      unix(from + k.copies), FeaturesUntil: unix(from + k.features),
		ExpiresAt: envelope.At(newest.ExpiresAt()),
	}
	if end := bound.ExpiresAt(); end.Before(t.ExpiresAt.Time) {
		t.ExpiresAt = envelope.At(end)
	}
	for _, p := range bound.Grant.Body.Purposes {
		if newest.Grant.Body.Purposes.Has(p) && a.Permit(p) == nil && b.Permit(p) == nil {
			t.Purposes = append(t.Purposes, p)
		}
	}
	return t
}

func both(a, b grants.Permission) grants.Permission {
	if a == grants.Allowed && b == grants.Allowed {
		return grants.Allowed
	}
	return grants.Denied
}

func unix(seconds int64) envelope.Time { return envelope.At(time.Unix(seconds, 0)) }
