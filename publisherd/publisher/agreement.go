package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A cursor is how far one indexer is with one collection.
type cursor struct {
	JournalEpoch uint64        `json:"journal_epoch"`
	Acked        uint64        `json:"acked"` // through of the last receipt
	Seen         uint64        `json:"seen"`  // at least Acked: nothing up to it is left to offer
	State        envelope.Hash `json:"state"` // root of the state tree at Acked; zero when empty
	Receipt      envelope.Hash `json:"receipt,omitzero"`
	Pages        uint64        `json:"pages"` // offered and not deleted
	// Reconciling is set from the moment at which the records were found to
	// contradict the indexer's until a batch has reached the journal's head.
	Reconciling bool `json:"reconciling,omitzero"`
	// Doubted is set from the moment at which the store turned out to be an older copy
	// until the indexer's records and these agree: it may be at a place that was
	// acknowledged after the copy was made, and is known here no more.
	Doubted bool `json:"doubted,omitzero"`
	// Listed is the root of the list by which pages were chosen last; zero if it
	// was by prefixes.
	Listed envelope.Hash `json:"listed,omitzero"`
	// Request is the number of the last answer to a request in this journal epoch.
	Request uint64 `json:"request,omitzero"`
	// ToldEpoch and Told are how far signals were sent: durable before they are.
	// Under is the grant under which the last ones were.
	ToldEpoch uint64        `json:"told_epoch,omitzero"`
	Told      uint64        `json:"told,omitzero"`
	Under     envelope.Hash `json:"under,omitzero"`
}

// renumber begins a new journal epoch at its beginning. What was signalled in the last
// one is said again in this one: its acknowledgement must not lead back.
func (c *cursor) renumber() (err error) {
	c.JournalEpoch, err = newJournalEpoch()
	c.Acked, c.Seen, c.Request, c.Reconciling = 0, 0, 0, true
	c.ToldEpoch, c.Told = 0, 0
	return err
}

// An offered item is one line of a batch as the publisher keeps it until the
// receipt is stored.
type offered struct {
	URL      string
	Digest   envelope.Hash // none of a tombstone
	Op       translog.Op
	Format   uint8
	Revision uint64

	// What follows is known on the way into a batch only.
	place *place        // of a put
	held  envelope.Hash // digest of what the indexer holds of a page that changed
	fresh bool          // the indexer was never offered the page
}

// A pendingBatch is a batch that was sent, or was about to be.
type pendingBatch struct {
	Manifest []byte
	Items    []offered

	plan   *state.Plan // of Items; nil when it was sent before a restart
	leaves [][32]byte  // of Items; nil when it was sent before a restart
}

// An agreement is the durable side of one Relationship.
type agreement struct {
	store *durable.Store
	rel   *Relationship
}

// ascends is to be called around the delivery of so many revisions: those of many pages
// have the order of their hashes, and so have what becomes of them (see scanSorts).
func (a agreement) ascends(revisions uint64) (done func()) {
	if revisions < scanSorts {
		return func() {}
	}
	return a.store.Ascending(rowKey('A', a.rel.Series, 'k'), rowKey('A', a.rel.Series, 'p'), a.tree().Leaf())
}

func (a agreement) tree() state.Tree { return state.New(rowKey('A', a.rel.Series, 's')) }

func (a agreement) cursor(r durable.Reader) (cursor, error) {
	var c cursor
	_, err := durable.ReadJSON(r, rowKey('A', a.rel.Series, 'c'), &c)
	return c, err
}

func (a agreement) setCursor(c cursor) error {
	b := a.store.NewBatch()
	defer b.Close()
	if err := durable.WriteJSON(b, rowKey('A', a.rel.Series, 'c'), c); err != nil {
		return err
	}
	return b.Commit()
}

func (a agreement) pending(r durable.Reader) (*pendingBatch, error) {
	row, err := r.Get(pendingKey(a.rel.Series))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := unpackPending(row)
	if err != nil {
		return nil, fmt.Errorf("pending batch of series %s: %w", a.rel.Series, err)
	}
	return p, nil
}

// setPending makes a batch's manifest and list durable before it is sent.
func (a agreement) setPending(p pendingBatch) error {
	row, err := p.pack()
	if err != nil {
		return err
	}
	b := a.store.NewBatch()
	defer b.Close()
	if err := b.Set(pendingKey(a.rel.Series), row); err != nil {
		return err
	}
	return b.Commit()
}

// dropPending forgets a batch that the indexer does not know.
func (a agreement) dropPending() error {
	b := a.store.NewBatch()
	defer b.Close()
	if err := b.Delete(pendingKey(a.rel.Series)); err != nil {
		return err
	}
	return b.Commit()
}

// plan computes the state after items.
func (a agreement) plan(r durable.Reader, items []offered) (*state.Plan, error) {
	changes := make([]state.Item, len(items))
	for i, it := range items {
		changes[i] = state.Item{
			URLHash: urlHash(it.URL), Digest: [32]byte(it.Digest), Format: it.Format, Deleted: it.Op == translog.OpTombstone,
		}
	}
	return a.tree().Plan(r, changes)
}

// planOf is the plan that the manifest was signed by, if the state is still as it was
// then, or one that is worked out anew.
func (a agreement) planOf(r durable.Reader, p pendingBatch) (*state.Plan, error) {
	if p.plan != nil {
		root, _, err := a.tree().Root(r)
		if err != nil {
			return nil, err
		}
		if root == p.plan.Before() {
			return p.plan, nil
		}
	}
	return a.plan(r, p.Items)
}

// narrowTo writes a plan that is not of a batch. No page that it takes out of the
// state leaves a base behind: where the state has no page there is none.
func (a agreement) narrowTo(b *durable.Batch, plan *state.Plan) error {
	return errors.Join(plan.Apply(b), a.forgetBases(b, plan))
}

// A storedAnswer is a receipt with what it was evaluated by.
type storedAnswer struct {
	Series    string         `json:"series"`
	Indexer   envelope.Name  `json:"indexer"`
	GrantID   envelope.Hash  `json:"grant_id"`
	PolicyID  envelope.Hash  `json:"policy_id"`
	Manifest  []byte         `json:"manifest,omitempty"` // of a batch
	Rebind    *pendingRebind `json:"rebind,omitempty"`   // of a rebind
	Committed []byte         `json:"committed"`          // the wire's Committed message, as received
	Receipt   envelope.Hash  `json:"receipt"`
	IssuedAt  envelope.Time  `json:"issued_at"`
	Through   uint64         `json:"through"`
	TreeSize  uint64         `json:"tree_size"`
}

// accept makes the receipt, what it acknowledges, the state, the cursor and
// the log's new tree durable in one commit. Only then is the batch forgotten.
// A reconciliation ends with the batch that reaches the revision reach.
func (a agreement) accept(ans storedAnswer, m translog.Manifest, p pendingBatch, decided []decided, note []byte, reach uint64, k kept) (cursor, error) {
	items := p.Items
	b := a.store.NewBatch()
	defer b.Close()
	// What nothing below reads: it is far cheaper to fill.
	rows := a.store.NewBlindBatchOf(octetsOf(k.bodies)/2 + len(items)*itemOctets)
	defer rows.Close()
	c, err := a.cursor(b)
	if err != nil {
		return c, err
	}
	plan, err := a.planOf(b, p)
	if err != nil {
		return c, err
	}
	if plan.Root() != m.StateAfter {
		return c, errors.New("the state moved while a batch was under way")
	}
	if err := plan.Apply(rows); err != nil {
		return c, err
	}
	c.JournalEpoch, c.Acked, c.State, c.Receipt, c.Pages = m.JournalEpoch, m.Through, plan.Root(), ans.Receipt, plan.Count()
	if m.Request != 0 {
		c.Request = m.Request // and what was not offered yet still is not
		err = a.countAnswer(b, items)
	} else {
		c.Seen, c.Reconciling = max(c.Seen, m.Through), c.Reconciling && m.Through < reach
	}
	if err != nil {
		return c, err
	}
	if err := errors.Join(a.writeAcked(rows, m, ans.Receipt, items, decided), a.keepBases(b, rows, items, decided, k), a.settleLetters(b, items, decided, ans.IssuedAt)); err != nil {
		return c, err
	}
	for key, val := range map[string]any{
		string(receiptKey(ans.Receipt)):        ans,
		string(rowKey('A', a.rel.Series, 'c')): c,
	} {
		if err := durable.WriteJSON(b, []byte(key), val); err != nil {
			return c, err
		}
	}
	if err := errors.Join(b.Set(treeKey(a.rel.Indexer), note), b.Delete(pendingKey(a.rel.Series)), a.countReceipt(b, &ans)); err != nil {
		return c, err
	}
	if err = rows.Merge(b); err == nil { // or the receipt would be missing
		err = rows.Commit()
	}
	if err != nil {
		return c, fmt.Errorf("receipt %s: %w", ans.Receipt, err)
	}
	return c, nil
}

// itemOctets is about what one page takes in the commit of a receipt, beside its payload,
// which shrinks to the half or less: two rows, and its part of the state.
const itemOctets = 480

// decided is the indexer's decision on one item.
type decided struct {
	op       translog.Op
	leaf     [32]byte
	decision translog.Decision
	reason   string
}

// storedLeaf is the length of a leaf in a set's row: its operation and hash.
const storedLeaf = 1 + 32

// writeAcked writes one row a page and the leaves of each set.
func (a agreement) writeAcked(b *durable.Batch, m translog.Manifest, receipt envelope.Hash, items []offered, decided []decided) error {
	order := setOrder(decided)
	sets := make([][]byte, max(1, len(order))) // a batch without items has one empty set
	type placed struct {
		h        [32]byte
		at       int // in items
		in, next int // in which set, and where there
	}
	all := make([]placed, len(items))
	for i := range items {
		n := order[decided[i].decision]
		all[i] = placed{urlHash(items[i].URL), i, n, len(sets[n]) / storedLeaf}
		sets[n] = append(append(sets[n], byte(decided[i].op)), decided[i].leaf[:]...)
	}
	// Rows that come by ascending key are far cheaper for the store to take.
	slices.SortFunc(all, func(a, b placed) int { return bytes.Compare(a.h[:], b.h[:]) })
	var packed []byte
	for i := range all {
		p := &all[i]
		it, d := &items[p.at], &decided[p.at]
		row := ackedPage{
			URL: it.URL, Digest: it.Digest, Op: it.Op, JournalEpoch: m.JournalEpoch, Revision: it.Revision,
			Decision: d.decision, Reason: d.reason, Receipt: receipt, Set: p.in, Place: p.next,
		}
		packed = row.append(packed[:0])
		if err := b.Set(ackedKey(a.rel.Series, p.h), packed); err != nil {
			return err
		}
	}
	for n, leaves := range sets {
		if err := b.Set(setKey(receipt, n), leaves); err != nil {
			return err
		}
	}
	return nil
}

// setOrder numbers the decision sets of a batch: a receipt lists its entries
// in this order, and leaves out the empty ones.
func setOrder(all []decided) map[translog.Decision]int {
	order := make(map[translog.Decision]int, 4)
	for _, d := range []translog.Decision{translog.Include, translog.Update, translog.DeleteAck, translog.Exclude} {
		for _, x := range all {
			if x.decision == d {
				order[d] = len(order)
				break
			}
		}
	}
	return order
}

// ErrBehind is returned when the indexer does not hold what its receipts say,
// or the publisher was restored to an earlier state.
var ErrBehind = errors.New("publisher and indexer do not agree on what was delivered")
