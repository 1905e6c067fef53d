package publisher

import (
	"errors"
	"fmt"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A goneRow is what is kept of a page that was deleted after a revocation.
type goneRow struct {
	JournalEpoch uint64 `json:"journal_epoch"`
	Revision     uint64 `json:"revision"`
	Place        int    `json:"place"` // in the set of the deletion
}

// goneStep is how many such rows one commit writes.
const goneStep = 10_000

func goneKey(series string, revocation envelope.Hash, h [32]byte) []byte {
	return rowKey('A', series, 'd', revocation[:], h[:])
}

func goneLeavesKey(series string, revocation envelope.Hash) []byte {
	return rowKey('A', series, 'e', revocation[:])
}

// keepDeletion keeps what proves the deletion of each page, once the indexer has
// acknowledged it. The set is made anew from what was acknowledged of the pages.
// Where it is another than the indexer's, because payloads were gone before the
// revocation came, or an answer was lost, only the indexer can make the proof.
//
// The rows of pages come first, some thousand a commit; without the row of the
// leaves, which comes last, they mean nothing.
func (p *Publisher) keepDeletion(v *Revocation, rel *Relationship, done *evaluate.Acked) error {
	if done.Body.AckType != translog.DeleteAck {
		return nil
	}
	pair, err := p.pairOf(rel, done.EntryBody.GrantID)
	if err != nil {
		return err
	}
	b := p.store.NewBatch()
	defer func() { b.Close() }()
	var leaves [][32]byte
	maker := rel.LeafKey.Maker()
	err = agreement{p.store, rel}.acked(p.store, func(h [32]byte, row ackedPage) error { // as the set is ordered
		held := row.Decision == translog.Include || row.Decision == translog.Update
		if !held || !v.Signed.ReachesPage(pair.Grant, row.URL) {
			return nil
		}
		if len(leaves)%goneStep == goneStep-1 {
			if err := b.Commit(); err != nil {
				return err
			}
			b = p.store.NewBatch()
		}
		gone := goneRow{row.JournalEpoch, row.Revision, len(leaves)}
		leaves = append(leaves, maker.Hash(translog.OpTombstone, row.JournalEpoch, row.Revision, row.URL, [32]byte{}))
		return durable.WriteJSON(b, goneKey(rel.Series, v.ID(), h), gone)
	})
	if err != nil {
		return err
	}
	if got := translog.SetOf(leaves); got != done.EntryBody.Objects {
		p.log.Info("a deletion is over other pages than were acknowledged; evidence of it is to be had from the indexer",
			"indexer", v.Indexer, "series", rel.Series, "pages", done.EntryBody.Objects.Count, "acknowledged", got.Count)
		return nil
	}
	raw := make([]byte, 0, 32*len(leaves))
	for i := range leaves {
		raw = append(raw, leaves[i][:]...)
	}
	if err := b.Set(goneLeavesKey(rel.Series, v.ID()), raw); err != nil {
		return err
	}
	return b.Commit()
}

// acknowledgedOf finds the acknowledgement of one kind for a series.
func (v *Revocation) acknowledgedOf(series string, d translog.Decision) *Acknowledgement {
	i := slices.IndexFunc(v.Acknowledgements, func(a Acknowledgement) bool { return a.Series == series && a.Type == d })
	if i < 0 {
		return nil
	}
	return &v.Acknowledgements[i]
}

// DeletionEvidence makes the bundle about the deletion of one page: that of the
// tombstone if the page was deleted by one, else that after a revocation, the
// last one.
func (p *Publisher) DeletionEvidence(url string, indexer envelope.Name) ([]byte, error) {
	if err := content.IsCanonical(url); err != nil {
		return nil, err
	}
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	all, err := Revocations(p.dir)
	if err != nil {
		return nil, err
	}
	slices.Reverse(all) // the newest first
	untold := false
	for _, r := range rels {
		if indexer != "" && r.Indexer != indexer {
			continue
		}
		row, ok, err := agreement{p.store, r}.lookupAcked(p.store, urlHash(url))
		if err != nil {
			return nil, err
		}
		if ok && row.Decision == translog.DeleteAck {
			return p.evidence(r, row)
		}
		for _, v := range all {
			a := v.acknowledgedOf(r.Series, translog.DeleteAck)
			if v.Indexer != r.Indexer || a == nil {
				continue
			}
			raw, err := p.goneEvidence(v, r, a, url)
			if raw != nil || err != nil {
				return raw, err
			}
			untold = true
		}
	}
	if untold {
		return nil, fmt.Errorf("%w for the deletion of %s: it was not among the pages of the revocation, or the indexer alone can prove it (indexerd evidence --deletion)", ErrNoReceipt, url)
	}
	return nil, fmt.Errorf("%w for the deletion of %s", ErrNoReceipt, url)
}

// goneEvidence is nil if the page is not known to have been in that deletion.
func (p *Publisher) goneEvidence(v *Revocation, rel *Relationship, a *Acknowledgement, url string) ([]byte, error) {
	packed, err := p.store.Get(goneLeavesKey(rel.Series, v.ID()))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var row goneRow
	ok, err := durable.ReadJSON(p.store, goneKey(rel.Series, v.ID(), urlHash(url)), &row)
	if err != nil || !ok {
		return nil, err
	}
	leaves := make([][32]byte, len(packed)/32)
	for i := range leaves {
		leaves[i] = [32]byte(packed[32*i:])
	}
	path, err := translog.SetPath(leaves, row.Place)
	if err != nil {
		return nil, err
	}
	ev, err := p.acknowledgedEvidence(v, rel, a)
	if err != nil {
		return nil, err
	}
	ev.Claim = evaluate.ClaimDeleted
	ev.Set = evaluate.SetPlace{Index: uint64(row.Place), Path: wirePath(path)}
	ev.Disclose(rel.LeafKey, translog.OpTombstone, row.JournalEpoch, row.Revision, url, envelope.Hash{})
	return evaluate.Seal(ev)
}

// RevocationEvidence makes the bundle about the acknowledgement of a revocation,
// which is about no page. series may be empty if only one was acknowledged.
func (p *Publisher) RevocationEvidence(id envelope.Hash, series string) ([]byte, error) {
	v, err := p.Revocation(id)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, a := range v.Acknowledgements {
		if a.Type == translog.RevokeAck && (series == "" || a.Series == series) {
			found = append(found, a.Series)
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("%w: revocation %s is not acknowledged, as far as is known here", ErrNoReceipt, id)
	case len(found) > 1:
		return nil, fmt.Errorf("revocation %s was acknowledged for %d series (%q); name one with --series", id, len(found), found)
	}
	rel, err := readRelationship(p.dir, found[0])
	if err != nil {
		return nil, err
	}
	ev, err := p.acknowledgedEvidence(v, rel, v.acknowledgedOf(found[0], translog.RevokeAck))
	if err != nil {
		return nil, err
	}
	ev.Claim = evaluate.ClaimRevoked
	return evaluate.Seal(ev)
}

// acknowledgedEvidence is what evidence of a stop and of a deletion have in
// common.
func (p *Publisher) acknowledgedEvidence(v *Revocation, rel *Relationship, a *Acknowledgement) (*evaluate.Evidence, error) {
	var body translog.Entry
	o, err := envelope.Parse(a.Entry)
	if err == nil {
		err = o.DecodeBody(&body)
	}
	if err != nil {
		return nil, err
	}
	pair, err := p.pairOf(rel, body.GrantID)
	if err != nil {
		return nil, err
	}
	var c translog.Checkpoint
	checkpoint, err := envelope.Parse(a.Checkpoint)
	if err == nil {
		err = checkpoint.DecodeBody(&c)
	}
	if err != nil {
		return nil, err
	}
	ev := &evaluate.Evidence{
		Acknowledgement: a.Acknowledgement, Checkpoint: a.Checkpoint, Entry: a.Entry, Note: a.Note, Revocation: v.Signed.Object.Raw,
		Consistency: translog.ConsistencyProof{From: c.TreeSize, Hashes: []envelope.Hash{}, To: c.TreeSize},
		Inclusion:   translog.InclusionProof{Hashes: a.Inclusion, Index: a.EntryIndex, Size: c.TreeSize},
		Grant:       pair.Grant.Object.Raw, Policy: pair.Policy.Object.Raw,
	}
	if ev.Cards, err = p.cards(rel, []byte(a.Note)); err != nil {
		return nil, err
	}
	if rel.Subject(p.local.Name()) != p.local.Name() {
		ev.R = evaluate.Salt(rel.Relation)
	}
	return ev, nil
}
