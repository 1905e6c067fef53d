package grants

import (
	"fmt"
	"slices"
)

// PolicyTerms are the members of a policy that its author chooses, as a file
// holds them (UZPIF-OI 11.1). What is absent gets a default; see Issue.
type PolicyTerms struct {
	Allowed        []string        `json:"allowed,omitzero"` // default: what is granted
	Attribution    *Attribution    `json:"attribution,omitzero"`
	Denied         []string        `json:"denied,omitzero"` // default: training, unless granted; an empty list denies nothing
	Derivatives    Derivatives     `json:"derivatives,omitzero"`
	Redistribution Permission      `json:"redistribution,omitzero"`
	Retention      *RetentionTerms `json:"retention,omitzero"`
	Scope          *Scope          `json:"scope,omitzero"` // default: the grant's
	TermsURL       string          `json:"terms_url,omitzero"`
}

// RetentionTerms are Retention with each member optional.
type RetentionTerms struct {
	CachedCopyDays *uint64 `json:"cached_copy_days,omitzero"`
	FeatureDays    *uint64 `json:"feature_days,omitzero"`
}

// Defaults of a policy.
const defaultRetentionDays = 30

// body makes the policy's body for a grant of purposes over scope.
func (t PolicyTerms) body(granted Purposes, scope Scope) (PolicyBody, error) {
	b := PolicyBody{
		Allowed:     granted,
		Attribution: Attribution{Required: true, LinkBack: true},
		Denied:      defaultDenials(granted),
		Derivatives: Derivatives{
			Embeddings: choose(t.Derivatives.Embeddings, granted.Has(AIEmbed)),
			Other:      t.Derivatives.Other,
			Snippets:   choose(t.Derivatives.Snippets, granted.Has(SearchSnippet)),
			Summary:    choose(t.Derivatives.Summary, granted.Has(AISummarise)),
		},
		Redistribution: choose(t.Redistribution, false),
		Retention:      Retention{CachedCopyDays: defaultRetentionDays, FeatureDays: defaultRetentionDays},
		Scope:          scope,
		TermsURL:       t.TermsURL,
	}
	var err error
	if t.Allowed != nil {
		if b.Allowed, err = ParsePurposes(t.Allowed); err != nil {
			return b, fmt.Errorf("allowed: %w", err)
		}
	}
	if t.Denied != nil {
		if b.Denied, err = ParsePurposes(t.Denied); err != nil {
			return b, fmt.Errorf("denied: %w", err)
		}
	}
	if t.Attribution != nil {
		b.Attribution = *t.Attribution
	}
	if r := t.Retention; r != nil {
		b.Retention.CachedCopyDays = orDefault(r.CachedCopyDays)
		b.Retention.FeatureDays = orDefault(r.FeatureDays)
	}
	if t.Scope != nil {
		b.Scope = *t.Scope
		b.Scope.Prefixes = slices.Compact(slices.Sorted(slices.Values(t.Scope.Prefixes)))
		if b.Scope.Type == "" {
			b.Scope.Type = URLPrefix
		}
	}
	return b, nil
}

// Narrow makes of t what both t and o allow, purposes and scope aside: of two
// permissions the denial counts, of two retentions the shorter, and whatever
// attribution one of them asks for. Terms for people that t has stay.
func (t *PolicyTerms) Narrow(o PolicyTerms) {
	for _, x := range []struct{ ours, theirs *Permission }{
		{&t.Derivatives.Embeddings, &o.Derivatives.Embeddings}, {&t.Derivatives.Other, &o.Derivatives.Other},
		{&t.Derivatives.Snippets, &o.Derivatives.Snippets}, {&t.Derivatives.Summary, &o.Derivatives.Summary},
		{&t.Redistribution, &o.Redistribution},
	} {
		if *x.ours == "" || *x.theirs == Denied {
			*x.ours = *x.theirs
		}
	}
	if o.Attribution != nil {
		if t.Attribution == nil {
			t.Attribution = new(Attribution)
		}
		t.Attribution = &Attribution{
			LinkBack: t.Attribution.LinkBack || o.Attribution.LinkBack, Required: t.Attribution.Required || o.Attribution.Required,
		}
	}
	if o.Retention != nil {
		if t.Retention == nil {
			t.Retention = new(RetentionTerms)
		}
		t.Retention = &RetentionTerms{
			CachedCopyDays: shorter(t.Retention.CachedCopyDays, o.Retention.CachedCopyDays),
			FeatureDays:    shorter(t.Retention.FeatureDays, o.Retention.FeatureDays),
		}
	}
	if t.TermsURL == "" {
		t.TermsURL = o.TermsURL
	}
}

// KeepAtMost shortens both retentions to at most that many days; where one is not
// stated, its default counts.
func (t *PolicyTerms) KeepAtMost(days uint64) {
	r := RetentionTerms{}
	if t.Retention != nil {
		r = *t.Retention
	}
	copies, features := min(orDefault(r.CachedCopyDays), days), min(orDefault(r.FeatureDays), days)
	t.Retention = &RetentionTerms{CachedCopyDays: &copies, FeatureDays: &features}
}

func shorter(a, b *uint64) *uint64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// Deny adds to what is denied, which is stated by this.
func (t *PolicyTerms) Deny(granted, denied Purposes) {
	if t.Denied == nil {
		t.Denied = defaultDenials(granted).Strings()
	}
	t.Denied = append(slices.Clone(t.Denied), denied.Strings()...)
	slices.Sort(t.Denied)
	t.Denied = slices.Compact(t.Denied)
}

// defaultDenials denies training in words, where it is not granted. Fine-tuning
// granted alone rules out denying ai.train, which would deny it too; ai.train
// is then not allowed, for want of being named.
func defaultDenials(granted Purposes) Purposes {
	var denied Purposes
	if !granted.Has(AIFinetune) {
		denied = append(denied, AIFinetune)
		if !granted.Has(AITrain) {
			denied = append(denied, AITrain)
		}
	}
	return denied
}

func choose(stated Permission, otherwise bool) Permission {
	switch {
	case stated != "":
		return stated
	case otherwise:
		return Allowed
	}
	return Denied
}

func orDefault(days *uint64) uint64 {
	if days == nil {
		return defaultRetentionDays
	}
	return *days
}
