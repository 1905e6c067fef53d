package indexer

import (
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// feeds opens the feeds that came with an announcement, by their series.
func (s *session) feeds(f *oiv1.Announce, v grants.Verifier) (map[string]*grants.Feed, error) {
	if len(f.Feeds) > grants.MaxRequests {
		return nil, refuse(grants.ErrOversize, "more than %d feeds", grants.MaxRequests)
	}
	all := make(map[string]*grants.Feed, len(f.Feeds))
	for _, raw := range f.Feeds {
		feed, err := grants.OpenFeed(raw, v)
		if err != nil {
			return nil, err
		}
		if all[feed.Body.Series] != nil {
			return nil, refuse(grants.ErrMalformed, "two feeds of series %s", feed.Body.Series)
		}
		all[feed.Body.Series] = feed
	}
	return all, nil
}

// unasked finds a feed that no grant of the announcement has a use for.
func unasked(feeds map[string]*grants.Feed, offers []offer) []grants.Refusal {
	var found []grants.Refusal
	for series := range feeds {
		used := false
		for _, o := range offers {
			used = used || o.pair.Grant.Body.Series == series && o.pair.Grant.Body.Scope.Type == grants.InFeed
		}
		if !used {
			found = append(found, refusalOf(series, envelope.Hash{}, refuse(grants.ErrMalformed, "a feed without a grant for it")))
		}
	}
	return found
}

// takePath reads an item's path in the list of its scope.
func (it *item) takePath(w *oiv1.Item) error {
	raw := w.GetScopePath().GetHashes()
	it.path = scopePath{given: w.ScopePath != nil, index: w.ScopeIndex}
	if len(raw) > grants.MaxPath {
		return refuse(grants.ErrMalformed, "a path of %d hashes, at most %d", len(raw), grants.MaxPath)
	}
	if !it.path.given && w.ScopeIndex != 0 || it.path.given && it.op == translog.OpTombstone {
		return refuse(grants.ErrMalformed, "a place in a list, without a path or of a deletion")
	}
	it.path.hashes = make([][32]byte, len(raw))
	for i, h := range raw {
		if len(h) != 32 {
			return refuse(grants.ErrMalformed, "a path with a hash of %d octets", len(h))
		}
		it.path.hashes[i] = [32]byte(h)
	}
	return nil
}
