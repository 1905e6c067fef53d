package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
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
// another, because a folder of one side was lost or restored: it follows the two
// state trees down to the pages that differ, takes over what the indexer holds of
// those, and opens a new journal epoch for the series, in which only the
// differences are sent.
//
// Each answer has to hash to what the one above it said, up to the state root
// that was announced. Differences are put aside until all of them are known: what
// an indexer only claims moves nothing here. Then the cursor is emptied, durably,
// before the first is taken over, and set after the last: a crash in between
// begins the reconciliation again.
func (s *session) reconcile(ctx context.Context, a agreement, j journal) (cursor, error) {
	held := s.held[a.rel.Series]
	s.p.log.Warn("reconciling", "indexer", s.name(), "collection", a.rel.Collection, "held_revision", held.Revision)
	if err := a.drop(); err != nil {
		return cursor{}, err
	}
	if err := a.guess(j); err != nil {
		return cursor{}, err
	}
	if err := s.takeState(ctx, a); errors.Is(err, state.ErrCorrupt) {
		return cursor{}, errors.Join(err, a.clear()) // the next push guesses
	} else if err != nil {
		return cursor{}, err
	}
	if err := s.nameStrangers(ctx, a, j); err != nil {
		return cursor{}, err
	}
	if err := a.takeOver(); err != nil {
		return cursor{}, err
	}
	root, n, err := a.tree().Root(s.p.store)
	if err != nil {
		return cursor{}, err
	}
	if string(held.StateRoot) != string(root[:]) && len(held.StateRoot)+int(n) != 0 {
		return cursor{}, errors.Join(a.clear(), fmt.Errorf("the state of series %s is damaged here; the next push begins it anew", a.rel.Series))
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
	if err := errors.Join(b.DeleteRange(lo, hi), a.deleteBases(b), a.empty(b)); err != nil {
		return err
	}
	return b.Commit()
}

// empty empties the cursor.
func (a agreement) empty(b *durable.Batch) error {
	return errors.Join(
		b.Delete(pendingKey(a.rel.Series)),
		durable.WriteJSON(b, rowKey('A', a.rel.Series, 'c'), cursor{Reconciling: true}),
	)
}

// reconcileStep is how many pages of a state are written at once.
const reconcileStep = 4096

// guessStep is how many pages of a state are guessed at once. They come in the order of
// their revisions, so that each step touches nodes all over the tree: larger steps write
// each of them less often. One takes 15 MiB.
const guessStep = 1 << 16

// guess makes, of a state that was lost, what the indexer should hold if nothing
// has changed since: the fewer pages differ from it, the fewer have to be asked
// for. It is our own word on our own pages, so the cursor is emptied with it.
func (a agreement) guess(j journal) error {
	if _, n, err := a.tree().Root(a.store); err != nil || n > 0 {
		return err
	}
	snapshot, err := a.store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	head, err := j.head(snapshot)
	if err != nil {
		return err
	}
	defer a.ascends(head.Revision)()
	var items []state.Item
	err = j.changes(snapshot, 0, head.Revision, func(h [32]byte, row pageRow) (bool, error) {
		if row.Deleted || a.rel.Match(row.URL) != nil || row.denies(a.rel.Pair.Grant.Body.Purposes) {
			return true, nil
		}
		if items = append(items, state.Item{URLHash: h, Digest: row.Digest, Format: row.Format}); len(items) < guessStep {
			return true, nil
		}
		err := a.addState(items)
		items = items[:0]
		return true, err
	})
	if err != nil {
		return err
	}
	return a.addState(items)
}

// asideKeys are where differences wait until all are known: for each page, by the
// hash of its URL, digest and format as the indexer has them, or nothing.
func (a agreement) asideKeys() (lo, hi []byte) {
	lo = rowKey('A', a.rel.Series, 't')
	return lo, durable.PrefixEnd(lo)
}

func (a agreement) drop() error {
	b := a.store.NewBatch()
	defer b.Close()
	lo, hi := a.asideKeys()
	return errors.Join(b.DeleteRange(lo, hi), b.Commit())
}

// putAside writes differences down.
func (a agreement) putAside(items []state.Item) error {
	b := a.store.NewBatch()
	defer b.Close()
	lo, _ := a.asideKeys()
	for _, it := range items {
		var value []byte
		if !it.Deleted {
			value = append(it.Digest[:], it.Format)
		}
		if err := b.Set(append(bytes.Clone(lo), it.URLHash[:]...), value); err != nil {
			return err
		}
	}
	return b.Commit()
}

// differences yields what was put aside, by ascending hash.
func (a agreement) differences(r durable.Reader) iter.Seq2[state.Item, error] {
	lo, hi := a.asideKeys()
	return func(yield func(state.Item, error) bool) {
		for kv, err := range r.Scan(lo, hi) {
			if err != nil {
				yield(state.Item{}, err)
				return
			}
			it := state.Item{URLHash: [32]byte(kv.Key[len(lo):]), Deleted: len(kv.Value) == 0}
			if !it.Deleted {
				it.Digest, it.Format = [32]byte(kv.Value[:32]), kv.Value[32]
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// takeOver makes the differences part of the state of the agreement.
func (a agreement) takeOver() error {
	snapshot, err := a.store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	var items []state.Item
	for it, err := range a.differences(snapshot) {
		if err != nil {
			return err
		}
		if items = append(items, it); len(items) == reconcileStep {
			if err := a.addState(items); err != nil {
				return err
			}
			items = items[:0]
		}
	}
	return errors.Join(a.addState(items), a.drop())
}

// askedPlaces is for how many places of a tree is asked at once.
const askedPlaces = 192

// takeState follows the trees down and puts aside where they differ. Those
// furthest down are asked for first, so that no more than 16 times askedPlaces
// for each level wait.
func (s *session) takeState(ctx context.Context, a agreement) error {
	held := s.held[a.rel.Series]
	root, count, err := a.tree().Root(s.p.store)
	if err != nil || string(root[:]) == string(held.StateRoot) {
		return err
	}
	snapshot, err := s.p.store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	t := taking{a: a, left: maxState + count}
	waiting := []state.Below{{}}
	if len(held.StateRoot) == len(root) {
		waiting[0].Hash = envelope.Hash(held.StateRoot)
	}
	for len(waiting) > 0 {
		n := max(0, len(waiting)-askedPlaces)
		ask := slices.Clone(waiting[n:])
		waiting = waiting[:n]
		shown, err := s.subtreesAt(ctx, a.rel.Series, ask)
		if err != nil {
			return err
		}
		for _, x := range shown {
			below, err := a.tree().Compare(snapshot, x, t.differ)
			if errors.Is(err, errTooMany) {
				return s.violation("more than %d rows of one series", maxState)
			}
			if err != nil {
				return err
			}
			waiting = append(waiting, below...)
		}
	}
	return a.putAside(t.items)
}

// taking gathers differences.
type taking struct {
	a     agreement
	items []state.Item
	left  uint64 // how many more there may be
}

var errTooMany = errors.New("too many differences")

func (t *taking) differ(it state.Item) error {
	if t.left == 0 {
		return errTooMany
	}
	t.left--
	if t.items = append(t.items, it); len(t.items) < reconcileStep {
		return nil
	}
	err := t.a.putAside(t.items)
	t.items = t.items[:0]
	return err
}

// subtreesAt asks what the indexer's tree has at some places. What comes is
// proven by the hashes that are known of it.
func (s *session) subtreesAt(ctx context.Context, series string, ask []state.Below) ([]state.Subtree, error) {
	q := &oiv1.RangeRequest{Series: series}
	for _, x := range ask {
		q.Prefixes = append(q.Prefixes, x.At.String())
	}
	answer, err := s.rangeOf(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(answer.Subtrees) != len(ask) {
		return nil, s.violation("%d subtrees of series %s, %d were asked for", len(answer.Subtrees), series, len(ask))
	}
	all := make([]state.Subtree, len(ask))
	for i, b := range answer.Subtrees {
		if all[i], err = state.ParseSubtree(ask[i].At, b); err != nil {
			return nil, s.violation("the state of series %s: %v", series, err)
		}
		if all[i].Child().Hash != ask[i].Hash {
			return nil, s.violation("the rows of series %s at %q do not make the state root that was announced", series, ask[i].At)
		}
	}
	return all, nil
}

// addState changes the state, and empties the cursor with it.
func (a agreement) addState(items []state.Item) error {
	b := a.store.NewBatch()
	defer b.Close()
	plan, err := a.tree().Plan(b, items)
	if err != nil {
		return err
	}
	if err := a.narrowTo(b, plan); err != nil {
		return err
	}
	if err := a.empty(b); err != nil {
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
func (s *session) nameStrangers(ctx context.Context, a agreement, j journal) error {
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
	for it, err := range a.differences(snapshot) {
		if err != nil {
			return err
		}
		if it.Deleted {
			continue
		}
		if ok, err := j.has(snapshot, it.URLHash); err != nil || ok {
			if err != nil {
				return err
			}
			continue
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
			err = e.removeStranger(h, r.Url, uint8(r.Format))
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
