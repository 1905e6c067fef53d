package publisher

import (
	"errors"
	"fmt"
	"sort"

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

// receipts yields the stored answers.
func (p *Publisher) receipts() ([]storedAnswer, error) {
	var all []storedAnswer
	prefix := []byte{'R'}
	for kv, err := range p.store.Scan(prefix, durable.PrefixEnd(prefix)) {
		if err != nil {
			return nil, err
		}
		var a storedAnswer
		if err := json.Unmarshal(kv.Value, &a); err != nil {
			return nil, fmt.Errorf("receipt row %x: %w", kv.Key, err)
		}
		all = append(all, a)
	}
	sort.Slice(all, func(i, j int) bool {
		if !all[i].IssuedAt.Equal(all[j].IssuedAt.Time) {
			return all[i].IssuedAt.Before(all[j].IssuedAt.Time)
		}
		return all[i].TreeSize < all[j].TreeSize
	})
	return all, nil
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

// Receipts lists the receipts by time.
func (p *Publisher) Receipts() ([]ReceiptLine, error) {
	all, err := p.receipts()
	if err != nil {
		return nil, err
	}
	lines := make([]ReceiptLine, 0, len(all))
	for i := range all {
		a := &all[i]
		body, _, err := receiptOf(a)
		if err != nil {
			return nil, err
		}
		l := ReceiptLine{
			Receipt: a.Receipt, Indexer: a.Indexer, Series: a.Series, GrantID: a.GrantID,
			IssuedAt: a.IssuedAt, Through: a.Through, TreeSize: a.TreeSize, Entries: body.Entries,
		}
		if rel, err := readRelationship(p.dir, a.Series); err == nil {
			l.Collection = rel.Collection
		}
		lines = append(lines, l)
	}
	return lines, nil
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
// reports each that does not hold.
func (p *Publisher) VerifyReceipts() (checked int, bad []error, err error) {
	all, err := p.receipts()
	if err != nil {
		return 0, nil, err
	}
	for i := range all {
		if err := p.verifyReceipt(&all[i]); err != nil {
			bad = append(bad, fmt.Errorf("receipt %s: %w", all[i].Receipt, err))
		}
	}
	return len(all), bad, nil
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
