package grants

import (
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// MaxPath is the most hashes of the path of one page.
const MaxPath = 64

// A Listed names a list by the RFC 6962 tree over its items in ascending
// order, once each: URLs of a feed as they are, digests of a hash set as 32
// octets. The root decides what is in it. A count that is not the tree's can
// only hide items, never add one: an inner node does not pass for an item
// (TestOnlyMembersArePathed).
type Listed struct {
	Count uint64
	Root  envelope.Hash
}

// Holds refuses, by ErrScope, an item that the path does not show to be number
// index of the list, from 0, and by ErrMalformed a path beyond MaxPath.
func (l Listed) Holds(item []byte, index uint64, path [][32]byte) error {
	if len(path) > MaxPath {
		return refuse(ErrMalformed, "a path of %d hashes, at most %d", len(path), MaxPath)
	}
	if index >= l.Count {
		return refuse(ErrScope, "number %d of a list of %d", index, l.Count)
	}
	hashes := make([][]byte, len(path))
	for i := range path {
		hashes[i] = path[i][:]
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(item)
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, index, l.Count, leaf, hashes, l.Root[:]); err != nil {
		return refuse(ErrScope, "the path does not lead from the page to the list's root")
	}
	return nil
}

// FeedBody is the body of a feed (UZPIF-OI 10.2): the URLs that a grant of
// scope InFeed reaches. Fields stand in canonical order.
type FeedBody struct {
	Count  uint64        `json:"count"`  // may be 0: nothing is in scope then
	Issuer envelope.Name `json:"issuer"` // the publisher
	Root   envelope.Hash `json:"root"`   // see Listed
	Series string        `json:"series"` // that of the grants for which it counts
}

// Validate makes the checks that the schema leaves open. Each error has its
// Reason.
func (b *FeedBody) Validate() error {
	if b.Count > envelope.MaxInteger {
		return refuse(ErrMalformed, "count: beyond 2^53-1")
	}
	if (b.Count == 0) != (b.Root == envelope.Hash(rfc6962.DefaultHasher.EmptyRoot())) {
		return refuse(ErrMalformed, "count and root do not fit one another")
	}
	if err := checkName(b.Series, maxSeries); err != nil {
		return refuse(ErrMalformed, "series: %v", err)
	}
	return nil
}

// A Feed is an opened feed. The newest one of a series counts for whichever
// grant of the series is in force: a page that it no longer lists is out of
// scope, and no grant has to be issued anew.
type Feed struct {
	Object *envelope.Object
	Body   FeedBody
}

// SignFeed signs the feed of a series over what l names. It has no audience:
// it says what is listed, and allows nothing without a grant.
func SignFeed(l Listed, series string, publisher envelope.Name, s Stamp, signers ...*envelope.Signer) (*Feed, error) {
	b := FeedBody{Count: l.Count, Issuer: publisher, Root: l.Root, Series: series}
	h := s.header(envelope.Feed, publisher)
	h.Audience = ""
	o, err := sign(h, &b, signers)
	if err != nil {
		return nil, err
	}
	return &Feed{o, b}, nil
}

// OpenFeed opens a feed: signature and time, issuer = publisher = subject
// (ErrIssuer). One that says when it ends is malformed: its grant ends, and a
// newer feed takes its place.
func OpenFeed(raw []byte, v Verifier) (*Feed, error) {
	o, b, err := open[FeedBody](raw, envelope.Feed, v)
	if err != nil {
		return nil, err
	}
	if !o.ExpiresAt.IsZero() {
		return nil, refuse(ErrMalformed, "a feed has no expires_at")
	}
	v.Indexer = ""
	if err := v.checkParties(o, b.Issuer, v.Publisher); err != nil {
		return nil, err
	}
	return &Feed{o, b}, nil
}

// ReadFeed reads back a feed that was opened or signed before; see ReadPair.
func ReadFeed(raw []byte) (*Feed, error) {
	o, b, err := read[FeedBody](raw, envelope.Feed)
	if err != nil {
		return nil, err
	}
	return &Feed{o, b}, nil
}

// Listed names what the feed lists.
func (f *Feed) Listed() Listed { return Listed{f.Body.Count, f.Body.Root} }

// Holds refuses, by ErrScope, a URL that the path does not show to be number
// index of the feed.
func (f *Feed) Holds(url string, index uint64, path [][32]byte) error {
	return f.Listed().Holds([]byte(url), index, path)
}

// FeedScope makes a scope of type InFeed: the pages under a prefix that the
// newest feed of the grant's series lists. The error is that of Validate.
func FeedScope(prefixes ...string) (Scope, error) {
	s, err := PrefixScope(prefixes...)
	s.Type = InFeed
	return s, err
}
