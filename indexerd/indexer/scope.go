package indexer

import (
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxBeside bounds the series of a publisher that has a feed or a hash set among
// them: each page of these is looked for in all the others.
const maxBeside = 64

// A scopePath shows that an item is in the list that its scope names.
type scopePath struct {
	given  bool
	index  uint64
	hashes [][32]byte
}

// readFeed reads the newest feed of a series.
func readFeed(r durable.Reader, rec *seriesRecord) (*grants.Feed, error) {
	if rec == nil || rec.Feed.ID.IsZero() {
		return nil, refuse(grants.ErrScope, "no feed of the series is held")
	}
	raw, err := r.Get(objectKey(rec.Feed.ID))
	if err != nil {
		return nil, fmt.Errorf("feed %s: %w", rec.Feed.ID, err)
	}
	return grants.ReadFeed(raw)
}

// takeFeed takes a feed of the series up, if one came, and refuses a grant that
// needs one where there is none.
func (r *seriesRecord) takeFeed(o offer) error {
	scope := o.pair.Grant.Body.Scope
	r.Listed = r.Listed || scope.IsListed()
	if o.feed != nil {
		newer, err := r.Feed.Advance(o.feed.Object.Position())
		if err != nil {
			return err
		}
		if newer {
			r.Feed = o.feed.Object.Position()
		}
	}
	if scope.Type == grants.InFeed && r.Feed.ID.IsZero() {
		return refuse(grants.ErrScope, "the grant is for a feed, which is neither presented nor held")
	}
	return nil
}

// checkBeside bounds how many series a page has to be looked for in.
func checkBeside(rec *seriesRecord, all []*seriesRecord, scope grants.Scope) error {
	listed, n := scope.IsListed(), 0
	for _, other := range all {
		listed = listed || other.Listed
		if other != rec && other.Revoked == nil {
			n++
		}
	}
	if listed && n >= maxBeside {
		return refuse(grants.ErrOversize, "%d other series are held; a publisher with a feed or a hash set has at most %d", n, maxBeside)
	}
	return nil
}

// live reports whether a series counts against another of its publisher: its
// grant is in force, or it holds pages that no revocation has closed.
func (r *seriesRecord) live(rd durable.Reader, now time.Time) (grants.Pair, bool, error) {
	pair, err := readPair(rd, r)
	if err != nil {
		return pair, false, err
	}
	err = inForce(rd, pair, now)
	if err != nil && grants.ReasonOf(err) == "" {
		return pair, false, err
	}
	return pair, err == nil || r.Pages > 0 && r.Revoked == nil, nil
}

// chooseList finds the list that the batch's grant names by its root: the set of
// the grant, or the newest feed of the series.
func (in *ingest) chooseList() error {
	switch s := in.pair.Grant.Body.Scope; {
	case s.Type == grants.HashSet && len(s.Digests) == 0:
		l := s.Set()
		in.list = &l
	case s.Type == grants.InFeed:
		rec, err := readSeries(in.s.x.store, in.held.rec.Publisher, in.held.rec.Series)
		if err != nil {
			return err
		}
		feed, err := readFeed(in.s.x.store, rec)
		if err != nil {
			return err
		}
		l := feed.Listed()
		in.list, in.feed = &l, feed.Object.ID
	}
	return nil
}

// inScope refuses, with the whole batch, a put whose URL is not in scope. It
// says nothing of content: see contentInScope.
func (in *ingest) inScope(it *item) error {
	scope := in.pair.Grant.Body.Scope
	if err := scope.Match(it.url); err != nil {
		return err
	}
	switch {
	case in.list == nil && it.path.given:
		return refuse(grants.ErrMalformed, "a path, where the scope names no list by its root")
	case in.list != nil && !it.path.given:
		return refuse(grants.ErrScope, "the page comes without its path in the list of the scope")
	case scope.Type == grants.InFeed:
		return in.list.Holds([]byte(it.url), it.path.index, it.path.hashes)
	}
	return nil
}

// contentInScope refuses, with the whole batch, a put whose payload is not in
// the grant's hash set. The digests are known by now.
func (in *ingest) contentInScope() error {
	scope := in.pair.Grant.Body.Scope
	if scope.Type != grants.HashSet {
		return nil
	}
	for i := range in.items {
		it := &in.items[i]
		if it.op != translog.OpPut {
			continue
		}
		err := scope.Holds(it.url, it.digest)
		if err == nil && in.list != nil {
			err = in.list.Holds(it.digest[:], it.path.index, it.path.hashes)
		}
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

// checkFeed refuses a batch whose paths lead to another feed than the one that
// counts in commit order.
func (in *ingest) checkFeed() error {
	if in.feed != in.rec.Feed.ID && in.pair.Grant.Body.Scope.Type == grants.InFeed {
		return refuse(grants.ErrSuperseded, "feed %s is in force", in.rec.Feed.ID)
	}
	return nil
}

// findOverlaps excludes each page that another live series of the publisher
// holds, where a feed or a hash set kept the two scopes from being compared.
func (in *ingest) findOverlaps(tx *translog.Tx) error {
	others, err := seriesOf(tx.Batch(), in.rec.Publisher)
	if err != nil {
		return err
	}
	for _, other := range others {
		if other.SID == in.rec.SID || other.Pages == 0 || other.Revoked != nil || !other.Listed && !in.rec.Listed {
			continue
		}
		for i := range in.items {
			it := &in.items[i]
			if it.op != translog.OpPut || it.reason != "" {
				continue
			}
			var row catalogueRow
			ok, err := readRow(tx.Batch(), sidKey('C', other.SID, it.h[:]...), &row)
			if err != nil {
				return err
			}
			if ok && row.Held {
				it.reason, it.detail = grants.ErrOverlap, fmt.Sprintf("series %s holds the page", other.Series)
			}
		}
	}
	return nil
}
