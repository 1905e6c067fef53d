package grants

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"
)

// maxTerms is the greatest size of a file of terms, in octets.
const maxTerms = 64 << 10

// PolicyTerms are the members of a policy that its author chooses, as a file
// holds them. What is absent gets a default; see Draft.
type PolicyTerms struct {
	Allowed        []string        `json:"allowed,omitzero" yaml:"allowed"` // default: what is granted
	Attribution    *Attribution    `json:"attribution,omitzero" yaml:"attribution"`
	Denied         []string        `json:"denied,omitzero" yaml:"denied"` // default: training, unless granted; an empty list denies nothing
	Derivatives    Derivatives     `json:"derivatives,omitzero" yaml:"derivatives"`
	Redistribution Permission      `json:"redistribution,omitzero" yaml:"redistribution"`
	Retention      *RetentionTerms `json:"retention,omitzero" yaml:"retention"`
	Scope          *Scope          `json:"scope,omitzero" yaml:"scope"` // default: the grant's
	TermsURL       string          `json:"terms_url,omitzero" yaml:"terms_url"`
}

// RetentionTerms are Retention with each member optional.
type RetentionTerms struct {
	CachedCopyDays *uint64 `json:"cached_copy_days,omitzero" yaml:"cached_copy_days"`
	FeatureDays    *uint64 `json:"feature_days,omitzero" yaml:"feature_days"`
}

// Defaults of a policy.
const defaultRetentionDays = 30

// ParsePolicyTerms reads terms in JSON, if the first character is "{", or in
// YAML. Unknown and duplicate members, and anything behind the terms, are
// errors: a misspelt denial must not be lost.
func ParsePolicyTerms(text []byte) (PolicyTerms, error) {
	var t PolicyTerms
	if len(text) > maxTerms {
		return t, fmt.Errorf("policy terms of %d octets, at most %d", len(text), maxTerms)
	}
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		if err := json.Unmarshal(trimmed, &t, json.RejectUnknownMembers(true)); err != nil {
			return PolicyTerms{}, fmt.Errorf("policy terms: %w", err)
		}
		return t, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&t); err != nil && !errors.Is(err, io.EOF) {
		return PolicyTerms{}, fmt.Errorf("policy terms: %w", err)
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return PolicyTerms{}, errors.New("policy terms: more than one document")
	}
	return t, nil
}

// body makes the policy's body for a grant of purposes over scope.
func (t PolicyTerms) body(granted Purposes, scope Scope) (PolicyBody, error) {
	b := PolicyBody{
		Allowed:     granted,
		Attribution: Attribution{Required: true, LinkBack: true},
		Denied:      defaultDenials(granted),
		Derivatives: Derivatives{
			Embeddings: choose(t.Derivatives.Embeddings, granted.Has(AIEmbed)),
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
