package indexer

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A deletion is what is left to do of a revocation with disposition delete, in
// one series. Its row is written by the commit of the revocation and goes with
// the commit that acknowledges the deletion; each step between them may be made
// again, so that a crash anywhere is followed by the rest.
type deletion struct {
	Publisher  envelope.Name `json:"publisher"`
	Series     string        `json:"series"`
	SID        uint32        `json:"sid"`
	Revocation envelope.Hash `json:"revocation"`
	Grant      envelope.Hash `json:"grant"` // under which it is acknowledged
	Whole      bool          `json:"whole"`
	DataKey    uint32        `json:"data_key"` // the first generation that is not destroyed
	State      envelope.Hash `json:"state"`    // last acknowledged
}

func newDeletion(rev *grants.Revocation, hit *reached) *deletion {
	rec := hit.rec
	return &deletion{
		Publisher: rec.Publisher, Series: rec.Series, SID: rec.SID, Revocation: rev.Object.ID, Grant: hit.pair.Grant.Object.ID,
		Whole: hit.whole, DataKey: rec.DataKey, State: rec.State,
	}
}

func (d *deletion) key() []byte { return sidKey('J', d.SID, d.Revocation[:]...) }

func (d *deletion) write(b *durable.Batch) error { return durable.WriteJSON(b, d.key(), d) }

// deletions lists what is left to do.
func deletions(r durable.Reader) ([]*deletion, error) { return deletionsIn(r, 'J') }

// deletionsIn lists those that are under way ('J'), or that wait ('W').
func deletionsIn(r durable.Reader, space byte) ([]*deletion, error) {
	var all []*deletion
	for kv, err := range r.Scan([]byte{space}, []byte{space + 1}) {
		if err != nil {
			return nil, err
		}
		d := new(deletion)
		if err := json.Unmarshal(kv.Value, d); err != nil {
			return nil, fmt.Errorf("row %q: %w", kv.Key, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// deletionStep is the most rows of one step, unless a test says otherwise.
const deletionStep = 1000

// A deleter carries one deletion out. Nothing of the series is committed
// meanwhile, so that it may write to the store beside the log's writer.
type deleter struct {
	*deletion
	x    *Indexer
	rec  *seriesRecord
	pair grants.Pair
	rev  *grants.Revocation
	// stopped is when the revocation came. A payload that was purged since counts
	// as one that the revocation deleted.
	stopped envelope.Time
}

// delete makes the steps of d that are left: catalogue rows become what proves
// the deletion, segments go or are written anew without what is deleted, the
// data keys are destroyed, and last the log says so.
func (x *Indexer) delete(ctx context.Context, d *deletion) error {
	w := &deleter{deletion: d, x: x}
	var stored storedRevocation
	var err error
	if w.rec, err = readSeries(x.store, d.Publisher, d.Series); err != nil {
		return err
	}
	if w.rec == nil {
		return fmt.Errorf("deletion in series %s, which is not there", d.Series)
	}
	if w.pair, err = pairOf(x.store, d.Grant); err != nil {
		return err
	}
	if _, err = durable.ReadJSON(x.store, revocationKey(d.Publisher, d.Revocation), &stored); err != nil {
		return err
	}
	w.stopped = stored.At
	if w.rev, err = stored.open(); err != nil {
		return err
	}
	steps := []func(context.Context) error{w.dropRows, w.rewrite, w.moveFiles, w.showMoved, w.dropDead, w.dropFiles, w.destroyKeys, w.conclude}
	if d.Whole {
		steps = []func(context.Context) error{w.dropRows, w.dropAll, w.dropTold, w.dropFiles, w.destroyKeys, w.conclude}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("deletion in series %s after revocation %s: %w", d.Series, d.Revocation, err)
		}
	}
	return nil
}

// commit makes a step durable, unless the indexer is closing.
func (w *deleter) commit(ctx context.Context, b *durable.Batch) error {
	if err := w.x.tender.pause(ctx); err != nil {
		return err
	}
	return b.Commit()
}

// reaches reports whether the page is to be deleted.
func (w *deleter) reaches(url string) bool {
	return w.Whole || w.rev.ReachesPage(w.pair.Grant, url)
}

// dropRows turns the catalogue rows of what is reached into what is kept.
func (w *deleter) dropRows(ctx context.Context) error {
	lo := sidKey('C', w.SID)
	hi := durable.PrefixEnd(lo)
	for lo != nil {
		var err error
		if lo, err = w.dropSome(ctx, lo, hi); err != nil {
			return err
		}
	}
	return nil
}

// dropSome is one step of dropRows. It returns where the next one begins, nil
// if there is none.
func (w *deleter) dropSome(ctx context.Context, lo, hi []byte) (next []byte, err error) {
	b := w.x.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	n := 0
	for kv, err := range w.x.store.Scan(lo, hi) {
		if err != nil {
			return nil, err
		}
		if n == w.x.tender.rows {
			next = append([]byte(nil), kv.Key...)
			break
		}
		var row catalogueRow
		if err := row.ParseRow(kv.Value); err != nil {
			return nil, fmt.Errorf("row %q: %w", kv.Key, err)
		}
		if !w.reaches(row.URL) {
			continue
		}
		n++
		held := row.Held || row.Purged != nil && !row.purgedAt().Before(w.stopped.Time)
		kept := deletedRow{JournalEpoch: row.JournalEpoch, Revision: row.Revision, Revocation: w.Revocation, Unheld: !held}
		if held {
			kept.Leaf = w.rec.leafKey().Leaf(translog.OpTombstone, row.JournalEpoch, row.Revision, row.URL, [32]byte{}).Hash()
		}
		h := kv.Key[len(kv.Key)-32:]
		if err := errors.Join(b.Delete(kv.Key), durable.WriteJSON(b, sidKey('D', w.SID, h...), kept)); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	return next, w.commit(ctx, b)
}

// dropAll drops every segment and the state tree of a series.
func (w *deleter) dropAll(ctx context.Context) (err error) {
	b := w.x.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, space := range []byte{'G', 'H'} {
		lo := sidKey(space, w.SID)
		if err := b.DeleteRange(lo, durable.PrefixEnd(lo)); err != nil {
			return err
		}
	}
	if err := b.DeleteRange(stateTree(w.SID).Bounds()); err != nil {
		return err
	}
	return w.commit(ctx, b)
}

// showMoved has the readers see where what stays lies now, before what it was sealed
// under is destroyed: one who saw the place before would take it for gone.
func (w *deleter) showMoved(ctx context.Context) error {
	if err := w.x.tender.pause(ctx); err != nil {
		return err
	}
	return w.x.tlog.CommitUrgent(ctx, unchanged{})
}

// unchanged is a proposal that changes nothing: with its commit everything is released
// that was in the store before.
type unchanged struct{}

// Prepare has nothing to add.
func (unchanged) Prepare(*translog.Tx) error { return nil }

// Finish has nothing to add.
func (unchanged) Finish(*translog.Tx, *translog.Committed) error { return nil }

func (w *deleter) destroyKeys(ctx context.Context) error {
	if err := w.x.tender.pause(ctx); err != nil {
		return err
	}
	w.x.frames.forget(w.SID)
	return w.x.keys.destroy(w.Publisher, w.Series, w.DataKey)
}

// conclude says in the log that the deletion is done.
func (w *deleter) conclude(ctx context.Context) error {
	p := &conclusion{deletion: w.deletion, pair: w.pair}
	var err error
	if p.scope, err = w.rev.ScopeHash(w.pair.Grant); err != nil {
		return err
	}
	lo := sidKey('D', w.SID)
	for kv, err := range w.x.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		var row deletedRow
		if err := json.Unmarshal(kv.Value, &row); err != nil {
			return fmt.Errorf("row %q: %w", kv.Key, err)
		}
		if row.Revocation != w.Revocation {
			continue
		}
		p.gone = append(p.gone, state.Item{URLHash: [32]byte(kv.Key[len(kv.Key)-32:]), Deleted: true})
		if !row.Unheld {
			p.leaves = append(p.leaves, row.Leaf)
		}
	}
	err = eachPage(w.x.store, w.SID, func(_ []byte, row *catalogueRow) error {
		if row.Held {
			p.pages++
			p.octets += row.Length
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.x.tender.pause(ctx); err != nil {
		return err
	}
	return w.x.tlog.CommitUrgent(ctx, p)
}

// A conclusion is the proposal that ends a deletion.
type conclusion struct {
	*deletion
	pair          grants.Pair
	scope         envelope.Hash // what of the grant was revoked
	gone          []state.Item  // by ascending hash
	leaves        [][32]byte    // of those whose payload was held, likewise
	pages, octets uint64        // that are left
	rec           *seriesRecord
}

// Prepare takes the pages out of the state, and the deletion off the list.
func (p *conclusion) Prepare(tx *translog.Tx) error {
	b := tx.Batch()
	if ok, err := durable.ReadJSON(b, p.key(), new(deletion)); err != nil || !ok {
		return err
	}
	rec, err := readSeries(b, p.Publisher, p.Series)
	if err != nil {
		return err
	}
	if rec == nil || rec.Deletions == 0 {
		return fmt.Errorf("series %s waits for no deletion", p.Series)
	}
	plan, err := stateTree(p.SID).Plan(b, p.gone)
	if err != nil {
		return err
	}
	p.rec = rec
	p.settle(rec, plan.Root())
	e := rec.entry(p.pair, p.State)
	e.Decision, e.Status, e.RevocationID, e.Objects = translog.DeleteAck, translog.Revoked, p.Revocation, translog.SetOf(p.leaves)
	e.ScopeHash = p.scope
	if err := p.tell(tx); err != nil {
		return err
	}
	return errors.Join(plan.Apply(b), b.Delete(p.key()), rec.write(b), rec.append(tx, p.pair, e, p.leaves))
}

// settle brings the series' record to where it stands after the deletion.
func (p *conclusion) settle(rec *seriesRecord, root envelope.Hash) {
	rec.Deletions--
	rec.Pages, rec.PayloadBytes, rec.State = p.pages, p.octets, root
	if p.Whole {
		rec.Bound, rec.Expired = envelope.Hash{}, envelope.Hash{}
	}
	done := func(r *revokedRecord) {
		if r.ID == p.Revocation {
			r.Deleted, r.Count = true, uint64(len(p.leaves))
		}
	}
	if rec.Revoked != nil {
		done(rec.Revoked)
	}
	for i := range rec.Partial {
		done(&rec.Partial[i])
	}
}

// Finish signs the acknowledgement.
func (p *conclusion) Finish(tx *translog.Tx, c *translog.Committed) error {
	if p.rec == nil {
		return nil
	}
	return acknowledge(tx, c, 0, p.rec, p.pair, p.scope, p.Revocation, translog.DeleteAck, uint64(len(p.leaves)))
}
