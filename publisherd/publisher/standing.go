package publisher

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// Standing says to a person where the agreement stands at now: live, not yet
// valid, expired, revocation pending, revoked, deletion pending or deleted. What
// is pending is signed here and waits for the indexer.
func (r *Relationship) Standing(now time.Time) string {
	var undelivered, deleting, waiting bool // waiting for the end of a retention
	for _, v := range r.revocations {
		undelivered = undelivered || v.Delivered.IsZero()
		deleting = deleting || v.Signed.Body.Disposition == grants.DispositionDelete && !v.Settled()
		waiting = waiting || v.Signed.Body.Disposition == grants.DispositionRetention && v.Signed.ReachesWhole(r.Pair.Grant)
	}
	switch state := r.State(now); {
	case deleting:
		return "deletion pending"
	case state == "revoked" && r.deleted():
		return "deleted"
	case state == "revoked" && undelivered:
		return "revocation pending"
	case state == "revoked" && waiting:
		return "deletion pending"
	case state == "in-force":
		return "live"
	case state == "not-yet-valid":
		return "not yet valid"
	default:
		return state
	}
}

// received is what is kept of the receipts of a series, beside themselves.
type received struct {
	Count    uint64        `json:"count"`
	Last     envelope.Hash `json:"last"`
	IssuedAt envelope.Time `json:"issued_at"`
}

func (a agreement) received(r durable.Reader) (got received, err error) {
	_, err = durable.ReadJSON(r, rowKey('A', a.rel.Series, 'n'), &got)
	return got, err
}

// countReceipt adds one receipt, to the commit that stores it.
func (a agreement) countReceipt(b *durable.Batch, ans *storedAnswer) error {
	got, err := a.received(b)
	if err != nil {
		return err
	}
	return durable.WriteJSON(b, rowKey('A', a.rel.Series, 'n'), received{got.Count + 1, ans.Receipt, ans.IssuedAt})
}

// A Delivery is how far an agreement has come, by what its indexer signed.
type Delivery struct {
	Series         string        `json:"series"`
	Revision       uint64        `json:"revision"` // that the last receipt reached
	Pages          uint64        `json:"pages"`    // offered and not deleted
	Receipts       uint64        `json:"receipts"` // evaluated and kept, ever
	LastReceipt    envelope.Hash `json:"last_receipt,omitzero"`
	LastReceiptAt  envelope.Time `json:"last_receipt_at,omitzero"`
	LastCheckpoint Checkpoint    `json:"last_checkpoint"` // of the indexer's log, the newest that was verified
}

// A Checkpoint is a tree of an indexer's log.
type Checkpoint struct {
	Size uint64        `json:"size"`
	Root envelope.Hash `json:"root"`
}

// Deliveries is the Delivery of each series, by name.
func (p *Publisher) Deliveries() ([]Delivery, error) {
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	all := make([]Delivery, 0, len(rels))
	for _, r := range rels {
		a := agreement{p.store, r}
		c, err := a.cursor(p.store)
		if err != nil {
			return nil, err
		}
		got, err := a.received(p.store)
		if err != nil {
			return nil, err
		}
		d := Delivery{Series: r.Series, Revision: c.Acked, Pages: c.Pages, Receipts: got.Count, LastReceipt: got.Last, LastReceiptAt: got.IssuedAt}
		if r.deleted() {
			d.Pages = 0
		}
		// The agreement is shown also when its indexer is not trusted any more.
		var refused *Refused
		tree, _, err := p.logTree(r.Indexer)
		if err != nil && !errors.As(err, &refused) {
			return nil, err
		}
		d.LastCheckpoint = Checkpoint{tree.Size, tree.Root}
		all = append(all, d)
	}
	return all, nil
}

// Since is when the first grant of each series began, of all that were ever
// signed here.
func Since(dir string) (map[string]time.Time, error) {
	files, err := filepath.Glob(filepath.Join(dir, "grants", "objects", "*.json"))
	if err != nil {
		return nil, err
	}
	since := make(map[string]time.Time)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		g, err := grants.ReadGrant(raw)
		if err != nil {
			continue // a policy, or what a later edition signed
		}
		begins := grants.Pair{Grant: g}.BeginsAt()
		if first, ok := since[g.Body.Series]; !ok || begins.Before(first) {
			since[g.Body.Series] = begins
		}
	}
	return since, nil
}
