package publisher

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	Collection string           `json:"collection"`
	LeafKey    string           `json:"leaf_key"`
	Profile    string           `json:"profile"`
	Sets       []jsontext.Value `json:"sets"`
}

// A disclosing is a Disclosure under way. Its sets are encoded as they come, and
// have limit octets at most, as the file has.
type disclosing struct {
	p      *Publisher
	rel    *Relationship
	origin string // of the log
	limit  int

	sets   []encodedSet
	octets int
}

type encodedSet struct {
	index uint64
	raw   jsontext.Value
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
// indexer keeps now. In memory are one receipt at a time, for each page of the
// series some 150 octets, and the file twice, of at most 256 MiB.
func (p *Publisher) Disclose(grant string) ([]byte, error) { return p.disclose(grant, maxDisclosure) }

func (p *Publisher) disclose(grant string, limit int) ([]byte, error) {
	rel, err := FindGrant(p.dir, grant)
	if err != nil {
		return nil, err
	}
	peer, ok := p.trust.Lookup(rel.Indexer)
	if !ok || peer.Card.Log == nil {
		return nil, fmt.Errorf("%s is not trusted any more, and which log it keeps is not known; import its card with trust add", rel.Indexer)
	}
	d := &disclosing{p: p, rel: rel, origin: peer.Card.Log.Origin, limit: limit}
	pages, err := p.placesOf(rel)
	if err != nil {
		return nil, err
	}
	for a, err := range p.receiptRows() {
		if err == nil && a.Series == rel.Series && a.Rebind == nil {
			err = d.receipt(a, pages)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := d.deletions(); err != nil {
		return nil, err
	}
	return d.file()
}

// add encodes a set. It fails as soon as the file would be too large.
func (d *disclosing) add(set disclosedSet) error {
	raw, err := json.Marshal(set, json.Deterministic(true))
	if err != nil {
		return err
	}
	if d.octets += len(raw); d.octets > d.limit {
		return fmt.Errorf("the disclosure of %s has over %d octets, which is the most that an auditor reads", d.rel.Collection, d.limit)
	}
	d.sets = append(d.sets, encodedSet{set.Index, raw})
	return nil
}

// file is all of it, in the order of the log.
func (d *disclosing) file() ([]byte, error) {
	slices.SortFunc(d.sets, func(a, b encodedSet) int { return cmp.Compare(a.index, b.index) })
	all := Disclosure{
		Collection: d.rel.Collection, LeafKey: hex.EncodeToString(d.rel.LeafKey[:]), Profile: disclosureProfile, Sets: make([]jsontext.Value, len(d.sets)),
	}
	for i := range d.sets {
		all.Sets[i] = d.sets[i].raw
	}
	raw, err := json.Marshal(&all, json.Deterministic(true))
	if err == nil && len(raw) > d.limit {
		err = fmt.Errorf("the disclosure of %s has %d octets, an auditor reads at most %d", d.rel.Collection, len(raw), d.limit)
	}
	return raw, err
}

// placesOf are the pages of a series as they were acknowledged last, by where they
// stand: the hashes of their URLs.
func (p *Publisher) placesOf(rel *Relationship) (map[setPlace][32]byte, error) {
	pages := make(map[setPlace][32]byte)
	err := agreement{p.store, rel}.acked(p.store, func(h [32]byte, row ackedPage) error {
		pages[setPlace{row.Receipt, row.Set, row.Place}] = h
		return nil
	})
	return pages, err
}

// receipt adds the sets of one receipt, if it is of the log.
func (d *disclosing) receipt(a *storedAnswer, pages map[setPlace][32]byte) error {
	ans, err := a.answer()
	if err != nil || translog.OriginOf(ans.Note) != d.origin {
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
		_, leaves, err := d.p.set(a.Receipt, n)
		if err != nil {
			return err
		}
		set := disclosedSet{Index: e.Index, Pages: make([]disclosedPage, len(leaves))}
		for i, leaf := range leaves {
			if set.Pages[i], err = d.page(setPlace{a.Receipt, n, i}, leaf, pages); err != nil {
				return err
			}
		}
		if err := d.add(set); err != nil {
			return err
		}
	}
	return nil
}

// page is what is known of the page at a place, its leaf if it changed since, or
// changes just now.
func (d *disclosing) page(at setPlace, leaf envelope.Hash, pages map[setPlace][32]byte) (disclosedPage, error) {
	h, ok := pages[at]
	if !ok {
		return disclosedPage{Leaf: leaf}, nil
	}
	row, ok, err := agreement{d.p.store, d.rel}.lookupAcked(d.p.store, h)
	if err != nil || !ok || at != (setPlace{row.Receipt, row.Set, row.Place}) {
		return disclosedPage{Leaf: leaf}, err
	}
	return disclosedPage{Digest: row.Digest, Op: row.Op, Revision: row.Revision, URL: row.URL}, nil
}

// deletions adds the sets of deletions after revocations.
func (d *disclosing) deletions() error {
	all, err := Revocations(d.p.dir)
	if err != nil {
		return err
	}
	for _, v := range all {
		a := v.acknowledgedOf(d.rel.Series, translog.DeleteAck)
		if v.Indexer != d.rel.Indexer || a == nil || translog.OriginOf([]byte(a.Note)) != d.origin {
			continue
		}
		packed, err := d.p.store.Get(goneLeavesKey(d.rel.Series, v.ID()))
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
		if err := d.gone(v.ID(), set.Pages); err != nil {
			return err
		}
		if err := d.add(set); err != nil {
			return err
		}
	}
	return nil
}

// gone names the pages of a deletion.
func (d *disclosing) gone(revocation envelope.Hash, pages []disclosedPage) error {
	lo := rowKey('A', d.rel.Series, 'd', revocation[:])
	for kv, err := range d.p.store.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		if len(kv.Key) != len(lo)+32 {
			return fmt.Errorf("row %x: its key has another length", kv.Key)
		}
		var gone goneRow
		if err := json.Unmarshal(kv.Value, &gone); err != nil {
			return fmt.Errorf("row %x: %w", kv.Key, err)
		}
		row, ok, err := agreement{d.p.store, d.rel}.lookupAcked(d.p.store, [32]byte(kv.Key[len(lo):]))
		if err != nil {
			return err
		}
		if ok && gone.Place < len(pages) {
			pages[gone.Place] = disclosedPage{JournalEpoch: gone.JournalEpoch, Op: translog.OpTombstone, Revision: gone.Revision, URL: row.URL}
		}
	}
	return nil
}
