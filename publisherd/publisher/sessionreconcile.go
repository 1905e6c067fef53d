package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// maxState bounds how many pages of one series an indexer may say that it
// holds.
const maxState = 50_000_000

// reconcile begins anew with an indexer whose records and ours contradict one
// another, because a folder of one side was lost or restored: it takes over
// what the indexer says that it holds, proven by the state root, and opens a
// new journal epoch for the series, in which only the differences are sent.
//
// The rows are put aside until they have proven to be what was announced: what
// an indexer only claims moves nothing here. Then the cursor is emptied, durably,
// before the first row is taken over, and set after the last: a crash in between
// begins the reconciliation again.
func (s *session) reconcile(ctx context.Context, a agreement, j journal) (cursor, error) {
	held := s.held[a.rel.Series]
	s.p.log.Warn("reconciling", "indexer", s.name(), "collection", a.rel.Collection, "held_revision", held.Revision)
	aside := a.aside()
	if err := a.drop(aside); err != nil {
		return cursor{}, err
	}
	if err := s.takeState(ctx, a, aside); err != nil {
		return cursor{}, err
	}
	root, n, err := aside.Root(s.p.store)
	if err != nil {
		return cursor{}, err
	}
	if len(held.StateRoot) != 32 || envelope.Hash(held.StateRoot) != root {
		return cursor{}, s.violation("the rows of series %s do not make the state root that was announced", a.rel.Series)
	}
	if err := s.nameStrangers(ctx, a, aside, j); err != nil {
		return cursor{}, err
	}
	if err := a.takeOver(aside); err != nil {
		return cursor{}, err
	}
	epoch, err := newJournalEpoch()
	if err != nil {
		return cursor{}, err
	}
	c := cursor{JournalEpoch: epoch, State: root, Pages: n, Reconciling: true}
	return c, a.setCursor(c)
}

// clear forgets what was thought to be held.
func (a agreement) clear() error {
	b := a.store.NewBatch()
	defer b.Close()
	lo, hi := a.tree().Bounds()
	err := errors.Join(
		b.DeleteRange(lo, hi),
		b.Delete(rowKey('A', a.rel.Series, 'b')),
		durable.WriteJSON(b, rowKey('A', a.rel.Series, 'c'), cursor{Reconciling: true}),
	)
	if err != nil {
		return err
	}
	return b.Commit()
}

// aside is where the rows of an indexer's state wait for their proof.
func (a agreement) aside() state.Tree { return state.New(rowKey('A', a.rel.Series, 't')) }

func (a agreement) drop(t state.Tree) error {
	b := a.store.NewBatch()
	defer b.Close()
	lo, hi := t.Bounds()
	return errors.Join(b.DeleteRange(lo, hi), b.Commit())
}

// takeOver makes the rows that were put aside the state of the agreement.
func (a agreement) takeOver(aside state.Tree) error {
	if err := a.clear(); err != nil {
		return err
	}
	snapshot, err := a.store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	const step = 4096
	items := make([]state.Item, 0, step)
	for it, err := range aside.LeavesAfter(snapshot, nil) {
		if err != nil {
			return err
		}
		if items = append(items, it); len(items) == step {
			if err := a.addState(a.tree(), items); err != nil {
				return err
			}
			items = items[:0]
		}
	}
	return errors.Join(a.addState(a.tree(), items), a.drop(aside))
}

// takeState fetches all rows of the indexer's state into a tree, in bounded
// answers.
func (s *session) takeState(ctx context.Context, a agreement, into state.Tree) error {
	var after []byte
	var n uint64
	for {
		answer, err := s.rangeOf(ctx, &oiv1.RangeRequest{Series: a.rel.Series, After: after})
		if err != nil {
			return err
		}
		items := make([]state.Item, len(answer.Rows))
		for i, r := range answer.Rows {
			if len(r.Hash) != 32 || len(r.Digest) != 32 || r.Format > 255 || bytes.Compare(after, r.Hash) >= 0 {
				return s.violation("a row of series %s that is malformed or out of order", a.rel.Series)
			}
			after = r.Hash
			items[i] = state.Item{URLHash: [32]byte(r.Hash), Digest: [32]byte(r.Digest), Format: uint8(r.Format)}
		}
		if n += uint64(len(items)); n > maxState {
			return s.violation("more than %d rows of one series", maxState)
		}
		if err := a.addState(into, items); err != nil {
			return err
		}
		if !answer.More {
			return nil
		}
		if len(items) == 0 {
			return s.violation("an empty answer that says that more follows")
		}
	}
}

func (a agreement) addState(t state.Tree, items []state.Item) error {
	b := a.store.NewBatch()
	defer b.Close()
	plan, err := t.Plan(b, items)
	if err != nil {
		return err
	}
	if err := plan.Apply(b); err != nil {
		return err
	}
	return b.Commit()
}

func (s *session) rangeOf(ctx context.Context, q *oiv1.RangeRequest) (*oiv1.RangeAnswer, error) {
	if err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_RangeRequest{RangeRequest: q}}); err != nil {
		return nil, err
	}
	f, err := s.next(ctx)
	if err != nil {
		return nil, err
	}
	r := f.GetRangeAnswer()
	if r == nil || r.Series != q.Series {
		return nil, s.violation("an answer to something else than the rows that were asked for")
	}
	return r, nil
}

// nameStrangers gives each page that the indexer holds and the journal does
// not know a tombstone in the journal, so that it will be deleted. Only for
// these the URL is asked for.
func (s *session) nameStrangers(ctx context.Context, a agreement, rows state.Tree, j journal) error {
	var unknown [][]byte
	ask := func() error {
		for len(unknown) > 0 {
			rest, err := s.tombstone(ctx, a, j, unknown)
			if err != nil {
				return err
			}
			unknown = rest
		}
		return nil
	}
	snapshot, err := s.p.store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	for it, err := range rows.LeavesAfter(snapshot, nil) {
		if err != nil {
			return err
		}
		_, err := snapshot.Get(rowKey('J', j.coll, 'h', it.URLHash[:]))
		if err == nil {
			continue
		}
		if !errors.Is(err, durable.ErrNotFound) {
			return err
		}
		unknown = append(unknown, bytes.Clone(it.URLHash[:]))
		if len(unknown) == 1024 {
			if err := ask(); err != nil {
				return err
			}
		}
	}
	return ask()
}

// granted reports whether a URL is of an origin in the scope of the grant in
// force, or of the one that the indexer names as that of its state.
func (s *session) granted(a agreement, url string) bool {
	scopes := []grants.Scope{a.rel.Pair.Grant.Body.Scope}
	if bound := s.held[a.rel.Series].BoundGrant; len(bound) == len(envelope.Hash{}) {
		if pair, err := s.p.pairOf(a.rel, envelope.Hash(bound)); err == nil {
			scopes = append(scopes, pair.Grant.Body.Scope)
		}
	}
	return len(url) <= grants.MaxURL && slices.ContainsFunc(scopes, func(sc grants.Scope) bool {
		return slices.ContainsFunc(sc.Origins(), func(o string) bool { return strings.HasPrefix(url, o+"/") })
	})
}

// tombstone asks for the URLs of some hashes and writes their tombstones. It
// returns the hashes that did not fit the answer.
func (s *session) tombstone(ctx context.Context, a agreement, j journal, hashes [][]byte) ([][]byte, error) {
	answer, err := s.rangeOf(ctx, &oiv1.RangeRequest{Series: a.rel.Series, Hashes: hashes})
	if err != nil {
		return nil, err
	}
	asked := make(map[[32]byte]bool, len(hashes))
	for _, h := range hashes {
		asked[[32]byte(h)] = true
	}
	e, err := j.edit()
	if err != nil {
		return nil, err
	}
	for _, r := range answer.Rows {
		h := urlHash(r.Url)
		switch {
		case !bytes.Equal(h[:], r.Hash) || !asked[h]:
			err = s.violation("a URL that does not belong to the row that was asked for")
		case !s.granted(a, r.Url):
			err = s.violation("it says that it holds %.200q, which is of no origin that was granted to it", r.Url)
		default:
			delete(asked, h)
			err = e.revise(h, pageRow{}, pageRow{URL: r.Url, Format: uint8(r.Format), Deleted: true})
		}
		if err != nil {
			e.batch.Close()
			return nil, err
		}
	}
	if err := e.commit(); err != nil {
		return nil, err
	}
	if len(answer.Rows) == 0 || !answer.More && len(asked) > 0 {
		return nil, fmt.Errorf("%w: %s cannot name %d pages that it says it holds", ErrProtocol, s.name(), len(asked))
	}
	var rest [][]byte
	for _, h := range hashes {
		if asked[[32]byte(h)] {
			rest = append(rest, h)
		}
	}
	return rest, nil
}
