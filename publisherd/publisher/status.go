package publisher

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Status is what `publisherd status --json` prints.
type Status struct {
	Identity    envelope.Name      `json:"identity"`
	Collections []CollectionStatus `json:"collections"`
	Indexers    []IndexerStatus    `json:"indexers"`

	Certificate identity.CertificateStatus `json:"certificate"`
	Trust       identity.TrustStatus       `json:"trust"`
}

// A CollectionStatus is where one journal stands.
type CollectionStatus struct {
	Name         string `json:"name"`
	JournalEpoch uint64 `json:"journal_epoch"`
	Revision     uint64 `json:"revision"`
	Pages        uint64 `json:"pages"`
}

// An IndexerStatus is where one agreement stands. State is "in-force",
// "expired", "revoked" or "not-yet-valid"; backlog counts revisions that were not offered.
type IndexerStatus struct {
	Identity       envelope.Name      `json:"identity"`
	Collection     string             `json:"collection"`
	Series         string             `json:"series"`
	State          string             `json:"state"`
	GrantID        envelope.Hash      `json:"grant_id"`
	ExpiresAt      envelope.Time      `json:"expires_at"`
	Expiry         string             `json:"expiry"` // when it ends, and what happens before, in words
	Alert          bool               `json:"alert"`  // see Relationship.Alert
	Renewal        *Renewal           `json:"renewal,omitzero"`
	Mode           grants.Mode        `json:"mode"`      // who begins a transfer: push, request or both
	Signalled      uint64             `json:"signalled"` // pages, ever
	Asked          uint64             `json:"asked"`     // pages that the indexer asked for, ever
	Delivered      uint64             `json:"delivered"` // of them, those that it has
	Backlog        uint64             `json:"backlog"`
	Pages          uint64             `json:"pages"`
	Pending        bool               `json:"pending"`                // a batch awaits its receipt
	LimitedUntil   envelope.Time      `json:"limited_until,omitzero"` // a limit of the grant keeps the backlog here
	LastReceipt    string             `json:"last_receipt"`
	LastCheckpoint uint64             `json:"last_checkpoint"` // tree size
	Revocations    []RevocationStatus `json:"revocations"`     // that concern the series
	Alarm          *Alarm             `json:"alarm,omitempty"`
	Log            *LogCheck          `json:"log,omitempty"`        // the comparison with the public log
	Downstream     *HoldersStatus     `json:"downstream,omitempty"` // to whom it says that it handed pages
	Refused        *RefusedStatus     `json:"refused,omitempty"`    // pages that are not delivered
	Held           *HeldStatus        `json:"held,omitempty"`       // the indexer has no room for more
	Session        *SessionStatus     `json:"session,omitempty"`    // of a daemon that runs, while the grant is in force
}

// A RevocationStatus is one revocation with what was acknowledged. State is
// "pending" until the indexer has it, "disputed" while its last answer did not
// hold, "deleting" until it has deleted what it was to delete, and then "done".
type RevocationStatus struct {
	ID               envelope.Hash        `json:"revocation_id"`
	Indexer          envelope.Name        `json:"indexer"`
	Series           string               `json:"series,omitzero"` // empty: the whole relationship
	Scope            []string             `json:"scope,omitempty"` // empty: all of it
	Disposition      grants.Disposition   `json:"disposition"`
	IssuedAt         envelope.Time        `json:"issued_at"`
	State            string               `json:"state"`
	DeliveredAt      envelope.Time        `json:"delivered_at,omitzero"`
	Acknowledgements []AcknowledgedStatus `json:"acknowledgements"`
}

// An AcknowledgedStatus is one evaluated acknowledgement.
type AcknowledgedStatus struct {
	Series   string            `json:"series"`
	Type     translog.Decision `json:"type"`
	Count    uint64            `json:"count"` // pages
	IssuedAt envelope.Time     `json:"issued_at"`
	Entry    uint64            `json:"entry"` // log index
	Linked   bool              `json:"linked"`
	Unplaced bool              `json:"unplaced,omitzero"` // see Acknowledgement.Unplaced
}

// Status is how a revocation stands.
func (v *Revocation) Status() RevocationStatus {
	b := v.Signed.Body
	s := RevocationStatus{
		ID: v.ID(), Indexer: v.Indexer, Series: b.Series, Disposition: b.Disposition, IssuedAt: envelope.At(v.Signed.Object.IssuedAt),
		State: "deleting", DeliveredAt: v.Delivered, Acknowledgements: []AcknowledgedStatus{},
	}
	if b.Target.Scope != nil {
		s.Scope = b.Target.Scope.Prefixes
	}
	switch {
	case v.Delivered.IsZero():
		s.State = "pending"
	case v.Disputed:
		s.State = "disputed"
	case v.Settled():
		s.State = "done"
	}
	for _, a := range v.Acknowledgements {
		s.Acknowledgements = append(s.Acknowledgements, AcknowledgedStatus{a.Series, a.Type, a.Count, a.IssuedAt, a.EntryIndex, a.Linked, a.Unplaced})
	}
	return s
}

// State says in one word where the grant stands at now: "in-force", "expired",
// "revoked" or "not-yet-valid".
func (r *Relationship) State(now time.Time) string {
	switch {
	case r.Revoked():
		return "revoked"
	case !now.Before(r.Pair.ExpiresAt()):
		return "expired"
	case r.Pair.Fresh(now) != nil:
		return "not-yet-valid"
	}
	return "in-force"
}

// deleted reports whether the indexer acknowledged that nothing of the series
// is left.
func (r *Relationship) deleted() bool {
	for _, v := range r.revocations {
		if v.Signed.Body.Target.Scope == nil && v.acknowledged(r.Series, translog.DeleteAck) {
			return true
		}
	}
	return false
}

// Status reads where everything stands.
func (p *Publisher) Status() (Status, error) {
	s := Status{Identity: p.local.Name(), Collections: []CollectionStatus{}, Indexers: []IndexerStatus{}, Certificate: p.local.Status(p.now()), Trust: p.trust.Status()}
	sources, err := Sources(p.dir)
	if err != nil {
		return s, err
	}
	heads := make(map[string]head)
	for _, src := range sources {
		h, err := journal{store: p.store, coll: src.Name}.head(p.store)
		if err != nil {
			return s, err
		}
		if h.Revision == 0 {
			h.Epoch = 0 // the journal has not begun
		}
		heads[src.Name] = h
		s.Collections = append(s.Collections, CollectionStatus{src.Name, h.Epoch, h.Revision, h.Pages})
	}
	rels, err := Relationships(p.dir)
	if err != nil {
		return s, err
	}
	for _, r := range rels {
		line, err := p.indexerStatus(r, heads[r.Collection])
		if err != nil {
			return s, err
		}
		s.Indexers = append(s.Indexers, line)
	}
	return s, nil
}

func (p *Publisher) indexerStatus(r *Relationship, h head) (IndexerStatus, error) {
	a := agreement{p.store, r}
	c, err := a.cursor(p.store)
	if err != nil {
		return IndexerStatus{}, err
	}
	pending, err := a.pending(p.store)
	if err != nil {
		return IndexerStatus{}, err
	}
	tree, _, err := p.logTree(r.Indexer)
	if err != nil {
		return IndexerStatus{}, err
	}
	g := r.Pair.Grant.Object
	line := IndexerStatus{
		Identity: r.Indexer, Collection: r.Collection, Series: r.Series, State: r.State(p.now()), GrantID: g.ID, ExpiresAt: envelope.At(g.ExpiresAt),
		Backlog: h.Revision - min(c.Seen, h.Revision), Pending: pending != nil, LastCheckpoint: tree.Size, Revocations: []RevocationStatus{},
	}
	line.Expiry, line.Alert, line.Renewal = r.Expiry(p.now()), r.Alert(p.now()), r.Renewal
	if !c.Receipt.IsZero() {
		line.LastReceipt = c.Receipt.String()
	}
	n, err := a.askedCount(p.store)
	if err != nil {
		return line, err
	}
	line.Mode, line.Signalled, line.Asked, line.Delivered = r.Pair.Grant.Body.Mode, n.Signalled, n.Asked, n.Delivered
	paced, err := a.pacing(p.store)
	if err != nil {
		return line, err
	}
	if line.Backlog > 0 && paced.Until.After(p.now()) {
		line.LimitedUntil = paced.Until
	}
	for _, v := range r.revocations {
		line.Revocations = append(line.Revocations, v.Status())
	}
	if line.Alarm, err = p.alarm(r); err != nil {
		return line, err
	}
	sum, err := a.letterSum(p.store)
	if err != nil {
		return line, err
	}
	line.Pages = sum.delivered(c)
	if line.Refused, err = a.refused(p.store, sum); err != nil {
		return line, err
	}
	if err := p.waiting(&line, a); err != nil {
		return line, err
	}
	if who, ok := p.trust.Lookup(r.Indexer); ok {
		if line.Log, err = p.logCheck(who); err != nil {
			return line, err
		}
	}
	if line.Downstream, err = p.holders(r); err != nil {
		return line, err
	}
	if line.State == "revoked" {
		line.Backlog = 0
	}
	if r.deleted() {
		line.Pages = 0
	}
	return line, nil
}
