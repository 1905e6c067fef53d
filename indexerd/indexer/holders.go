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
}

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
// none is named.
func (x *Indexer) Holders(publisher envelope.Name) (all []Holder, err error) {
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
			h, err := x.holder(snapshot, g, kv)
			if err != nil {
				return nil, err
			}
			all = append(all, h)
		}
	}
	return all, nil
}

// holder reads one row of what was handed out.
func (x *Indexer) holder(r durable.Reader, g *gate, kv durable.Row) (h Holder, err error) {
	name, purpose, ok := bytes.Cut(kv.Key[5:], []byte{0})
	var row handedRow
	if err = json.Unmarshal(kv.Value, &row); err == nil && !ok {
		err = errors.New("its key names no purpose")
	}
	if err != nil {
		return h, fmt.Errorf("row %x: %w", kv.Key, err)
	}
	l := listener{name: envelope.Name(name), purpose: grants.Purpose(purpose), thirdParty: row.ThirdParty}
	h = Holder{
		Publisher: g.rec.Publisher, Series: g.rec.Series, Consumer: l.name, Purpose: l.purpose, ThirdParty: row.ThirdParty, Since: row.Since, Last: row.Last,
		Open: g.closed(reader{l.purpose, l.thirdParty}, x.latest()) == nil && x.mayListen(l),
	}
	var purged purgedRow
	if _, err := durable.ReadJSON(r, purgedKey(l), &purged); err != nil {
		return h, err
	}
	h.Purged = purged.At
	h.ToPurge, err = toPurge(r, g, row.Number, purged.Number, h.Open)
	return h, err
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

// toPurge counts what a listener was to drop of a series, and has not said to have
// dropped.
func toPurge(r durable.Reader, g *gate, handed, purged uint64, open bool) (n int, err error) {
	changed, err := number(r, feedSID(2, g.rec.SID))
	if err != nil {
		return 0, err
	}
	if purged < changed && (!open || len(g.revs) > 0) || !open && purged < handed {
		n++
	}
	for kv, err := range r.Scan(goneKey(g.rec.SID, purged+1), feedSID(4, g.rec.SID+1)) {
		if err != nil {
			return n, err
		}
		var told toldPage
		if _, err := durable.ReadJSON(r, feedSID(1, g.rec.SID, kv.Value...), &told); err != nil {
			return n, err
		}
		if told.First <= handed {
			n++
		}
		if n == countPurge {
			break
		}
	}
	return n, nil
}
