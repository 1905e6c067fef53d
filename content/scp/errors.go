package scp

import (
	"errors"
	"fmt"
)

// ErrRejected is wrapped by every error that says: no page of this collection
// may be used. The others below tell why, where a caller may ask; what they do
// not name is a line or a compression that is broken.
var (
	ErrRejected = errors.New("collection rejected")
	ErrVersion  = errors.New("the version's major number is above 0")
	ErrChecksum = errors.New("the checksum does not match")
	ErrLimit    = errors.New("a limit is exceeded")
	ErrStale    = errors.New("the collection is too old, or from the future")
)

// A LineError says which line of a collection is at fault; the first is 1.
type LineError struct {
	Line int64
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

func limit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrLimit, fmt.Sprintf(format, args...))
}

// A Warning is what was odd about a collection, and yet no reason to reject
// it. Skipped says that the line gave no page.
type Warning struct {
	Line    int64 // 0 for the file itself
	Text    string
	Skipped bool
}

func (w Warning) String() string {
	if w.Line == 0 {
		return w.Text
	}
	return fmt.Sprintf("line %d: %s", w.Line, w.Text)
}
