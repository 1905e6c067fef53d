package envelope

import (
	"errors"
	"fmt"
)

// The kinds of refusal, in the order in which they are checked. Every error of
// this package is an *Error that wraps exactly one of them.
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
)

// An Error says what was refused and why. Member names the JSON member at
// fault where there is one.
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

func refuse(kind error, member, format string, args ...any) error {
	return &Error{Kind: kind, Member: member, Detail: fmt.Sprintf(format, args...)}
}
