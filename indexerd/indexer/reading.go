package indexer

import (
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Reading is what may be read for one purpose at one moment: of what is released,
// under the grants, policies and revocations that are released with it. An exit
// opens one, asks it page by page, and opens the next when it is Over. It belongs to
// one goroutine and must be closed.
type Reading struct {
	x    *Indexer
	who  reader
	rows durable.Reader
	done func()
	over <-chan struct{}
	view translog.View

	// series is the number of the last change of a series, up to which the gates
	// are right.
	series uint64
	gates  map[uint32]*gate

	// entry is the log entry that was read last: neighbours share one.
	entry EntryPlace
	of    struct {
		log   uint32
		index uint64
		known bool
	}
}

// Reading opens one. A third party is handed only what policy lets be passed on.
func (x *Indexer) Reading(purpose grants.Purpose, thirdParty bool) (*Reading, error) {
	r := &Reading{x: x, who: reader{purpose, thirdParty}}
	return r, r.renew()
}

// renew takes the newest release, and forgets the gates if any of them may have
// changed.
func (r *Reading) renew() error {
	s, err := r.x.tlog.Snapshot()
	if err != nil {
		return err
	}
	series, err := number(s, feedKey(6))
	if err != nil {
		s.Close()
		return err
	}
	r.Close()
	r.rows, r.done, r.over, r.view = s, s.Close, s.Superseded(), s.View
	if r.gates == nil || series != r.series {
		r.series, r.gates = series, make(map[uint32]*gate)
	}
	return nil
}

// Over is closed when something newer is released.
func (r *Reading) Over() <-chan struct{} { return r.over }

// isOver reports whether it is.
func (r *Reading) isOver() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// Close gives the Reading up.
func (r *Reading) Close() {
	if r.done != nil {
		r.done()
		r.done = nil
	}
}

// gate gives that of a series, nil if there is no such series.
func (r *Reading) gate(sid uint32) (*gate, error) {
	if g, ok := r.gates[sid]; ok {
		return g, nil
	}
	key, err := r.rows.Get(feedSID(7, sid))
	if errors.Is(err, durable.ErrNotFound) {
		return nil, nil
	}
	rec := new(seriesRecord)
	if err == nil {
		_, err = durable.ReadJSON(r.rows, key, rec)
	}
	if err == nil {
		err = rec.whole()
	}
	if err != nil {
		return nil, err
	}
	g, err := rec.gate(r.rows)
	if err != nil {
		return nil, err
	}
	r.gates[sid] = g
	return g, nil
}

// reasonOf is the reason of a refused read; what is none is a fault of ours.
func reasonOf(err error) (grants.Reason, error) {
	if told, ok := asRefusal(err); ok {
		return told.reason, nil
	}
	return "", err
}

// find finds a page that may be read at this moment. The error is the reason why it
// may not, or a fault.
func (r *Reading) find(g *gate, h []byte) (*catalogueRow, Terms, error) {
	row := new(catalogueRow)
	ok, err := readRow(r.rows, sidKey('C', g.rec.SID, h...), row)
	if err != nil {
		return nil, Terms{}, err
	}
	if !ok {
		return nil, Terms{}, refuse(grants.ErrNotHeld, "the page is gone")
	}
	terms, err := g.mayRead(row, &r.who, r.x.latest())
	return row, terms, err
}

// page reads a page that find has found, with its payload. A key is destroyed, and a
// file removed, behind the release that lets nobody read it: if that is gone of which
// the newest release says otherwise, the store is a restored one, from before a
// deletion, and the page is not held.
func (r *Reading) page(g *gate, row *catalogueRow, terms Terms) (*Page, error) {
	p := &Page{Terms: terms}
	var err error
	if !r.of.known || r.of.log != row.Log || r.of.index != row.Entry {
		if r.entry, err = r.x.entryPlace(row.Log, row.Entry, row.Place); err != nil {
			return nil, err
		}
		r.of.log, r.of.index, r.of.known = row.Log, row.Entry, true
	}
	place := r.entry
	place.Place = row.Place
	p.Provenance = provenanceOf(g, row, place)
	p.Payload, err = r.x.sharedPayload(r.rows, g.rec, row)
	if gone(err) && !r.isOver() {
		r.x.lacksKey(g.rec, err)
		err = refuse(grants.ErrNotHeld, "what it was sealed under is destroyed")
	}
	return p, err
}

// lacksKey tells the operator, once for a series, what no reader is told: a store that
// was restored is one reason, a folder of keys that was lost another.
func (x *Indexer) lacksKey(rec *seriesRecord, err error) {
	if _, told := x.keyless.LoadOrStore(rec.SID, true); !told {
		x.log.Warn("pages cannot be opened and count as not held", "publisher", rec.Publisher, "series", rec.Series, "error", err)
	}
}

// Page reads one page, by the series' publisher and name and the page's URL. The
// error is that of Indexer.Read.
func (r *Reading) Page(publisher envelope.Name, series, url string) (*Page, error) {
	rec, err := readSeries(r.rows, publisher, series)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, refuse(grants.ErrNoGrant, "series %.80q", series)
	}
	g, err := r.gate(rec.SID)
	if err != nil || g == nil {
		return nil, errors.Join(err, fmt.Errorf("series %.80q: gate %v", series, g != nil))
	}
	h := urlHash(url)
	row, terms, err := r.find(g, h[:])
	if err != nil {
		return nil, err
	}
	return r.page(g, row, terms)
}

// provenanceOf is that of a page in the catalogue whose entry was read.
func provenanceOf(g *gate, row *catalogueRow, entry EntryPlace) Provenance {
	rec := g.rec
	p := Provenance{
		URL: row.URL, Publisher: rec.Publisher, Series: rec.Series, Collection: rec.Collection, GrantID: row.GrantID,
		JournalEpoch: row.JournalEpoch, Revision: row.Revision, Digest: row.Digest, Format: row.Format, Size: row.Length,
		TakenAt: unix(row.At), Entry: entry, HeldUnder: rec.Bound,
	}
	if row.Modified != 0 {
		p.ModifiedAt = unix(row.Modified)
	}
	if rec.Bound.IsZero() {
		p.HeldUnder = row.GrantID
	}
	p.PolicyHash = g.bound.Grant.Body.PolicyHash
	return p
}

// seconds is a time as the feed's messages tell it.
func seconds(t envelope.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
