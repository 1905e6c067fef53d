package grants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Stamp is what the envelope of an object holds beside its body: whom it is
// addressed to, its position in its stream, and when it was issued.
type Stamp struct {
	Indexer         envelope.Name
	Epoch, Sequence uint64
	At              time.Time
}

func (s Stamp) header(t envelope.Type, publisher envelope.Name) envelope.Header {
	return envelope.Header{
		Type: t, Authority: publisher.Authority(), Subject: publisher, Audience: s.Indexer,
		Epoch: s.Epoch, Sequence: s.Sequence, IssuedAt: s.At,
	}
}

// A Draft is what a publisher wants to grant. Grant and policy share epoch and
// sequence: they are issued together, each in a stream of its own.
type Draft struct {
	Stamp
	Publisher     envelope.Name
	Series        string
	Scope         Scope
	Purposes      Purposes
	Constraints   Constraints
	Mode          Mode          // "" is ModeBoth
	Listing       Listing       // "" is ListingBlinded
	Terms         PolicyTerms   // absent members get the defaults
	LeafKeyCommit envelope.Hash // of the series' leaf key
	Lifetime      time.Duration // 0 is DefaultLifetime; at most MaxLifetime
	// GrantNonce and PolicyNonce are random, and drawn anew for each issue.
	GrantNonce, PolicyNonce Nonce
}

// Issue makes and signs a grant and its policy. Terms that are absent become:
// allowed = what is granted, denied = ai.train and ai.finetune unless granted,
// derivatives = those whose purpose is granted, retention 30 days each,
// redistribution denied, attribution required with a link back, scope = the
// grant's, or its prefixes if that names a list. What the other side would refuse is refused here, with the same
// Reason; what is legal but broad is told in the warnings (UZPIF-OI 14, 15).
func Issue(d Draft, signers ...*envelope.Signer) (Pair, []Warning, error) {
	if d.Lifetime == 0 {
		d.Lifetime = DefaultLifetime
	}
	if d.Lifetime < time.Second || d.Lifetime > MaxLifetime {
		return Pair{}, nil, refuse(ErrLifetime, "%s, want one second to %s", d.Lifetime, MaxLifetime)
	}
	policy, err := d.signPolicy(signers)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("policy: %w", err)
	}
	grant, err := d.signGrant(policy.Object.ID, signers)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("grant: %w", err)
	}
	pair, err := NewPair(grant, policy)
	if err != nil {
		return Pair{}, nil, err
	}
	return pair, pair.Warnings(), nil
}

func (d Draft) signPolicy(signers []*envelope.Signer) (*Policy, error) {
	b, err := d.Terms.body(d.Purposes, d.policyScope())
	if err != nil {
		return nil, err
	}
	b.Issuer, b.Series, b.Nonce = d.Publisher, d.Series, d.PolicyNonce
	o, err := sign(d.header(envelope.Policy, d.Publisher), &b, signers)
	return &Policy{Object: o, Body: b}, err
}

// policyScope is what the policy covers unless its terms say otherwise: the
// grant's scope, or all that its list may ever name. What counts is what both
// cover.
func (d Draft) policyScope() Scope {
	if d.Scope.IsListed() {
		return d.Scope.Frame()
	}
	return d.Scope
}

func (d Draft) signGrant(policy envelope.Hash, signers []*envelope.Signer) (*Grant, error) {
	b := GrantBody{
		Constraints: d.Constraints, Issuer: d.Publisher, LeafKeyCommit: d.LeafKeyCommit, Listing: d.Listing, Mode: d.Mode,
		Nonce: d.GrantNonce, PolicyHash: policy, Purposes: d.Purposes, Scope: d.Scope, Series: d.Series,
	}
	if b.Mode == "" {
		b.Mode = ModeBoth
	}
	if b.Listing == "" {
		b.Listing = ListingBlinded
	}
	h := d.header(envelope.DiscoveryGrant, d.Publisher)
	h.ExpiresAt = h.IssuedAt.Add(d.Lifetime)
	o, err := sign(h, &b, signers)
	if err != nil {
		return nil, err
	}
	return newGrant(o, b)
}

// sign signs a body that passes its own check.
func sign(h envelope.Header, b interface{ Validate() error }, signers []*envelope.Signer) (*envelope.Object, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	o, err := envelope.Sign(h, b, signers...)
	return o, typed(err)
}

// A WarningCode names a way in which a grant is broad.
type WarningCode string

// The warnings.
const (
	WarnWholeOrigin WarningCode = "whole-origin" // a prefix is a whole origin
	WarnAllPurposes WarningCode = "all-purposes" // every common purpose is granted
	WarnTraining    WarningCode = "training"     // a model does not forget
	WarnLongLived   WarningCode = "long-lived"   // longer than DefaultLifetime
	WarnPlainHTTP   WarningCode = "plain-http"   // pages that anyone on the way can change
	WarnPublic      WarningCode = "public"       // the log will name the publisher
	WarnThirdParty  WarningCode = "third-party"  // the content may be handed on
	WarnKept        WarningCode = "kept"         // copies may be kept for longer than the grant lasts
	WarnArchive     WarningCode = "archive"      // an archive is made to last
	WarnNameless    WarningCode = "nameless"     // nobody has to name the source
	WarnDerivatives WarningCode = "derivatives"  // anything may be made of the content
)

// A Warning is a thing to think about before a grant is given away.
type Warning struct {
	Code   WarningCode `json:"code"`
	Detail string      `json:"detail"` // one sentence for the person who signs
}

// Warnings lists what is broad about the pair, in a fixed order.
func (p Pair) Warnings() []Warning {
	var found []Warning
	warn := func(c WarningCode, format string, args ...any) {
		found = append(found, Warning{c, fmt.Sprintf(format, args...)})
	}
	g := p.Grant.Body
	for _, prefix := range g.Scope.Prefixes {
		if path, end, ok := shape(prefix); ok && end-path == 1 {
			warn(WarnWholeOrigin, "The grant covers every page of %s.", prefix[:path])
		}
	}
	if !slices.ContainsFunc(CommonPurposes(), func(c Purpose) bool { return !g.Purposes.Has(c) }) {
		warn(WarnAllPurposes, "The grant allows every purpose that has a name.")
	}
	if g.Purposes.Has(AITrain) || g.Purposes.Has(AIFinetune) {
		warn(WarnTraining, "What a model has learnt cannot be withdrawn by a revocation.")
	}
	if life := p.Grant.Object.ExpiresAt.Sub(p.Grant.Object.IssuedAt); life > DefaultLifetime {
		warn(WarnLongLived, "The grant lasts %s; a short one that is renewed is safer if the indexer is compromised.", days(life))
	}
	if slices.ContainsFunc(g.Scope.Prefixes, func(s string) bool { return strings.HasPrefix(s, "http://") }) {
		warn(WarnPlainHTTP, "The scope has pages that are served without TLS.")
	}
	if g.Listing == ListingPublic {
		warn(WarnPublic, "The public log will name the publisher, for good.")
	}
	if p.Policy.Body.Redistribution == Allowed {
		warn(WarnThirdParty, "The indexer may hand the content to third parties.")
	}
	return append(found, p.loose()...)
}

// loose lists what the policy leaves to the indexer.
func (p Pair) loose() []Warning {
	var found []Warning
	b, r := p.Policy.Body, p.Retention()
	if kept := max(r.CachedCopyDays, r.FeatureDays); time.Duration(kept)*24*time.Hour > p.Grant.Object.ExpiresAt.Sub(p.Grant.Object.IssuedAt) {
		found = append(found, Warning{WarnKept, fmt.Sprintf("What was delivered may be kept for %d days, which is longer than the grant lasts.", kept)})
	}
	if p.Grant.Body.Purposes.Has(Archive) {
		found = append(found, Warning{WarnArchive, "An archive is made to last; say how long by the retention, and end it by a revocation with deletion."})
	}
	if !b.Attribution.Required {
		found = append(found, Warning{WarnNameless, "Nobody has to name the source."})
	}
	if b.Derivatives.Other == Allowed {
		found = append(found, Warning{WarnDerivatives, "Anything may be made of the content, as far as the purposes reach."})
	}
	return found
}

// days writes a duration of more than a day, in whole days where it is one.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
