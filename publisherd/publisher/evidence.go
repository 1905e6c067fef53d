package publisher

import (
	"fmt"
	"slices"
	"sort"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Evidence makes the offline bundle about one page: the last thing that an
// indexer acknowledged about it. With several indexers the one named counts;
// if none is named there must be exactly one.
func (p *Publisher) Evidence(url string, indexer envelope.Name) ([]byte, error) {
	if err := content.IsCanonical(url); err != nil {
		return nil, err
	}
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	h := urlHash(url)
	var found []*Relationship
	var rows []ackedPage
	for _, r := range rels {
		if indexer != "" && r.Indexer != indexer {
			continue
		}
		row, ok, err := agreement{p.store, r}.lookupAcked(p.store, h)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		// A page that one indexer holds under a later agreement than before is
		// answered for by the later one.
		i := slices.IndexFunc(found, func(f *Relationship) bool { return f.Indexer == r.Indexer })
		switch {
		case i < 0:
			found, rows = append(found, r), append(rows, row)
		case found[i].Pair.Grant.Object.IssuedAt.Before(r.Pair.Grant.Object.IssuedAt):
			found[i], rows[i] = r, row
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w for %s", ErrNoReceipt, url)
	case 1:
		return p.evidence(found[0], rows[0])
	}
	names := make([]string, len(found))
	for i, r := range found {
		names[i] = string(r.Indexer)
	}
	sort.Strings(names)
	return nil, fmt.Errorf("%s was acknowledged by %d indexers (%q); name one with --indexer", url, len(found), names)
}

// evidence puts together what is stored about one acknowledged page.
func (p *Publisher) evidence(rel *Relationship, row ackedPage) ([]byte, error) {
	var a storedAnswer
	ok, err := durable.ReadJSON(p.store, receiptKey(row.Receipt), &a)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w %s", ErrNoReceipt, row.Receipt)
	}
	ans, err := a.answer()
	if err != nil {
		return nil, err
	}
	_, m, err := manifestOf(&a)
	if err != nil {
		return nil, err
	}
	pair, err := p.pairOf(rel, m.GrantID)
	if err != nil {
		return nil, err
	}
	_, leaves, err := p.set(row.Receipt, row.Set)
	if err != nil {
		return nil, err
	}
	path, err := translog.SetPath(leaves, row.Place)
	if err != nil {
		return nil, err
	}
	entry, err := envelope.Parse(ans.Entries[row.Set])
	if err != nil {
		return nil, err
	}
	ev := &evaluate.Evidence{
		Checkpoint: ans.Checkpoint, Claim: evaluate.ClaimOf(row.Decision), Entry: ans.Entries[row.Set],
		Consistency: translog.ConsistencyProof{From: a.TreeSize, Hashes: []envelope.Hash{}, To: a.TreeSize},
		Grant:       pair.Grant.Object.Raw, Policy: pair.Policy.Object.Raw, Manifest: a.Manifest, Receipt: ans.Receipt, Note: string(ans.Note),
		Inclusion: translog.InclusionProof{Hashes: wirePath(ans.Inclusion[row.Set]), Index: entry.Sequence, Size: a.TreeSize},
		Set:       evaluate.SetPlace{Index: uint64(row.Place), Path: wirePath(path)},
	}
	if ev.Cards, err = p.cards(rel, ans.Note); err != nil {
		return nil, err
	}
	ev.Disclose(rel.LeafKey, row.Op, row.JournalEpoch, row.Revision, row.URL, row.Digest)
	if rel.Subject(p.local.Name()) != p.local.Name() {
		ev.R = evaluate.Salt(rel.Relation)
	}
	return evaluate.Seal(ev)
}

// wirePath gives a path the form that an evidence file holds.
func wirePath(path [][32]byte) []envelope.Hash {
	hashes := make([]envelope.Hash, len(path))
	for i, h := range path {
		hashes[i] = h
	}
	return hashes
}
