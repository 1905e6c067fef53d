package grants

import (
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A Reason is the code of one kind of refusal, as it travels in answers and
// stands in logs. It is an error itself: errors.Is(err, ErrScope) asks for it.
type Reason string

// The reasons. Publisher, indexer and auditor use these and no others.
const (
	ErrMalformed    Reason = "malformed"         // not of the schema
	ErrUnknownPeer  Reason = "unknown-peer"      // the trust store does not hold this identity
	ErrSignature    Reason = "signature"         // not signed by the one who must sign
	ErrIssuer       Reason = "wrong-issuer"      // UZPIF-OI 10.1: the peer is not the issuer
	ErrAudience     Reason = "wrong-audience"    // UZPIF-OI 10.1: the indexer is not the audience
	ErrExpired      Reason = "expired"           //
	ErrNotYetValid  Reason = "not-yet-valid"     //
	ErrLifetime     Reason = "lifetime"          // valid for longer than the cap
	ErrScope        Reason = "out-of-scope"      // the URL, or a requested scope
	ErrScopeType    Reason = "scope-type"        // a scope type that does not exist, or has no place here
	ErrPurpose      Reason = "purpose"           // not granted, or no purpose at all
	ErrPolicy       Reason = "policy"            // the policy is another one, or does not permit it
	ErrOverlap      Reason = "overlap"           // two live series would hold one page
	ErrOrigin       Reason = "origin"            // the origin is not this publisher's
	ErrBinding      Reason = "session-binding"   // announced for another session or stream
	ErrNoGrant      Reason = "no-grant"          // nothing presented covers it
	ErrSuperseded   Reason = "grant-superseded"  // a newer object of the series is in force
	ErrEquivocation Reason = "equivocation"      // two objects hold one position
	ErrRevoked      Reason = "revoked"           //
	ErrVersion      Reason = "version"           // a protocol version that is not spoken
	ErrOversize     Reason = "oversize"          // a page, frame or message over its limit
	ErrPayload      Reason = "malformed-payload" // a page that is not of its format
	ErrConflict     Reason = "revision-conflict" // one batch key, two batches
	ErrState        Reason = "state-mismatch"    // the two sides hold different states
	ErrBase         Reason = "base-unknown"      // a patch on what is not held
	ErrNotHeld      Reason = "not-held"          // a deletion of what is not held
	ErrExhausted    Reason = "exhausted"         // no room for it now: the same may be taken later
	ErrQuota        Reason = "quota"             // as much of this publisher is held as the indexer's operator lets it have
	ErrLimit        Reason = "limit"             // UZPIF-OI 10.1: a limit of the grant is used up
	ErrCursor       Reason = "cursor"            // of a feed: it leads nowhere, or no further
	ErrRetention    Reason = "retention"         // UZPIF-OI 11.1: the time for which it may be kept is over
	ErrUnasked      Reason = "unasked"           // UZPIF-OI 12.3: sent, where the indexer asks for what it wants
	ErrPushOnly     Reason = "push-only"         // UZPIF-OI 12.3: asked for, where the publisher sends by itself
	ErrChanged      Reason = "changed"           // the page has changed since it was signalled
	ErrCancelled    Reason = "cancelled"         // the request was taken back
	ErrCredit       Reason = "no-credit"         // content that the other side has given no credit for
)

// sentences say each reason to a person. Nothing writes to it.
var sentences = map[Reason]string{
	ErrMalformed:    "not of the required form",
	ErrUnknownPeer:  "this identity is not trusted here",
	ErrSignature:    "not signed by the one who must sign it",
	ErrIssuer:       "issued by another than the authenticated publisher",
	ErrAudience:     "addressed to another indexer",
	ErrExpired:      "expired",
	ErrNotYetValid:  "not valid yet",
	ErrLifetime:     "valid for longer than is accepted",
	ErrScope:        "outside the scope",
	ErrScopeType:    "scope type not supported",
	ErrPurpose:      "purpose not granted",
	ErrPolicy:       "not permitted by the policy",
	ErrOverlap:      "the scope meets that of another series",
	ErrOrigin:       "the origin does not belong to this publisher",
	ErrBinding:      "announced for another session",
	ErrNoGrant:      "no grant covers it",
	ErrSuperseded:   "superseded by a newer object of its series",
	ErrEquivocation: "two different objects claim one position of a series",
	ErrRevoked:      "consent was withdrawn",
	ErrVersion:      "protocol version not spoken",
	ErrOversize:     "larger than is accepted",
	ErrPayload:      "the payload is not of its format",
	ErrConflict:     "other content was sent before under the same revisions",
	ErrState:        "the two sides do not hold the same state",
	ErrBase:         "the base of the patch is not held",
	ErrNotHeld:      "the page is not held",
	ErrExhausted:    "the other side has no room for it now",
	ErrQuota:        "the indexer holds as much of this publisher as its operator allows",
	ErrLimit:        "a limit of the grant is used up",
	ErrCursor:       "the cursor leads nowhere; begin anew",
	ErrRetention:    "the time for which it may be kept is over",
	ErrUnasked:      "nobody asked for it",
	ErrPushOnly:     "the grant does not let the indexer ask",
	ErrChanged:      "the page has changed since",
	ErrCancelled:    "the request was taken back",
	ErrCredit:       "sent without a credit for it",
}

// Error is the reason in words. A code that is not ours, from a peer of a
// later edition, is shown as it is.
func (r Reason) Error() string {
	if s, ok := sentences[r]; ok {
		return s
	}
	return fmt.Sprintf("refused (%.64q)", string(r))
}

// Known reports whether r is one of the reasons above.
func (r Reason) Known() bool { return sentences[r] != "" }

// An Error is a refusal with what it was about. It is its Reason, and its
// Cause if there is one, to errors.Is and errors.As.
type Error struct {
	Reason Reason
	Detail string
	Cause  error
}

func (e *Error) Error() string {
	switch {
	case e.Detail == "" && e.Cause != nil:
		return e.Cause.Error()
	case e.Detail == "":
		return e.Reason.Error()
	case e.Cause != nil:
		return e.Reason.Error() + ": " + e.Detail + ": " + e.Cause.Error()
	}
	return e.Reason.Error() + ": " + e.Detail
}

// Unwrap gives the reason, and the cause if there is one.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Reason}
	}
	return []error{e.Reason, e.Cause}
}

func refuse(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// ReasonOf is the reason why err refuses, also where envelope refused it. It
// is empty for nil and for every error that is no refusal of the other side's
// doing: a fault of our own, which a peer is not told about.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	var r Reason
	if errors.As(err, &r) {
		return r
	}
	var e *envelope.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch e.Kind {
	case envelope.ErrConfig:
		return ""
	case envelope.ErrSignature, envelope.ErrThreshold, envelope.ErrKey:
		return ErrSignature
	case envelope.ErrExpired:
		return ErrExpired
	case envelope.ErrIssuedAhead, envelope.ErrNotYetValid:
		return ErrNotYetValid
	case envelope.ErrStale:
		return ErrSuperseded
	case envelope.ErrEquivocates:
		return ErrEquivocation
	}
	return ErrMalformed
}

// typed gives a refusal by envelope its reason.
func typed(err error) error {
	if err == nil {
		return nil // without allocating: this is asked for each page
	}
	var already *Error
	if r := ReasonOf(err); r != "" && !errors.As(err, &already) {
		return &Error{Reason: r, Cause: err}
	}
	return err
}

// A Refusal is one reason why an announcement is refused, and what is at
// fault. Series and GrantID are zero where it is the announcement itself.
type Refusal struct {
	Series  string
	GrantID envelope.Hash
	Reason  Reason
	Detail  string
}

// RefusalOf makes the refusal of a grant out of the error that it met.
func RefusalOf(series string, grant envelope.Hash, err error) Refusal {
	return Refusal{Series: series, GrantID: grant, Reason: ReasonOf(err), Detail: err.Error()}
}
