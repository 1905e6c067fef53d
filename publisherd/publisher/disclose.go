package publisher

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxDisclosure is the most octets of a disclosure that an auditor reads.
const maxDisclosure = 256 << 20

// disclosureProfile names the form of the file.
const disclosureProfile = "uzpif-oi-disclosed/1"

// A Disclosure shows an auditor the pages of one series: its leaf key, and the
// decision sets of all receipts, as far as is kept. Of a page that changed since,
// only the hash of its leaf is. Whoever has it can recognise every page of the
// series in the log, for good.
type Disclosure struct {
	Collection string         `json:"collection"`
	LeafKey    string         `json:"leaf_key"`
	Profile    string         `json:"profile"`
	Sets       []disclosedSet `json:"sets"`
}

type disclosedSet struct {
	Index uint64          `json:"index"`
	Pages []disclosedPage `json:"pages"`
}

// A disclosedPage is a leaf, of which only the hash is there if the page is not
// known any more as it was then.
type disclosedPage struct {
	Digest       envelope.Hash `json:"digest,omitzero"`
	JournalEpoch uint64        `json:"journal_epoch,omitzero"`
	Leaf         envelope.Hash `json:"leaf,omitzero"`
	Op           translog.Op   `json:"op,omitzero"`
	Revision     uint64        `json:"revision,omitzero"`
	URL          string        `json:"url,omitzero"`
}

// setPlace is where a page stood in the answer of an indexer.
type setPlace struct {
	receipt    envelope.Hash
	set, place int
}

// Disclose makes the disclosure of the series of a grant, about the log that the
// indexer keeps now.
func (p *Publisher) Disclose(grant string) ([]byte, error) {
	rel, err := FindGrant(p.dir, grant)
	if err != nil {
		return nil, err
	}
	peer, ok := p.trust.Lookup(rel.Indexer)
	if !ok || peer.Card.Log == nil {
		return nil, fmt.Errorf("%s is not trusted any more, and which log it keeps is not known; import its card with trust add", rel.Indexer)
	}
	d := &Disclosure{Collection: rel.Collection, LeafKey: hex.EncodeToString(rel.LeafKey[:]), Profile: disclosureProfile, Sets: []disclosedSet{}}
	pages, byHash, err := p.placesOf(rel)
	if err != nil {
		return nil, err
	}
	all, err := p.receipts()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if a := &all[i]; a.Series == rel.Series && a.Rebind == nil {
			if err := p.discloseReceipt(d, a, peer.Card.Log.Origin, pages); err != nil {
				return nil, err
			}
		}
	}
	if err := p.discloseDeletions(d, rel, peer.Card.Log.Origin, byHash); err != nil {
		return nil, err
	}
	slices.SortFunc(d.Sets, func(a, b disclosedSet) int { return int(int64(a.Index) - int64(b.Index)) })
	raw, err := json.Marshal(d, json.Deterministic(true))
	if err == nil && len(raw) > maxDisclosure {
		err = fmt.Errorf("the disclosure has %d octets, an auditor reads at most %d", len(raw), maxDisclosure)
	}
	return raw, err
}

// placesOf are the pages of a series as they were acknowledged last, by where they
// stand and by the hash of their URL.
func (p *Publisher) placesOf(rel *Relationship) (map[setPlace]ackedPage, map[[32]byte]ackedPage, error) {
	pages, byHash := make(map[setPlace]ackedPage), make(map[[32]byte]ackedPage)
	lo := rowKey('A', rel.Series, 'p')
	for kv, err := range p.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return nil, nil, err
		}
		var row ackedPage
		if err := json.Unmarshal(kv.Value, &row); err != nil {
			return nil, nil, fmt.Errorf("row %x: %w", kv.Key, err)
		}
		pages[setPlace{row.Receipt, row.Set, row.Place}], byHash[urlHash(row.URL)] = row, row
	}
	return pages, byHash, nil
}

// discloseReceipt adds the sets of one receipt, if it is of the log.
func (p *Publisher) discloseReceipt(d *Disclosure, a *storedAnswer, origin string, pages map[setPlace]ackedPage) error {
	ans, err := a.answer()
	if err != nil || translog.OriginOf(ans.Note) != origin {
		return err
	}
	body, _, err := receiptOf(a)
	if err != nil {
		return err
	}
	for n, e := range body.Entries {
		if e.Count == 0 {
			continue
		}
		_, leaves, err := p.set(a.Receipt, n)
		if err != nil {
			return err
		}
		set := disclosedSet{Index: e.Index}
		for i, leaf := range leaves {
			row, ok := pages[setPlace{a.Receipt, n, i}]
			if !ok {
				set.Pages = append(set.Pages, disclosedPage{Leaf: leaf})
				continue
			}
			set.Pages = append(set.Pages, disclosedPage{Digest: row.Digest, Op: row.Op, Revision: row.Revision, URL: row.URL})
		}
		d.Sets = append(d.Sets, set)
	}
	return nil
}

// discloseDeletions adds the sets of deletions after revocations.
func (p *Publisher) discloseDeletions(d *Disclosure, rel *Relationship, origin string, byHash map[[32]byte]ackedPage) error {
	all, err := Revocations(p.dir)
	if err != nil {
		return err
	}
	for _, v := range all {
		a := v.acknowledgedOf(rel.Series, translog.DeleteAck)
		if v.Indexer != rel.Indexer || a == nil || translog.OriginOf([]byte(a.Note)) != origin {
			continue
		}
		packed, err := p.store.Get(goneLeavesKey(rel.Series, v.ID()))
		if errors.Is(err, durable.ErrNotFound) || err == nil && len(packed) == 0 {
			continue
		}
		if err != nil {
			return err
		}
		set := disclosedSet{Index: a.EntryIndex, Pages: make([]disclosedPage, len(packed)/32)}
		for i := range set.Pages {
			set.Pages[i].Leaf = envelope.Hash(packed[32*i:])
		}
		for h, row := range byHash {
			var gone goneRow
			ok, err := durable.ReadJSON(p.store, goneKey(rel.Series, v.ID(), h), &gone)
			if err != nil {
				return err
			}
			if ok && gone.Place < len(set.Pages) {
				set.Pages[gone.Place] = disclosedPage{JournalEpoch: gone.JournalEpoch, Op: translog.OpTombstone, Revision: gone.Revision, URL: row.URL}
			}
		}
		d.Sets = append(d.Sets, set)
	}
	return nil
}
