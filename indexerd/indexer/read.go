package indexer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Page is a held page with what goes with it to whoever it is handed to: where
// it comes from, and what has to be kept to.
type Page struct {
	Provenance
	Terms   Terms  `json:"terms"`
	Payload []byte `json:"-"`
}

// Read gives one page for one purpose. It refuses, by its reason, a purpose that
// the grants and policies in force do not allow (grants.ErrPurpose, ErrPolicy),
// what a grant's end or a revocation does not let out (ErrExpired, ErrRevoked,
// ErrScope), a page whose retention is over (ErrRetention), and one that is not
// here (ErrNotHeld, ErrNoGrant). Whatever it gives is in the log.
//
// The payload is checked against the digest that the log stands for.
func (x *Indexer) Read(publisher envelope.Name, series, url string, purpose grants.Purpose) (*Page, error) {
	who := &reader{purpose: purpose}
	p, err := x.page(publisher, series, url, who)
	if gone(err) {
		// A deletion or an update ended meanwhile: the page is refused by now,
		// or lies elsewhere.
		return x.page(publisher, series, url, who)
	}
	return p, err
}

// ownPayload reads a page for the publisher's own sake, to answer its probe: for
// that no purpose is needed, and nothing of it may leave.
func (x *Indexer) ownPayload(publisher envelope.Name, series, url string) ([]byte, error) {
	p, err := x.page(publisher, series, url, nil)
	if gone(err) {
		p, err = x.page(publisher, series, url, nil)
	}
	if err != nil {
		return nil, err
	}
	return p.Payload, nil
}

// page reads a page, for somebody unless it is for the publisher itself. The store shows commits
// before they are durable: a page whose entry is not released yet is read as it
// was in the last release.
func (x *Indexer) page(publisher envelope.Name, series, url string, who *reader) (_ *Page, err error) {
	snapshot, err := x.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	p, err := x.pageIn(snapshot, publisher, series, url, who)
	if !errors.Is(err, errUnreleased) {
		return p, err
	}
	rows, done, err := x.released()
	if err != nil {
		return nil, err
	}
	defer done()
	if p, err = x.pageIn(rows, publisher, series, url, who); errors.Is(err, errUnreleased) {
		return nil, refuse(grants.ErrNotHeld, "%s", url) // a newer log: nothing of it is released yet
	}
	return p, err
}

// errUnreleased: the entry of the page may still be lost.
var errUnreleased = errors.New("the page's entry is not released")

func (x *Indexer) pageIn(r durable.Reader, publisher envelope.Name, series, url string, who *reader) (*Page, error) {
	rec, err := readSeries(r, publisher, series)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, refuse(grants.ErrNoGrant, "series %.80q", series)
	}
	g, err := rec.gate(r)
	if err != nil {
		return nil, err
	}
	now := x.latest()
	if err := g.allowed(url, now); err != nil {
		return nil, err
	}
	h := sha256.Sum256([]byte(url))
	var row catalogueRow
	ok, err := readRow(r, sidKey('C', rec.SID, h[:]...), &row)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse(grants.ErrNotHeld, "%s", url)
	}
	p := new(Page)
	if p.Terms, err = g.mayRead(&row, who, now); err != nil {
		return nil, err
	}
	if p.Provenance, err = x.provenance(g, &row); err != nil {
		return nil, err
	}
	p.Payload, err = x.payloadOf(r, rec, &row)
	return p, err
}

// latest is the time by the clock, or by the last checkpoint if that is later: a
// clock that is set back brings no page back.
func (x *Indexer) latest() time.Time {
	now := x.cfg.Now()
	if signed := x.tlog.Released().Checkpoint; signed != nil && signed.IssuedAt.After(now) {
		return signed.IssuedAt
	}
	return now
}

// payloadOf reads the payload of a page that is held.
func (x *Indexer) payloadOf(r durable.Reader, rec *seriesRecord, row *catalogueRow) ([]byte, error) {
	if row.File != 0 {
		return x.large.payload(x.keys, rec, row)
	}
	frame, err := x.frame(r, rec, row)
	if err != nil {
		return nil, err
	}
	return row.payload(frame)
}

// payload cuts the page out of its frame.
func (row *catalogueRow) payload(frame []byte) ([]byte, error) {
	if row.Offset > uint64(len(frame)) || row.Length > uint64(len(frame))-row.Offset {
		return nil, fmt.Errorf("segment %d: page beyond its end", row.Segment)
	}
	payload := frame[row.Offset : row.Offset+row.Length]
	if sha256.Sum256(payload) != row.Digest {
		return nil, fmt.Errorf("segment %d: page with another digest", row.Segment)
	}
	return payload, nil
}

// frame opens and decompresses the segment that holds a page.
func (x *Indexer) frame(r durable.Reader, rec *seriesRecord, row *catalogueRow) ([]byte, error) {
	segment := row.Segment
	sealed, err := r.Get(segmentKey(rec.SID, segment))
	if err != nil {
		return nil, fmt.Errorf("segment %d: %w", segment, err)
	}
	a, err := x.keys.aead(rec.Publisher, rec.Series, row.DataKey, false)
	if err != nil {
		return nil, err
	}
	compressed, err := unseal(a, rec.Publisher, rec.Series, segment, sealed)
	if err != nil {
		return nil, err
	}
	var h zstd.Header
	if err := h.Decode(compressed); err != nil {
		return nil, fmt.Errorf("segment %d: %w", segment, err)
	}
	size, ok := contentSize(&h, tinyFrame)
	if !ok || size > x.cfg.Limits.BatchBytes+itemBytes {
		return nil, fmt.Errorf("segment %d is of an unexpected size", segment)
	}
	return x.decoder.DecodeAll(compressed, make([]byte, 0, size))
}
