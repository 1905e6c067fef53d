package arc

import (
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by every error about a sitemap that cannot be read to
// its end. What it listed until then is no list.
var ErrMalformed = errors.New("malformed ARC sitemap")

// ErrVersion says that a sitemap is of a version that is not read here.
var ErrVersion = errors.New("unknown version of ARC sitemap")

// ErrLimit says that a sitemap goes beyond a limit of ours.
var ErrLimit = errors.New("beyond a limit for ARC sitemaps")

// ErrDescriptor says that a document describes a sitemap and is none, or was to
// be such a description and is none.
var ErrDescriptor = errors.New("not a sitemap but a description of one")

// ErrChecksum says that a page is not the one that its ai_checksum names.
var ErrChecksum = errors.New("the page is not that of its ai_checksum")

// ErrNotOffered says that a page is not to be read, or is gone for good.
var ErrNotOffered = errors.New("the page is not offered")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

func limit(format string, args ...any) error {
	return fmt.Errorf("%w: %w: %s", ErrMalformed, ErrLimit, fmt.Sprintf(format, args...))
}
