package main

import (
	"crypto/sha256"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// scopeAttacks lie about what a list holds. The folder's first grant is for a
// feed that is not the series' first.
var scopeAttacks = []attack{
	{name: "feed-truth", lie: "none: a page that the feed lists, with its path", series: fed},
	{name: "feed-stranger", lie: "a page outside the feed, with the path of one in it", series: fed,
		changes: func(s *series) []change { return append(onePage(s), put(s.prefix+"stranger.html")) },
		batch: func(b *parcel) {
			b.items.Items[1].ScopePath, b.items.Items[1].ScopeIndex = b.items.Items[0].ScopePath, 1
		}},
	{name: "feed-another-place", lie: "a page of the feed under the number of another", series: fed,
		batch: func(b *parcel) { b.items.Items[0].ScopeIndex = 1 }},
	{name: "feed-no-path", lie: "a page of the feed that comes without its path", series: fed,
		batch: func(b *parcel) { b.items.Items[0].ScopePath, b.items.Items[0].ScopeIndex = nil, 0 }},
	{name: "feed-long-path", lie: "a path that is longer than any may be", series: fed,
		batch: func(b *parcel) {
			for len(b.items.Items[0].ScopePath.Hashes) < grants.MaxPath+1 {
				b.items.Items[0].ScopePath.Hashes = append(b.items.Items[0].ScopePath.Hashes, make([]byte, 32))
			}
		}},
	{name: "feed-short-hash", lie: "a path with half a hash", series: fed,
		batch: func(b *parcel) { b.items.Items[0].ScopePath.Hashes[0] = make([]byte, 16) }},
	{name: "feed-missing", lie: "a grant for a feed that does not come", series: fed,
		presents: func(_ *liar, f *oiv1.Announce) error { f.Feeds = nil; return nil }},
	{name: "feed-older", lie: "the feed before the one in force",
		presents: presentsFeed(func(h *grants.Feed) (grants.Listed, uint64) {
			return grants.Listed{Count: 1, Root: h.Body.Root}, h.Object.Sequence - 1
		})},
	{name: "feed-equivocation", lie: "another feed at the position of the one in force",
		presents: presentsFeed(func(h *grants.Feed) (grants.Listed, uint64) {
			return grants.Listed{Count: h.Body.Count + 1, Root: h.Body.Root}, h.Object.Sequence
		})},
	{name: "hash-set-truth", lie: "none: content that the hash set lists", series: hashed},
	{name: "hash-set-stranger", lie: "content outside the hash set at the place of some in it", series: hashed,
		changes: func(s *series) []change {
			return []change{{s.prefix + "new.html", put(s.prefix + "stranger.html").payload}}
		}},
	{name: "unasked-path", lie: "a path where the scope names no list", series: spoilt(func(*liar, *grants.Draft) {}),
		batch: func(b *parcel) { b.items.Items[0].ScopePath = new(oiv1.Path) }},
}

// fed is a series of our own for a feed of two pages, the first of which an
// honest batch brings.
func fed(l *liar) (*series, error) {
	s, err := l.fresh(func(d *grants.Draft) { d.Scope.Type = grants.InFeed })
	if err != nil {
		return nil, err
	}
	s.list = new(grants.List)
	s.list.Add([]byte(s.prefix + "new.html"))
	s.list.Add([]byte(s.prefix + "other.html"))
	s.rel.Feed, err = grants.SignFeed(s.list.Listed(), s.rel.Series, l.local.Name(), l.stamp(1), l.local.Envelope)
	return s, err
}

// hashed is a series of our own for the content of the page that an honest
// batch brings.
func hashed(l *liar) (*series, error) {
	return l.fresh(func(d *grants.Draft) {
		digest := sha256.Sum256(put(d.Scope.Prefixes[0] + "new.html").payload)
		d.Scope.Type, d.Scope.Digests = grants.HashSet, []envelope.Hash{digest}
	})
}

// presentsFeed presents another feed of the folder's series.
func presentsFeed(change func(*grants.Feed) (grants.Listed, uint64)) func(*liar, *oiv1.Announce) error {
	return func(l *liar, f *oiv1.Announce) error {
		listed, sequence := change(l.honest.rel.Feed)
		feed, err := grants.SignFeed(listed, l.honest.rel.Series, l.local.Name(), l.stamp(sequence), l.local.Envelope)
		if err == nil {
			f.Feeds = [][]byte{feed.Object.Raw}
		}
		return err
	}
}
