package rbt

import (
	"errors"
	"fmt"
)

// ErrInvalid is wrapped by every error that says: nothing of this document may
// be used. The others tell why, where a caller may ask; what they do not name
// is a member that is missing, twice there, or of another form.
var (
	ErrInvalid    = errors.New("invalid RBT document")
	ErrVersion    = errors.New("the version's major number is above 0")
	ErrLimit      = errors.New("a limit is exceeded")
	ErrCredential = errors.New("a document must not hold credentials")
)

// ErrHref says that a reference does not lead to a resource of the burrow, or
// to one by https.
var ErrHref = errors.New("unusable reference")

// ErrVerification says that octets are not those that an RID or hash names.
var ErrVerification = errors.New("the octets are not those that are named")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// A Category is one of the words of section 9.1 for what went wrong.
type Category string

// The categories.
const (
	ManifestInvalid    Category = "manifest_invalid"
	ManifestNotFound   Category = "manifest_not_found"
	EntryNotFound      Category = "entry_not_found"
	VerificationFailed Category = "verification_failed"
	TransportError     Category = "transport_error"
	RateLimited        Category = "rate_limited"
)

// An Error is a failure with its category.
type Error struct {
	Category Category
	Err      error
}

func (e *Error) Error() string { return string(e.Category) + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// CategoryOf tells what kind of failure err is. What is not known to be another
// is one of transport.
func CategoryOf(err error) Category {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Category
	case errors.Is(err, ErrVerification):
		return VerificationFailed
	case errors.Is(err, ErrInvalid):
		return ManifestInvalid
	case errors.Is(err, ErrHref):
		return EntryNotFound
	}
	return TransportError
}
