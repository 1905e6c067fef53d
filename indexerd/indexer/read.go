package indexer

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// Payload reads one held page back out of its sealed segment, and checks it
// against the digest that the log stands for. It refuses what the grant in
// force, its expiry or a revocation does not let out.
func (x *Indexer) Payload(publisher envelope.Name, series, url string) ([]byte, error) {
	payload, err := x.payload(publisher, series, url)
	if gone(err) {
		// A deletion or an update ended meanwhile: the page is refused by now,
		// or lies elsewhere.
		return x.payload(publisher, series, url)
	}
	return payload, err
}

func (x *Indexer) payload(publisher envelope.Name, series, url string) (_ []byte, err error) {
	snapshot, err := x.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	rec, err := readSeries(snapshot, publisher, series)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		return nil, refuse(grants.ErrNoGrant, "series %.80q", series)
	}
	if err := rec.allowed(snapshot, url, x.cfg.Now()); err != nil {
		return nil, err
	}
	h := sha256.Sum256([]byte(url))
	var row catalogueRow
	ok, err := durable.ReadJSON(snapshot, sidKey('C', rec.SID, h[:]...), &row)
	if err != nil {
		return nil, err
	}
	if !ok || !row.Held {
		return nil, refuse(grants.ErrNotHeld, "%s", url)
	}
	if row.File != 0 {
		return x.large.payload(x.keys, rec, &row)
	}
	frame, err := x.frame(snapshot, rec, &row)
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
