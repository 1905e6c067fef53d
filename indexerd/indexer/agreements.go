package indexer

import (
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// An Agreement is one line of `indexerd agreements`: one publisher and one
// collection, what the publisher allows in the words that it signed, and how
// far the two have come. `publisherd grant list` is its other side; members
// that both have are of one name and mean the same.
type Agreement struct {
	Publisher  envelope.Name `json:"publisher"`
	Indexer    envelope.Name `json:"indexer"`
	Origins    []string      `json:"origins"` // that the operator named for the publisher
	Trusted    bool          `json:"trusted"` // whether it may open a session
	Series     string        `json:"series"`
	Collection string        `json:"collection"`
	GrantID    envelope.Hash `json:"grant_id"` // of the newest grant
	PolicyID   envelope.Hash `json:"policy_id"`
	Since      envelope.Time `json:"since"` // when the series' first grant began
	ExpiresAt  envelope.Time `json:"expires_at"`
	Purposes   []string      `json:"purposes"`
	Mode       grants.Mode   `json:"mode"` // who begins a transfer: push, request or both
	Revision   uint64        `json:"revision"`
	Pages      uint64        `json:"pages"`
	State      string        `json:"state"`    // in force, not yet valid, expired, revoked, deleting or deleted
	Standing   string        `json:"standing"` // live, not yet valid, expired, revoked, deletion pending or deleted
	Words      []string      `json:"words"`

	Receipts       uint64                 `json:"receipts"` // signed, ever
	LastReceipt    envelope.Hash          `json:"last_receipt,omitzero"`
	LastReceiptAt  envelope.Time          `json:"last_receipt_at,omitzero"`
	LastCheckpoint translog.CheckpointRef `json:"last_checkpoint"` // that of the last receipt
	Asking         AgreementAsking        `json:"asking"`
	Revocations    []AgreementRevocation  `json:"revocations"` // that closed any of what is held
}

// An AgreementAsking is what passed by signals and requests, in pages.
type AgreementAsking struct {
	Signalled uint64 `json:"signalled"` // ever
	Wanted    uint64 `json:"wanted"`    // that are to be asked for
	Asked     uint64 `json:"asked"`     // of them, those asked for and not answered
	Delivered uint64 `json:"delivered"` // for the asking, ever
	Dropped   uint64 `json:"dropped"`   // that were wanted beyond the backlog, ever
}

// An AgreementRevocation is what a revocation did to an agreement.
type AgreementRevocation struct {
	ID          envelope.Hash      `json:"revocation_id"`
	Disposition grants.Disposition `json:"disposition"`
	At          envelope.Time      `json:"at"`
	Deleted     bool               `json:"deleted"` // what it asked to delete is gone
	Count       uint64             `json:"count"`   // pages stopped, then pages deleted
}

// standing is an agreement's State and Standing.
func (r *seriesRecord) standing(rd durable.Reader, newest grants.Pair, now time.Time) (state, standing string, err error) {
	err = inForce(rd, newest, now)
	switch {
	case r.Deletions > 0:
		return "deleting", "deletion pending", nil
	case err == nil:
		return "in force", "live", nil
	case errors.Is(err, grants.ErrRevoked) && r.Revoked != nil && r.Revoked.Deleted:
		return "deleted", "deleted", nil
	case errors.Is(err, grants.ErrRevoked):
		waits, err := r.waits(rd)
		if waits {
			return "revoked", "deletion pending", err
		}
		return "revoked", "revoked", err
	case errors.Is(err, grants.ErrExpired):
		return "expired", "expired", nil
	case errors.Is(err, grants.ErrNotYetValid):
		return "not yet valid", "not yet valid", nil
	}
	return "", "", err
}

// waits reports whether pages of the series wait for the end of their retention
// to be deleted.
func (r *seriesRecord) waits(rd durable.Reader) (bool, error) {
	lo := sidKey('W', r.SID)
	for _, err := range rd.Scan(lo, durable.PrefixEnd(lo)) {
		return err == nil, err
	}
	return false, nil
}

// Agreements lists every series that was ever announced, by publisher.
func (x *Indexer) Agreements() ([]Agreement, error) {
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return nil, err
	}
	all := make([]Agreement, 0, len(recs))
	for _, rec := range recs {
		g, err := x.agreement(rec)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}

func (x *Indexer) agreement(rec *seriesRecord) (g Agreement, err error) {
	pair, err := readPair(x.store, rec)
	if err != nil {
		return g, err
	}
	last, err := readReceipt(x.store, rec.SID)
	if err != nil {
		return g, err
	}
	g = Agreement{
		Publisher: rec.Publisher, Indexer: x.local.Name(), Origins: []string{}, Series: rec.Series, Collection: rec.Collection,
		GrantID: rec.Grant.ID, PolicyID: rec.Policy.ID, Since: rec.Since, ExpiresAt: envelope.At(pair.ExpiresAt()),
		Purposes: pair.Grant.Body.Purposes.Strings(), Mode: pair.Grant.Body.Mode, Revision: rec.Revision, Pages: rec.Pages, Words: grants.Describe(pair),
		Receipts: rec.Receipts, LastReceipt: last.ID, LastReceiptAt: last.IssuedAt, LastCheckpoint: last.Checkpoint,
		Revocations: []AgreementRevocation{},
		Asking: AgreementAsking{
			Signalled: rec.Signalled, Wanted: rec.Wanted, Asked: x.sessions.underWay(rec), Delivered: rec.Delivered, Dropped: rec.Dropped,
		},
	}
	if g.Since.IsZero() { // kept by an edition that did not note it
		g.Since = envelope.At(pair.BeginsAt())
	}
	peer, trusted := x.trust.Lookup(rec.Publisher)
	if g.Trusted = trusted; trusted {
		for _, o := range peer.Origins {
			g.Origins = append(g.Origins, string(o))
		}
	}
	closed := rec.Partial
	if rec.Revoked != nil {
		closed = append(closed[:len(closed):len(closed)], *rec.Revoked)
	}
	for _, v := range closed {
		g.Revocations = append(g.Revocations, AgreementRevocation(v))
	}
	g.State, g.Standing, err = rec.standing(x.store, pair, x.cfg.Now())
	return g, err
}
