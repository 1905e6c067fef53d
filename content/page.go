// Package content is the model of what a publisher offers: pages, each one
// resource with its canonical URL and its payload. The packages below it read
// pages out of one kind of source each.
//
// A page is named by its URL and by nothing else, so two spellings of one URL
// would be two pages. CanonicalURL therefore turns what a source holds into
// the one spelling that counts, and IsCanonical refuses every other on the
// side that receives it. TestCanonicalURLIsCanonicalAndIdempotent and
// FuzzCanonicalURL show that the two agree.
package content

import (
	"errors"
	"fmt"
	"time"
)

// A Page is one resource of a collection at one time.
type Page struct {
	// URL names the page; it is canonical (see IsCanonical).
	URL string

	// Location says where in the source the page stands: a slash-separated
	// path relative to the source's own location.
	Location string

	// SourceHash is the SHA-256 of the source's bytes as they were read.
	SourceHash [32]byte

	// Unchanged says that the source's bytes are those that the caller knows
	// already. Then only URL, Location, SourceHash and Stamp are set; and of a
	// page that is Unread, which was told by its Stamp alone, no SourceHash.
	Unchanged, Unread bool

	// Stamp is that of the file as it was read; zero where the source has none,
	// or the file moved under the reader's hands.
	Stamp Stamp

	// Payload is what is sent, in the form that Format names.
	Format  Format
	Payload []byte

	// Digest is the SHA-256 of Payload. Fingerprint is the content hash of
	// Format, which covers no times: it is equal as long as nothing that a
	// reader would see has changed.
	Digest, Fingerprint [32]byte

	// Title is never empty. Language is a BCP 47 tag, or empty where the
	// source names none. Description may be empty.
	Title, Language, Description string

	// HTMLChecksum is the SHA-256 of the page's HTML in UTF-8 as a web server
	// hands it out; zero where the source holds no HTML.
	HTMLChecksum [32]byte

	// Modified is the time that the source claims, in UTC and whole seconds.
	Modified time.Time

	// Warnings are for the operator: what was odd, and yet no reason to leave
	// the page out.
	Warnings []string

	// Preferences are what the page itself states about its use. Where it
	// denies a purpose, it is not offered under a grant of that purpose.
	Preferences Preferences
}

// ErrUnchanged is what a source yields, in place of any page, if it knows that
// all of it is as the caller has it.
var ErrUnchanged = errors.New("the source has not changed")

// A Skipped is a place in a source that gave no page.
//
// Err tells two cases apart. It is nil where the page asks not to be offered,
// or is gone: an earlier revision of it is to be withdrawn. It is set where
// the place could not be read: an earlier revision of it stays.
type Skipped struct {
	Location string
	Reason   string
	Err      error

	// Stamp is set where it is the file's octets that give no page: as long as it
	// is the file's, they do not. Unread says that the caller remembered so.
	Stamp  Stamp
	Unread bool
}

// Kept is what a caller remembers of a file under a Stamp: that its octets gave a
// page, or that they gave none, and why.
type Kept struct {
	Page    bool
	Skipped *Skipped
}

// How large one page may be, in octets: what its owner keeps of it, which is the
// file of a folder and elsewhere the payload, and what is made of that. A payload
// names its URL and title beside the words, and escapes quotes and line ends.
const (
	MaxSource  = 100 << 20
	MaxPayload = 128 << 20
)

// A Format says how a payload is encoded. Its value is one octet on the wire
// and in hashes, and never changes its meaning. Zero is no format.
type Format uint8

// The formats that this module reads.
const (
	// FormatTCT is the JSON payload of the Collaboration Tunnel, whose hash is
	// made by its Method A.
	FormatTCT Format = 1

	// FormatSCP is the line of one page in a collection of the Site Content
	// Protocol, byte for byte, without its line feed.
	FormatSCP Format = 2

	// FormatARC is the entry of one page in an ARC sitemap, in the form of RFC
	// 8785.
	FormatARC Format = 3
)

// String returns the name that ParseFormat accepts.
func (f Format) String() string {
	switch f {
	case FormatTCT:
		return "tct"
	case FormatSCP:
		return "scp"
	case FormatARC:
		return "arc"
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// ParseFormat accepts the names that String prints for known formats.
func ParseFormat(s string) (Format, error) {
	switch s {
	case "tct":
		return FormatTCT, nil
	case "scp":
		return FormatSCP, nil
	case "arc":
		return FormatARC, nil
	}
	return 0, fmt.Errorf("unknown payload format %.40q", s)
}
