package indexer

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Provenance is where a page comes from: from whom, under which grant, and which
// entry of the log says so.
type Provenance struct {
	URL          string        `json:"url"`
	Publisher    envelope.Name `json:"publisher"`
	Series       string        `json:"series"`
	Collection   string        `json:"collection"`
	GrantID      envelope.Hash `json:"grant_id"`    // under which it was taken in
	HeldUnder    envelope.Hash `json:"held_under"`  // the grant that took it over since, or the same
	PolicyHash   envelope.Hash `json:"policy_hash"` // of that grant
	Entry        EntryPlace    `json:"entry"`
	JournalEpoch uint64        `json:"journal_epoch"`
	Revision     uint64        `json:"revision"`
	Digest       envelope.Hash `json:"digest"` // of the payload
	Format       uint8         `json:"format"`
	Size         uint64        `json:"size"`
	TakenAt      envelope.Time `json:"taken_at"`
	ModifiedAt   envelope.Time `json:"modified_at,omitzero"` // as the publisher says
}

// An EntryPlace is an entry of a log of this indexer, and a leaf in its set.
type EntryPlace struct {
	LogOrigin string            `json:"log_origin"`
	Index     uint64            `json:"index"`
	ObjectID  envelope.Hash     `json:"object_id"`
	Decision  translog.Decision `json:"decision"`
	Status    translog.Status   `json:"status"`
	IssuedAt  envelope.Time     `json:"issued_at"`
	Place     int               `json:"place"`
	BatchID   envelope.Hash     `json:"batch_id,omitzero"` // the publisher's manifest
}

// provenance is that of a page in the catalogue, or errUnreleased.
func (x *Indexer) provenance(g *gate, row *catalogueRow) (Provenance, error) {
	entry, err := x.entryPlace(row.Log, row.Entry, row.Place)
	return provenanceOf(g, row, entry), err
}

// entryPlace reads an entry of one of the logs.
func (x *Indexer) entryPlace(log uint32, index uint64, place int) (EntryPlace, error) {
	logs := x.logs()
	if int(log) >= len(logs) {
		return EntryPlace{}, fmt.Errorf("log %d is none of this indexer", log)
	}
	raw, err := logs[log].Released().Entry(index)
	if errors.Is(err, translog.ErrNotCovered) {
		return EntryPlace{}, errUnreleased
	}
	if err != nil {
		return EntryPlace{}, err
	}
	o, err := envelope.Parse(raw)
	if err != nil {
		return EntryPlace{}, fmt.Errorf("entry %d: %w", index, err)
	}
	var e translog.Entry
	if err := o.DecodeBody(&e); err != nil {
		return EntryPlace{}, fmt.Errorf("entry %d: %w", index, err)
	}
	return EntryPlace{e.LogOrigin, index, o.ID, e.Decision, e.Status, envelope.At(o.IssuedAt), place, e.BatchID}, nil
}

// A Found is a page in the catalogue, whether or not it may be read. It holds no
// payload.
type Found struct {
	Provenance
	Terms Terms `json:"terms"`
	// Refused is the reason why a read is refused, for the purpose that was asked
	// for, or whatever the purpose if there was none; empty: it is not.
	Refused grants.Reason `json:"refused,omitzero"`
	Detail  string        `json:"detail,omitzero"`
	// Purge is the entry that says that the payload went at the end of its
	// retention.
	Purge *EntryPlace `json:"purge,omitempty"`
}

// Find tells the operator what is known of a URL: of every publisher who offered
// it, by name. No purpose asks only what stands in the way of all of them.
func (x *Indexer) Find(url string, purpose grants.Purpose) (all []Found, err error) {
	snapshot, err := x.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	recs, err := seriesOf(snapshot, "")
	if err != nil {
		return nil, err
	}
	h := sha256.Sum256([]byte(url))
	for _, rec := range recs {
		var row catalogueRow
		ok, err := readRow(snapshot, sidKey('C', rec.SID, h[:]...), &row)
		if err != nil {
			return nil, err
		}
		if !ok || row.URL != url {
			continue
		}
		f, err := x.found(snapshot, rec, &row, purpose)
		if errors.Is(err, errUnreleased) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func (x *Indexer) found(r durable.Reader, rec *seriesRecord, row *catalogueRow, purpose grants.Purpose) (f Found, err error) {
	g, err := rec.gate(r)
	if err != nil {
		return f, err
	}
	if f.Provenance, err = x.provenance(g, row); err != nil {
		return f, err
	}
	if row.Purged != nil {
		var done donePurge
		ok, err := durable.ReadJSON(r, donePurgeKey(rec.SID, row.Purged.Step), &done)
		if err != nil {
			return f, err
		}
		if ok {
			place, err := x.entryPlace(done.Log, done.Entry, row.Purged.Place)
			if err != nil {
				return f, err
			}
			f.Purge = &place
		}
	}
	var asked *reader
	if purpose != "" {
		asked = &reader{purpose: purpose}
	}
	var refused error
	f.Terms, refused = g.mayRead(row, asked, x.latest())
	if refused == nil {
		return f, nil
	}
	told, ok := asRefusal(refused)
	if !ok {
		return f, refused
	}
	f.Refused, f.Detail = told.reason, told.detail
	if row.Reason != "" && told.reason == grants.ErrNotHeld {
		f.Refused = grants.Reason(row.Reason) // why it was not taken in
	}
	return f, nil
}
