package grants_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// digests are n of them, ascending.
func digests(n int) []envelope.Hash {
	all := make([]envelope.Hash, n)
	for i := range all {
		all[i] = sha256.Sum256(fmt.Append(nil, "payload ", i))
	}
	slices.SortFunc(all, func(a, b envelope.Hash) int { return slices.Compare(a[:], b[:]) })
	return all
}

func hashScope(t testing.TB, d []envelope.Hash) grants.Scope {
	t.Helper()
	s, err := grants.HashScope(d, "https://example.com/doc/")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHashSetAndFeedFormIsChecked(t *testing.T) {
	d := digests(grants.MaxDigests + 1)
	full, rooted := hashScope(t, d[:3]), hashScope(t, d)
	feed, err := grants.FeedScope("https://example.com/doc/")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		scope  grants.Scope
		change func(*grants.Scope)
		want   grants.Reason
	}{
		{"digests in full", full, nil, ""},
		{"as many digests as may stand in a scope", hashScope(t, d[1:]), nil, ""},
		{"more digests, by their root", rooted, nil, ""},
		{"a feed", feed, nil, ""},
		{"a feed in a collection", feed, func(s *grants.Scope) { s.ID = "docs" }, grants.ErrScope},
		{"a feed with a root", feed, func(s *grants.Scope) { s.Root = d[0] }, grants.ErrScope},
		{"a feed with a count", feed, func(s *grants.Scope) { s.Count = 1 }, grants.ErrScope},
		{"a feed with digests", feed, func(s *grants.Scope) { s.Digests = d[:1] }, grants.ErrScope},
		{"a feed without prefixes", feed, func(s *grants.Scope) { s.Prefixes = nil }, grants.ErrScope},
		{"prefixes with digests", prefixes(t, "https://example.com/"), func(s *grants.Scope) { s.Digests = d[:1] }, grants.ErrScope},
		{"prefixes with a root", prefixes(t, "https://example.com/"), func(s *grants.Scope) { s.Root = d[0] }, grants.ErrScope},
		{"a hash set with an id", full, func(s *grants.Scope) { s.ID = "docs" }, grants.ErrScope},
		{"a hash set of nothing", full, func(s *grants.Scope) { s.Digests = nil }, grants.ErrScope},
		{"a hash set of an empty list", full, func(s *grants.Scope) { s.Digests = s.Digests[:0] }, grants.ErrScope},
		{"a hash set without prefixes", full, func(s *grants.Scope) { s.Prefixes = nil }, grants.ErrScope},
		{"digests out of order", full, func(s *grants.Scope) { s.Digests = []envelope.Hash{d[1], d[0]} }, grants.ErrScope},
		{"a digest twice", full, func(s *grants.Scope) { s.Digests = []envelope.Hash{d[0], d[0]} }, grants.ErrScope},
		{"one digest too many", full, func(s *grants.Scope) { s.Digests = d }, grants.ErrScope},
		{"digests and their root", full, func(s *grants.Scope) { s.Count, s.Root = full.Set().Count, full.Set().Root }, grants.ErrScope},
		{"a root without a count", rooted, func(s *grants.Scope) { s.Count = 0 }, grants.ErrScope},
		{"a count without a root", rooted, func(s *grants.Scope) { s.Root = envelope.Hash{} }, grants.ErrScope},
		{"a count that JSON cannot hold", rooted, func(s *grants.Scope) { s.Count = envelope.MaxInteger + 1 }, grants.ErrScope},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.scope
			if tt.change != nil {
				tt.change(&s)
			}
			wantReason(t, s.Validate(), tt.want)
		})
	}
}

func TestGrantHasRoomForAFullHashSet(t *testing.T) {
	p := issue(t, func(d *grants.Draft) { d.Scope = hashScope(t, digests(grants.MaxDigests)) })
	q, err := grants.OpenPair(p.Grant.Object.Raw, p.Policy.Object.Raw, verifier(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(q.Grant.Body.Scope.Digests); n != grants.MaxDigests {
		t.Errorf("%d digests came back", n)
	}
	if s := q.Policy.Body.Scope; s.Type != grants.URLPrefix {
		t.Errorf("the policy repeats the %s", s.Type)
	}
}

func TestHashSetHoldsContentUnderItsPrefixes(t *testing.T) {
	d := digests(4)
	full := hashScope(t, d[:3])
	for _, tt := range []struct {
		name, url string
		digest    envelope.Hash
		scope     grants.Scope
		want      grants.Reason
	}{
		{"a member under a prefix", "https://example.com/doc/x", d[1], full, ""},
		{"the same content at another place under it", "https://example.com/doc/y", d[1], full, ""},
		{"a member elsewhere", "https://example.com/docs/x", d[1], full, grants.ErrScope},
		{"other content", "https://example.com/doc/x", d[3], full, grants.ErrScope},
		{"no content", "https://example.com/doc/x", envelope.Hash{}, full, grants.ErrScope},
		{"any content where there are only prefixes", "https://example.com/doc/x", d[3], full.Frame(), ""},
		{"a hash set that was never validated", "https://example.com/doc/x", d[3], grants.Scope{Type: grants.HashSet, Prefixes: full.Prefixes}, grants.ErrScope},
	} {
		t.Run(tt.name, func(t *testing.T) { wantReason(t, tt.scope.Holds(tt.url, tt.digest), tt.want) })
	}
}

func TestListedScopesCover(t *testing.T) {
	d := digests(grants.MaxDigests + 1)
	full, less, rooted := hashScope(t, d[:3]), hashScope(t, d[:2]), hashScope(t, d)
	feed, err := grants.FeedScope("https://example.com/doc/")
	if err != nil {
		t.Fatal(err)
	}
	narrow := feed
	narrow.Prefixes = []string{"https://example.com/doc/a/"}
	collection, err := grants.CollectionScope("docs", "https://example.com/doc/")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name         string
		outer, inner grants.Scope
		want         bool
	}{
		{"prefixes cover a feed under them", full.Frame(), feed, true},
		{"prefixes cover a hash set under them", full.Frame(), rooted, true},
		{"a feed does not cover its prefixes", feed, feed.Frame(), false},
		{"a feed covers itself under fewer prefixes", feed, narrow, true},
		{"a feed does not cover itself under more prefixes", narrow, feed, false},
		{"a feed covers no collection", feed, collection, false},
		{"a collection covers no feed", collection, feed, false},
		{"a hash set does not cover its prefixes", full, full.Frame(), false},
		{"a hash set covers fewer digests", full, less, true},
		{"a hash set does not cover more digests", less, full, false},
		{"a hash set covers itself by its root", full, full.Brief(), true},
		{"the root covers its hash set", full.Brief(), full, true},
		{"a root does not cover another", rooted, full.Brief(), false},
		{"a hash set covers no feed", full, feed, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.outer.Covers(tt.inner); got != tt.want {
				t.Errorf("Covers = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestOnlyPrefixesCollideBeforeAnythingIsOffered(t *testing.T) {
	all := prefixes(t, "https://example.com/")
	set := hashScope(t, digests(1))
	feed, err := grants.FeedScope("https://example.com/doc/")
	if err != nil {
		t.Fatal(err)
	}
	if !grants.Collide(all, set.Frame()) || grants.Collide(all, prefixes(t, "https://example.net/")) {
		t.Error("prefixes collide exactly where they overlap")
	}
	for _, s := range []grants.Scope{set, feed} {
		if grants.Collide(all, s) || grants.Collide(s, all) || !grants.Overlaps(all, s) {
			t.Errorf("a %s overlaps with what is around it, and does not collide", s.Type)
		}
	}
}

func TestRevocationNamesItsPagesByPrefixes(t *testing.T) {
	p := issue(t, func(d *grants.Draft) { d.Scope = hashScope(t, digests(2)) })
	b := p.Grant.RevokeScope(p.Grant.Body.Scope, grants.DispositionStop)
	wantReason(t, b.Validate(), grants.ErrScopeType)
	// Prefixes reach what the hash set holds under them.
	b = p.Grant.RevokeScope(p.Grant.Body.Scope.Frame(), grants.DispositionStop)
	r, err := grants.SignRevocation(b, grants.Stamp{Indexer: indexer, Epoch: 1, Sequence: 1, At: noon}, signerOf(t, publisher))
	if err != nil {
		t.Fatal(err)
	}
	if !r.ReachesWhole(p.Grant) || !r.ReachesPage(p.Grant, "https://example.com/doc/x") {
		t.Error("the revocation of the prefixes does not reach the hash set")
	}
}

func TestListedScopesAreDescribed(t *testing.T) {
	for want, scope := range map[string]grants.Scope{
		"spiffe://indexer.example/i1 may use pages of spiffe://example.com/publisher: those whose content has one of 2 digests, as long as it does not change, among everything under https://example.com/doc/, without URLs that have a query.": hashScope(t, digests(2)),
		"spiffe://indexer.example/i1 may use pages of spiffe://example.com/publisher: those that the publisher's newest signed feed lists among everything under https://example.com/doc/, without URLs that have a query.":                      {Type: grants.InFeed, Prefixes: []string{"https://example.com/doc/"}},
	} {
		p := issue(t, func(d *grants.Draft) { d.Scope = scope })
		if got := grants.Describe(p)[0]; got != want {
			t.Errorf("described as %q, want %q", got, want)
		}
	}
}
