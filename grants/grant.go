package grants

import (
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// Lifetimes of grants.
const (
	DefaultLifetime = 30 * 24 * time.Hour // what Issue gives
	MaxLifetime     = 90 * 24 * time.Hour // what a Verifier accepts unless told otherwise
)

// A Mode says who begins a transfer (UZPIF-OI 12.3).
type Mode string

// The modes.
const (
	ModePush    Mode = "push"    // the publisher sends what changed
	ModeRequest Mode = "request" // the indexer asks, the publisher answers
	ModeBoth    Mode = "both"
)

// ParseMode reads a mode as a person writes it: "push+request" is "both".
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case ModePush, ModeRequest, ModeBoth:
		return m, nil
	case "push+request":
		return ModeBoth, nil
	}
	return "", refuse(ErrMalformed, "mode %.40q, want push, request or both", s)
}

// Pushes reports whether the publisher may send pages that nobody asked for.
func (m Mode) Pushes() bool { return m != ModeRequest }

// Asks reports whether the indexer may ask for pages.
func (m Mode) Asks() bool { return m != ModePush }

// A Listing says how log objects name the publisher.
type Listing string

// The listings.
const (
	ListingBlinded Listing = "blinded" // by a hash that only the two sides can resolve
	ListingPublic  Listing = "public"  // by its identity
)

// Constraints are the limits that a grant sets (UZPIF-OI 10.1). The member is
// always present and may be empty; each limit is absent when it is zero.
type Constraints struct {
	Attribution       string `json:"attribution,omitzero" yaml:"attribution,omitempty"`                   // text to be shown with the content; at most 256 octets
	MaxBytesPerDay    uint64 `json:"max_bytes_per_day,omitzero" yaml:"max_bytes_per_day,omitempty"`       // octets of payload, by UTC day
	MaxFetchPerSecond uint64 `json:"max_fetch_per_second,omitzero" yaml:"max_fetch_per_second,omitempty"` // pages asked for, by second
	RetentionDays     uint64 `json:"retention_days,omitzero" yaml:"retention_days,omitempty"`             // cap on both retentions of the policy
}

const (
	maxAttribution = 256       // octets
	maxDays        = 36500     // a century
	maxFetchRate   = 1_000_000 // pages a second
)

func (c Constraints) validate() error {
	switch {
	case len(c.Attribution) > maxAttribution || !isLine(c.Attribution):
		return refuse(ErrMalformed, "constraints.attribution: one line of at most %d octets", maxAttribution)
	case c.RetentionDays > maxDays:
		return refuse(ErrMalformed, "constraints.retention_days: %d, at most %d", c.RetentionDays, maxDays)
	case c.MaxFetchPerSecond > maxFetchRate:
		return refuse(ErrMalformed, "constraints.max_fetch_per_second: %d, at most %d", c.MaxFetchPerSecond, maxFetchRate)
	case c.MaxBytesPerDay > envelope.MaxInteger:
		return refuse(ErrMalformed, "constraints.max_bytes_per_day: %d, at most 2^53-1", c.MaxBytesPerDay)
	}
	return nil
}

// isLine reports whether s can be shown to a person on one line as it is.
func isLine(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// GrantBody is the body of a discovery-grant (UZPIF-OI 10.1); audience and
// expiry stand in the envelope. Fields stand in canonical order.
type GrantBody struct {
	Constraints   Constraints   `json:"constraints"`
	Issuer        envelope.Name `json:"issuer"`          // the publisher
	LeafKeyCommit envelope.Hash `json:"leaf_key_commit"` // of the series' leaf key
	Listing       Listing       `json:"listing"`
	Mode          Mode          `json:"mode"`
	Nonce         Nonce         `json:"nonce"`
	PolicyHash    envelope.Hash `json:"policy_hash"` // the policy's object_id
	Purposes      Purposes      `json:"purposes"`    // 1 to MaxPurposes
	Scope         Scope         `json:"scope"`
	Series        string        `json:"series"` // 1 to 128 of [a-z0-9._-]
}

// Validate makes the checks that the schema leaves open. Each error has its
// Reason.
func (b *GrantBody) Validate() error {
	switch {
	case b.Listing != ListingBlinded && b.Listing != ListingPublic:
		return refuse(ErrMalformed, "listing %.40q", string(b.Listing))
	case b.Mode != ModePush && b.Mode != ModeRequest && b.Mode != ModeBoth:
		return refuse(ErrMalformed, "mode %.40q", string(b.Mode))
	case b.LeafKeyCommit.IsZero() || b.PolicyHash.IsZero() || b.Nonce.IsZero():
		return refuse(ErrMalformed, "leaf_key_commit, policy_hash and nonce are never zero")
	case len(b.Purposes) == 0:
		return refuse(ErrPurpose, "the grant names none")
	}
	if err := checkName(b.Series, maxSeries); err != nil {
		return refuse(ErrMalformed, "series: %v", err)
	}
	if err := b.Purposes.Validate(); err != nil {
		return err
	}
	if err := b.Scope.Validate(); err != nil {
		return err
	}
	return b.Constraints.validate()
}

// A Grant is an opened discovery-grant. It says nothing alone: what it allows
// depends on its policy (see Pair).
type Grant struct {
	Object    *envelope.Object
	Body      GrantBody
	ScopeHash envelope.Hash // as log objects name the scope
}

// A Verifier is what the one to whom an object is shown knows by itself.
type Verifier struct {
	Keys envelope.KeySource
	Now  time.Time
	// Publisher is the authenticated peer, or whoever is expected to have
	// issued the object; Indexer is whom it must be addressed to.
	Publisher, Indexer envelope.Name
	// MaxLifetime caps a grant's life from issue to expiry; 0 is MaxLifetime.
	MaxLifetime time.Duration
}

// OpenGrant opens a grant, and makes every check of UZPIF-OI 10.1 that needs
// no policy: signature and time, issuer = publisher = subject (ErrIssuer),
// audience = indexer (ErrAudience), life within the cap (ErrLifetime), purposes
// and scope of the schema. Stream state and revocations are the caller's.
func OpenGrant(raw []byte, v Verifier) (*Grant, error) {
	o, b, err := open[GrantBody](raw, envelope.DiscoveryGrant, v)
	if err != nil {
		return nil, err
	}
	if err := v.checkParties(o, b.Issuer, v.Publisher); err != nil {
		return nil, err
	}
	limit := v.MaxLifetime
	if limit == 0 {
		limit = MaxLifetime
	}
	if err := checkLifetime(o, limit); err != nil {
		return nil, err
	}
	return newGrant(o, b)
}

func newGrant(o *envelope.Object, b GrantBody) (*Grant, error) {
	h, err := ScopeHash(b.Nonce, b.Scope)
	if err != nil {
		return nil, err
	}
	return &Grant{Object: o, Body: b, ScopeHash: h}, nil
}

// checkParties binds an object to the identities of the session (UZPIF-OI
// 10.1). The envelope has shown that issuer signed it.
func (v Verifier) checkParties(o *envelope.Object, issuer, publisher envelope.Name) error {
	switch {
	case issuer != publisher:
		return refuse(ErrIssuer, "%s, the peer is %s", issuer, publisher)
	case o.Subject != issuer:
		return refuse(ErrIssuer, "%s, about %s", issuer, o.Subject)
	case o.Authority != issuer.Authority():
		return refuse(ErrIssuer, "%s, under the authority %s", issuer, o.Authority)
	case o.Audience != v.Indexer:
		return refuse(ErrAudience, "%s, this is %s", o.Audience, v.Indexer)
	}
	return nil
}

// checkLifetime counts from whichever of issued_at and not_before is earlier,
// so that an object cannot be made long ago for later.
func checkLifetime(o *envelope.Object, limit time.Duration) error {
	from := o.IssuedAt
	if !o.NotBefore.IsZero() && o.NotBefore.Before(from) {
		from = o.NotBefore
	}
	if life := o.ExpiresAt.Sub(from); life > limit {
		return refuse(ErrLifetime, "%s, at most %s", life, limit)
	}
	return nil
}

// fresh is the envelope's check of time, with its Reason.
func fresh(o *envelope.Object, now time.Time) error { return typed(o.Fresh(now)) }
