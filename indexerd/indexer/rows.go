package indexer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The indexer's rows, beside those of the log ('L'). sid is the series' short
// number, four octets; numbers are big endian.
//
//	R publisher 00 series     series record
//	N                         the next sid
//	O id                      grant or policy, the exact octets
//	C sid h                   catalogue row of a page
//	D sid h                   what is kept of a deleted page
//	T sid …                   state tree
//	G sid segment             sealed frame
//	B sid batch key           answered batch
//	b sid batch_id            batch key
//	X grant_id index          a log entry under the grant
func seriesKey(publisher envelope.Name, series string) []byte {
	k := append([]byte{'R'}, publisher...)
	return append(append(k, 0), series...)
}

func objectKey(id envelope.Hash) []byte { return append([]byte{'O'}, id[:]...) }

func sidKey(space byte, sid uint32, rest ...byte) []byte {
	k := binary.BigEndian.AppendUint32([]byte{space}, sid)
	return append(k, rest...)
}

func segmentKey(sid uint32, segment uint64) []byte {
	return sidKey('G', sid, binary.BigEndian.AppendUint64(nil, segment)...)
}

func grantEntryKey(grant envelope.Hash, index uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{'X'}, grant[:]...), index)
}

// batchKey identifies a batch within its series, whatever it holds.
func batchKey(sid uint32, m *translog.Manifest) []byte {
	var k []byte
	for _, n := range []uint64{m.JournalEpoch, m.From, m.Through, m.Request} {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return sidKey('B', sid, k...)
}

func stateTree(sid uint32) state.Tree { return state.New(sidKey('T', sid)) }

// A seriesRecord is one agreement as the indexer holds it.
type seriesRecord struct {
	SID        uint32            `json:"sid"`
	Publisher  envelope.Name     `json:"publisher"`
	Series     string            `json:"series"`
	Collection string            `json:"collection"`
	LeafKey    [32]byte          `json:"leaf_key"`
	Relation   [32]byte          `json:"relation"`
	Grant      envelope.Position `json:"grant"`  // highest seen; in force for new batches
	Policy     envelope.Position `json:"policy"` // likewise

	JournalEpoch uint64        `json:"journal_epoch"`
	PastEpochs   []uint64      `json:"past_epochs,omitempty"` // refused from now on
	Revision     uint64        `json:"revision"`
	State        envelope.Hash `json:"state"`
	Receipt      envelope.Hash `json:"receipt,omitzero"`
	Pages        uint64        `json:"pages"` // whose payload is held
	PayloadBytes uint64        `json:"payload_bytes"`
	Refused      uint64        `json:"refused"` // excluded items, ever
}

func (r *seriesRecord) leafKey() translog.LeafKey { return r.LeafKey }

// subject is how log objects name the relationship.
func (r *seriesRecord) subject(g *grants.Grant) envelope.Name {
	if g.Body.Listing == grants.ListingPublic {
		return r.Publisher
	}
	return translog.RelationshipName(r.Relation, r.Publisher)
}

// A catalogueRow is a page that was offered and not deleted.
type catalogueRow struct {
	URL          string        `json:"url"`
	Digest       envelope.Hash `json:"digest"`
	Format       uint8         `json:"format"`
	JournalEpoch uint64        `json:"journal_epoch"`
	Revision     uint64        `json:"revision"`
	Modified     int64         `json:"modified,omitzero"`
	Held         bool          `json:"held"`             // the payload is in the segment
	Reason       string        `json:"reason,omitempty"` // why it is not
	Segment      uint64        `json:"segment,omitzero"`
	Offset       uint64        `json:"offset,omitzero"` // in the decompressed frame
	Length       uint64        `json:"length,omitzero"`
	GrantID      envelope.Hash `json:"grant_id"`
	Entry        uint64        `json:"entry"` // log index
	Place        int           `json:"place"` // in that entry's set
}

// A deletedRow is what is kept of a deleted page: enough to prove the deletion.
type deletedRow struct {
	JournalEpoch uint64 `json:"journal_epoch"`
	Revision     uint64 `json:"revision"`
	Entry        uint64 `json:"entry"`
	Place        int    `json:"place"`
}

// An answeredBatch is a batch with its answer, kept for as long as receipts.
type answeredBatch struct {
	BatchID   envelope.Hash `json:"batch_id"`
	Manifest  []byte        `json:"manifest"`
	Committed []byte        `json:"committed"` // the wire's Committed message, without the paths
	First     uint64        `json:"first"`     // log index of the first entry
	TreeSize  uint64        `json:"tree_size"`
}

// readRow decodes the JSON row at key into v and reports whether it is there.
func readRow(r durable.Reader, key []byte, v any) (bool, error) {
	b, err := r.Get(key)
	if errors.Is(err, durable.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("row %q: %w", key, err)
	}
	return true, nil
}

func writeRow(b *durable.Batch, key []byte, v any) error {
	val, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Set(key, val)
}

func readSeries(r durable.Reader, publisher envelope.Name, series string) (*seriesRecord, error) {
	var rec seriesRecord
	ok, err := readRow(r, seriesKey(publisher, series), &rec)
	if err != nil || !ok {
		return nil, err
	}
	return &rec, nil
}

func (r *seriesRecord) write(b *durable.Batch) error {
	return writeRow(b, seriesKey(r.Publisher, r.Series), r)
}

// seriesOf yields the records of one publisher, or of all if it is empty.
func seriesOf(r durable.Reader, publisher envelope.Name) ([]*seriesRecord, error) {
	lo := []byte{'R'}
	if publisher != "" {
		lo = seriesKey(publisher, "")
	}
	var all []*seriesRecord
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return nil, err
		}
		rec := new(seriesRecord)
		if err := json.Unmarshal(kv.Value, rec); err != nil {
			return nil, fmt.Errorf("row %q: %w", kv.Key, err)
		}
		all = append(all, rec)
	}
	return all, nil
}

// readPair reads the grant and policy in force for a series.
func readPair(r durable.Reader, rec *seriesRecord) (grants.Pair, error) {
	g, err := r.Get(objectKey(rec.Grant.ID))
	if err != nil {
		return grants.Pair{}, fmt.Errorf("grant %s: %w", rec.Grant.ID, err)
	}
	p, err := r.Get(objectKey(rec.Policy.ID))
	if err != nil {
		return grants.Pair{}, fmt.Errorf("policy %s: %w", rec.Policy.ID, err)
	}
	return grants.ReadPair(g, p)
}
