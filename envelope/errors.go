package envelope

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of refusal, in about the order in which they are checked. Whatever
// is decoded, opened or signed is refused by an *Error that wraps exactly one
// of them.
var (
	ErrConfig      = errors.New("verifier is misconfigured")
	ErrSize        = errors.New("too large")
	ErrSyntax      = errors.New("not one JSON object of the allowed form")
	ErrLimit       = errors.New("beyond a structural limit")
	ErrCanonical   = errors.New("not in canonical form")
	ErrVersion     = errors.New("envelope version not supported")
	ErrType        = errors.New("object type not accepted")
	ErrSchema      = errors.New("not of the schema")
	ErrExtension   = errors.New("extension not accepted")
	ErrObjectID    = errors.New("object_id does not name this object")
	ErrSignatures  = errors.New("signature list malformed")
	ErrAlgorithm   = errors.New("signature algorithm not accepted")
	ErrKey         = errors.New("key not acceptable")
	ErrSignature   = errors.New("signature does not verify")
	ErrThreshold   = errors.New("not signed by those who must sign")
	ErrIssuedAhead = errors.New("issued in the future")
	ErrNotYetValid = errors.New("not valid yet")
	ErrExpired     = errors.New("expired")
	ErrStale       = errors.New("superseded by a later object of its stream")
	ErrEquivocates = errors.New("another object holds the same epoch and sequence")
	ErrState       = errors.New("stored stream position not usable")
)

// An Error says what was refused and why. Member names the JSON member at
// fault where there is one, as in "body.entries.0.index"; Detail is for people,
// may quote what was refused, and has at most 256 octets.
type Error struct {
	Kind   error
	Member string
	Detail string
}

func (e *Error) Error() string {
	s := e.Kind.Error()
	if e.Member != "" {
		s = e.Member + ": " + s
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *Error) Unwrap() error { return e.Kind }

const maxDetail = 256

func refuse(kind error, member, format string, args ...any) error {
	detail := fmt.Sprintf(format, args...)
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "")
	}
	return &Error{Kind: kind, Member: member, Detail: detail}
}

// within puts the name of the enclosing member before that of err, which
// nothing else has seen yet.
func within(name string, err error) error {
	if e, ok := err.(*Error); ok {
		e.Member = join(name, e.Member)
	}
	return err
}

// join is the name of member inner inside outer; either may be empty.
func join(outer, inner string) string {
	if outer == "" || inner == "" {
		return outer + inner
	}
	return outer + "." + inner
}
