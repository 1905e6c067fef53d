package indexer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// countPurge is the most deletions that are counted for one holder.
const countPurge = 10000

// A Holder is a consumer who was handed pages of a series for a purpose, and what of
// them it has not said to have dropped.
type Holder struct {
	Publisher  envelope.Name  `json:"publisher"`
	Series     string         `json:"series"`
	Consumer   envelope.Name  `json:"consumer"`
	Purpose    grants.Purpose `json:"purpose"`
	ThirdParty bool           `json:"third_party"`
	Since      envelope.Time  `json:"since"`
	Last       envelope.Time  `json:"last"`
	Open       bool           `json:"open"`     // it may still read pages of the series
	ToPurge    int            `json:"to_purge"` // deletions; the end of the series counts as one
	Purged     envelope.Time  `json:"purged,omitzero"`
	// Page is what became of one page, if it was asked after.
	Page PageState `json:"page,omitzero"`
}

// A PageState is what became of a page that a holder may have been handed.
type PageState string

// The states of a page with a holder.
const (
	PageHeld    PageState = "held"     // it may be read still
	PageToPurge PageState = "to-purge" // it was to be dropped, and nothing says that it was
	PagePurged  PageState = "purged"   // the holder says that it is gone
)

// writePurged keeps the highest number that the listener named.
func (x *Indexer) writePurged(l listener, upTo uint64) (at envelope.Time, err error) {
	var row purgedRow
	if _, err := durable.ReadJSON(x.store, purgedKey(l), &row); err != nil {
		return at, err
	}
	row.Number, row.At = max(row.Number, upTo), envelope.At(x.latest())
	b := x.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := durable.WriteJSON(b, purgedKey(l), row); err != nil {
		return at, err
	}
	return row.At, b.Commit()
}

// Holders tells who was handed pages of a publisher's series; of all publishers if
// none is named. With the SHA-256 of a URL it tells who may have been handed this page:
// it may count one that was sent in vain, and misses none.
func (x *Indexer) Holders(publisher envelope.Name, urlHash []byte) (all []Holder, err error) {
	snapshot, err := x.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	recs, err := seriesOf(snapshot, publisher)
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		g, err := rec.gate(snapshot)
		if err != nil {
			return nil, err
		}
		lo := sidKey('U', rec.SID)
		for kv, err := range snapshot.Scan(lo, durable.PrefixEnd(lo)) {
			if err != nil {
				return nil, err
			}
			h, had, err := x.holder(snapshot, g, kv)
			if err == nil && urlHash != nil {
				h.Page, err = had.page(urlHash, h.Open)
			}
			if err != nil {
				return nil, err
			}
			if urlHash == nil || h.Page != "" {
				all = append(all, h)
			}
		}
	}
	return all, nil
}

// A holding is what is known of one holder of a series.
type holding struct {
	x   *Indexer
	r   durable.Reader
	g   *gate
	who reader
	// Numbers of the feed: see handedRow and purgedRow.
	begin, handed, purged uint64
}

// holder reads one row of what was handed out.
func (x *Indexer) holder(r durable.Reader, g *gate, kv durable.Row) (h Holder, had holding, err error) {
	name, purpose, ok := bytes.Cut(kv.Key[5:], []byte{0})
	var row handedRow
	if err = json.Unmarshal(kv.Value, &row); err == nil && !ok {
		err = errors.New("its key names no purpose")
	}
	if err != nil {
		return h, had, fmt.Errorf("row %x: %w", kv.Key, err)
	}
	l := listener{name: envelope.Name(name), purpose: grants.Purpose(purpose), thirdParty: row.ThirdParty}
	h = Holder{
		Publisher: g.rec.Publisher, Series: g.rec.Series, Consumer: l.name, Purpose: l.purpose, ThirdParty: row.ThirdParty, Since: row.Since, Last: row.Last,
		Open: g.closed(reader{l.purpose, l.thirdParty}, x.latest()) == nil && x.mayListen(l),
	}
	var purged purgedRow
	if _, err := durable.ReadJSON(r, purgedKey(l), &purged); err != nil {
		return h, had, err
	}
	h.Purged = purged.At
	had = holding{x, r, g, reader{l.purpose, l.thirdParty}, row.Begin, row.Number, purged.Number}
	h.ToPurge, err = had.toPurge(h.Open)
	return h, had, err
}

// mayListen reports whether the operator's record of a consumer names the purpose.
// The indexer itself always may: its own commands read so.
func (x *Indexer) mayListen(l listener) bool {
	if l.name == x.local.Name() {
		return true
	}
	c, err := x.feed.consumers.Lookup(l.name)
	if err != nil {
		return false
	}
	_, err = listenerOf(c, string(l.purpose))
	return err == nil
}

// owesSeries reports whether the holder was told to drop pages by a change of the series
// itself, and has not said that it did.
func (d *holding) owesSeries(open bool) (bool, error) {
	changed, err := number(d.r, feedSID(2, d.g.rec.SID))
	return d.purged < changed && (!open || len(d.g.revs) > 0) || !open && d.purged < d.handed, err
}

// toPurge counts what a listener was to drop of a series, and has not said to have
// dropped.
func (d *holding) toPurge(open bool) (n int, err error) {
	owes, err := d.owesSeries(open)
	if err != nil {
		return 0, err
	}
	if owes {
		n++
	}
	sid := d.g.rec.SID
	for kv, err := range d.r.Scan(goneKey(sid, max(d.begin, d.purged)+1), feedSID(4, sid+1)) {
		if err != nil {
			return n, err
		}
		var told toldPage
		if _, err := readRow(d.r, feedSID(1, sid, kv.Value...), &told); err != nil {
			return n, err
		}
		if told.First <= d.handed {
			n++
		}
		if n == countPurge {
			break
		}
	}
	return n, nil
}

// page is the state of one page, none if the holder cannot have been handed it.
func (d *holding) page(h []byte, open bool) (PageState, error) {
	var told toldPage
	known, err := readRow(d.r, feedSID(1, d.g.rec.SID, h...), &told)
	switch {
	case err != nil:
		return "", err
	case !known:
		return d.forgotten(open)
	case told.First > d.handed || told.Gone != 0 && told.Number <= d.begin:
		return "", nil
	case told.Gone != 0:
		return since(d.purged, told.Number), nil
	case !open:
		owes, err := d.owesSeries(open)
		if owes {
			return PageToPurge, err
		}
		return PagePurged, err
	}
	row := new(catalogueRow)
	held, err := readRow(d.r, sidKey('C', d.g.rec.SID, h...), row)
	if err != nil {
		return "", err
	}
	if held {
		if _, err = d.g.mayRead(row, &d.who, d.x.latest()); err == nil {
			return PageHeld, nil
		}
		if _, refused := asRefusal(err); !refused {
			return "", err
		}
	}
	// A part was withdrawn, which a change of the series tells; or its time has just
	// ended, which the next change of the page will.
	changed, err := number(d.r, feedSID(2, d.g.rec.SID))
	return since(d.purged, max(changed, told.Number)), err
}

// forgotten is the state of a page of which no change is kept: its series was deleted
// whole, its tombstone is too old, or it never was. Only who owes nothing of that time
// cannot have it.
func (d *holding) forgotten(open bool) (PageState, error) {
	if d.g.rec.Revoked != nil {
		owes, err := d.owesSeries(open)
		if owes {
			return PageToPurge, err
		}
		return PagePurged, err
	}
	var id feedIdentity
	_, err := durable.ReadJSON(d.r, feedKey(3), &id)
	if err == nil && id.Floor != 0 && d.purged < id.Floor {
		return PageToPurge, nil
	}
	return "", err
}

func since(purged, told uint64) PageState {
	if purged < told {
		return PageToPurge
	}
	return PagePurged
}
