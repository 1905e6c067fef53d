package publisher

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// ErrNoReceipt is returned when no receipt answers the question.
var ErrNoReceipt = errors.New("no receipt")

// manifestOf opens the manifest of a stored answer.
func manifestOf(a *storedAnswer) (*envelope.Object, translog.Manifest, error) {
	var m translog.Manifest
	o, err := envelope.Parse(a.Manifest)
	if err == nil {
		err = o.DecodeBody(&m)
	}
	if err != nil {
		return nil, m, fmt.Errorf("manifest of receipt %s: %w", a.Receipt, err)
	}
	return o, m, nil
}

// agreed is what every answer of an indexer under pair has to match, if it
// stands in log.
func agreed(self envelope.Name, peer *identity.Peer, log *identity.Log, keys envelope.KeySource, rel *Relationship, pair grants.Pair) evaluate.Agreed {
	g := pair.Grant
	return evaluate.Agreed{
		Publisher: self, Indexer: peer.Card.Identity, Keys: keys, LogVKey: log.VKey, LogOrigin: log.Origin,
		GrantID: g.Object.ID, PolicyHash: g.Body.PolicyHash, ScopeHash: g.ScopeHash, Purposes: g.Body.Purposes.Strings(), GrantExpiresAt: g.Object.ExpiresAt,
		CollectionRef: rel.CollectionRef(), Subject: rel.Subject(self),
	}
}

// expected is what the answer to a manifest has to match, but for the sets and
// the times of the session.
func expected(self envelope.Name, peer *identity.Peer, log *identity.Log, keys envelope.KeySource, rel *Relationship, pair grants.Pair, manifest *envelope.Object, m translog.Manifest) evaluate.Expected {
	return evaluate.Expected{
		Agreed: agreed(self, peer, log, keys, rel, pair), BatchID: manifest.ID,
		JournalEpoch: m.JournalEpoch, From: m.From, Through: m.Through, Request: m.Request,
		StateCommitment:  rel.LeafKey.StateCommitment(m.JournalEpoch, m.Through, m.StateAfter),
		ManifestIssuedAt: manifest.IssuedAt,
	}
}

// storedSets rebuilds the decisions of a stored answer from its entries and
// their leaf hashes. Within a set the order is the batch's; what the sets
// offered together is checked against the manifest when the answer comes.
func (p *Publisher) storedSets(a *storedAnswer) ([]evaluate.Decided, error) {
	ans, err := a.answer()
	if err != nil {
		return nil, err
	}
	var all []evaluate.Decided
	for n, raw := range ans.Entries {
		o, err := envelope.Parse(raw)
		if err != nil {
			return nil, err
		}
		var e translog.Entry
		if err := o.DecodeBody(&e); err != nil {
			return nil, err
		}
		ops, leaves, err := p.set(a.Receipt, n)
		if err != nil {
			return nil, err
		}
		for i, l := range leaves {
			all = append(all, evaluate.Decided{Op: ops[i], LeafHash: l, Decision: e.Decision})
		}
	}
	return all, nil
}

// set reads the operations and leaf hashes of the n-th set of a receipt.
func (p *Publisher) set(receipt envelope.Hash, n int) ([]translog.Op, [][32]byte, error) {
	b, err := p.store.Get(setKey(receipt, n))
	if err != nil {
		return nil, nil, fmt.Errorf("receipt %s, set %d: %w", receipt, n, err)
	}
	ops, leaves := make([]translog.Op, len(b)/storedLeaf), make([][32]byte, len(b)/storedLeaf)
	for i := range leaves {
		ops[i], leaves[i] = translog.Op(b[i*storedLeaf]), [32]byte(b[i*storedLeaf+1:])
	}
	return ops, leaves, nil
}

// receiptRows yields the stored answers in the order of their receipts' ids, one in
// memory at a time.
func (p *Publisher) receiptRows() iter.Seq2[*storedAnswer, error] {
	return func(yield func(*storedAnswer, error) bool) {
		prefix := []byte{'R'}
		for kv, err := range p.store.Scan(prefix, durable.PrefixEnd(prefix)) {
			a := new(storedAnswer)
			if err == nil {
				if err = json.Unmarshal(kv.Value, a); err != nil {
					err = fmt.Errorf("receipt row %x: %w", kv.Key, err)
				}
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// A ReceiptLine is one receipt as `publisherd receipts list` shows it.
type ReceiptLine struct {
	Receipt    envelope.Hash       `json:"receipt"`
	Indexer    envelope.Name       `json:"indexer"`
	Collection string              `json:"collection"`
	Series     string              `json:"series"`
	GrantID    envelope.Hash       `json:"grant_id"`
	IssuedAt   envelope.Time       `json:"issued_at"`
	Through    uint64              `json:"through"`
	TreeSize   uint64              `json:"tree_size"`
	Entries    []translog.EntryRef `json:"entries"`
}

// A ReceiptList is the newest receipts by time, and how many are older.
type ReceiptList struct {
	Receipts []ReceiptLine `json:"receipts"`
	Older    int           `json:"older,omitzero"`
}

// Receipts lists the newest receipts, limit of them, or all if it is 0. At most
// twice as many are in memory.
func (p *Publisher) Receipts(limit int) (ReceiptList, error) {
	list := ReceiptList{Receipts: []ReceiptLine{}}
	names := make(map[string]string) // collections by series
	for a, err := range p.receiptRows() {
		if err != nil {
			return list, err
		}
		body, _, err := receiptOf(a)
		if err != nil {
			return list, err
		}
		name, known := names[a.Series]
		if !known {
			if rel, err := readRelationship(p.dir, a.Series); err == nil {
				name = rel.Collection
			}
			names[a.Series] = name
		}
		list.Receipts = append(list.Receipts, ReceiptLine{
			Receipt: a.Receipt, Indexer: a.Indexer, Series: a.Series, GrantID: a.GrantID, Collection: name,
			IssuedAt: a.IssuedAt, Through: a.Through, TreeSize: a.TreeSize, Entries: body.Entries,
		})
		if limit > 0 && len(list.Receipts) >= 2*limit {
			list.cut(limit)
		}
	}
	list.cut(limit)
	return list, nil
}

// cut leaves the newest lines, limit of them unless it is 0, by time.
func (l *ReceiptList) cut(limit int) {
	slices.SortFunc(l.Receipts, func(a, b ReceiptLine) int {
		return cmp.Or(a.IssuedAt.Compare(b.IssuedAt.Time), cmp.Compare(a.TreeSize, b.TreeSize))
	})
	if n := len(l.Receipts) - limit; limit > 0 && n > 0 {
		l.Receipts, l.Older = slices.Delete(l.Receipts, 0, n), l.Older+n
	}
}

func receiptOf(a *storedAnswer) (translog.Receipt, *envelope.Object, error) {
	var body translog.Receipt
	ans, err := a.answer()
	if err != nil {
		return body, nil, err
	}
	o, err := envelope.Parse(ans.Receipt)
	if err == nil {
		err = o.DecodeBody(&body)
	}
	if err != nil {
		return body, nil, fmt.Errorf("receipt %s: %w", a.Receipt, err)
	}
	return body, o, nil
}

// ReceiptFile gives the exact octets of one receipt.
func (p *Publisher) ReceiptFile(id envelope.Hash) ([]byte, error) {
	var a storedAnswer
	ok, err := durable.ReadJSON(p.store, receiptKey(id), &a)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w %s", ErrNoReceipt, id)
	}
	ans, err := a.answer()
	return ans.Receipt, err
}

// VerifyReceipts evaluates every stored receipt again (UZPIF-OI 9.1.4) and
// reports each that does not hold. One is in memory at a time.
func (p *Publisher) VerifyReceipts() (checked int, bad []error, err error) {
	for a, err := range p.receiptRows() {
		if err != nil {
			return checked, bad, err
		}
		checked++
		if err := p.verifyReceipt(a); err != nil {
			bad = append(bad, fmt.Errorf("receipt %s: %w", a.Receipt, err))
		}
	}
	return checked, bad, nil
}

func (p *Publisher) verifyReceipt(a *storedAnswer) error {
	rel, err := readRelationship(p.dir, a.Series)
	if err != nil {
		return err
	}
	if a.Rebind != nil {
		return p.verifyRebind(rel, a, p.now())
	}
	e, err := p.expectedOf(rel, a, p.now())
	if err != nil {
		return err
	}
	ans, err := a.answer()
	if err != nil {
		return err
	}
	_, err = evaluate.Batch(ans, e)
	return err
}
