package indexer

import (
	"encoding/binary"
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
//	O id                      grant, policy or feed, the exact octets
//	C sid h                   catalogue row of a page
//	D sid h                   what is kept of a deleted page
//	T sid …                   state tree
//	G sid segment             sealed frame
//	B sid batch key           answered batch
//	b sid batch_id            batch key
//	X grant_id index          an entry of the first log under the grant
//	X grant_id ff log index   one of a later log
//	Z sid                     the last receipt, with its checkpoint
//	V publisher 00 revocation revocation
//	A revocation sid kind     acknowledgement
//	J sid revocation          a deletion that is not done
//	W sid revocation          one that waits for the end of each page's retention
//	H sid number              what retention knows of a segment or file
//	Q sid number              a purge that the log does not tell yet
//	P sid number              one that it tells
//	F …                       the feed, see feedrows.go
//	U sid consumer 00 purpose what a consumer was handed of a series
//	u consumer 00 purpose     what it says to have dropped
//	Y sid class order         a page that is wanted; see wanted.go
//	y sid h                   where that row is
func seriesKey(publisher envelope.Name, series string) []byte {
	k := append([]byte{'R'}, publisher...)
	return append(append(k, 0), series...)
}

func objectKey(id envelope.Hash) []byte { return append([]byte{'O'}, id[:]...) }

func sidKey(space byte, sid uint32, rest ...byte) []byte {
	k := binary.BigEndian.AppendUint32(append(make([]byte, 0, 1+4+len(rest)), space), sid)
	return append(k, rest...)
}

func segmentKey(sid uint32, segment uint64) []byte { return numberKey('G', sid, segment) }

func numberKey(space byte, sid uint32, number uint64) []byte {
	return binary.BigEndian.AppendUint64(sidKey(space, sid), number)
}

// grantEntryKey is below that of every later index and of every later log. An
// index of the first log never begins with the octet ff.
func grantEntryKey(grant envelope.Hash, log uint32, index uint64) []byte {
	k := append([]byte{'X'}, grant[:]...)
	if log > 0 {
		k = binary.BigEndian.AppendUint32(append(k, 0xff), log)
	}
	return binary.BigEndian.AppendUint64(k, index)
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
	Grant      envelope.Position `json:"grant"`           // highest seen; in force for new batches
	Policy     envelope.Position `json:"policy"`          // likewise
	Feed       envelope.Position `json:"feed,omitzero"`   // likewise, if there ever was one
	Listed     bool              `json:"listed,omitzero"` // a grant of it was for a feed or a hash set

	JournalEpoch uint64        `json:"journal_epoch"`
	PastEpochs   []uint64      `json:"past_epochs,omitempty"` // refused from now on
	Revision     uint64        `json:"revision"`
	State        envelope.Hash `json:"state"`
	Pages        uint64        `json:"pages"` // whose payload is held
	PayloadBytes uint64        `json:"payload_bytes"`
	Refused      uint64        `json:"refused"` // excluded items, ever

	// Request is the number of the last answer to a request in this journal epoch.
	Request   uint64 `json:"request,omitzero"`
	Signalled uint64 `json:"signalled,omitzero"` // pages, ever
	Wanted    uint64 `json:"wanted,omitzero"`    // pages that are to be asked for
	Wishes    uint64 `json:"wishes,omitzero"`    // of the operator, ever
	Delivered uint64 `json:"delivered,omitzero"` // pages that came for the asking, ever
	Dropped   uint64 `json:"dropped,omitzero"`   // pages that were wanted beyond the backlog, ever

	Since    envelope.Time `json:"since,omitzero"`    // when the series' first grant began
	Receipts uint64        `json:"receipts,omitzero"` // signed, ever

	// Used is what of the grant's limits is used up.
	Used grants.Usage `json:"used,omitzero"`

	// Bound is the grant under which the state is held: that of the last batch
	// or rebind; zero while nothing is held.
	Bound envelope.Hash `json:"bound,omitzero"`
	// Rebound is when a rebind took all pages over, in Unix seconds; 0: never.
	Rebound int64 `json:"rebound,omitzero"`
	// Expired is the grant whose expiry is logged and has closed the series.
	Expired envelope.Hash `json:"expired,omitzero"`
	// Revoked is the strictest revocation of all that is held.
	Revoked *revokedRecord `json:"revoked,omitempty"`
	// Partial are revocations of some of the pages, by their arrival.
	Partial []revokedRecord `json:"partial,omitempty"`
	// Deletions counts those under way; nothing is accepted meanwhile.
	Deletions uint32 `json:"deletions,omitzero"`
	// Moves counts segments that were put in the place of others.
	Moves uint64 `json:"moves,omitzero"`
	// DataKey is the generation of the data key that seals what comes.
	DataKey uint32 `json:"data_key,omitzero"`
}

// A revokedRecord is what a revocation did to a series.
type revokedRecord struct {
	ID          envelope.Hash      `json:"revocation_id"`
	Disposition grants.Disposition `json:"disposition"`
	At          envelope.Time      `json:"at"`
	Deleted     bool               `json:"deleted,omitzero"` // the deletion is done
	Count       uint64             `json:"count"`            // pages stopped, then pages deleted
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
	URL          string
	Digest       envelope.Hash
	Format       uint8
	JournalEpoch uint64
	Revision     uint64
	Modified     int64
	Held         bool   // the payload is in the segment
	Reason       string // why it is not
	Segment      uint64
	File         uint64 // in place of a segment: the number of a large page's file
	Offset       uint64 // in the decompressed frame
	Length       uint64
	DataKey      uint32 // generation of the key that seals the segment
	GrantID      envelope.Hash
	Log          uint32 // number of the log, see translog.Tx.Log
	Entry        uint64 // index in it
	Place        int    // in that entry's set
	At           int64  // when it was taken in, in Unix seconds
	// Purged tells of a payload that went at the end of its retention.
	Purged *purgedPage
}

// A deletedRow is what is kept of a deleted page: enough to prove the deletion.
type deletedRow struct {
	JournalEpoch uint64 `json:"journal_epoch"`
	Revision     uint64 `json:"revision"`
	Log          uint32 `json:"log,omitzero"` // number of the log
	Entry        uint64 `json:"entry,omitzero"`
	Place        int    `json:"place,omitzero"`
	// A page that a revocation deleted names it in place of entry and place:
	// its entry is that of the acknowledgement, its place that of its hash among
	// the rows of the same revocation. Its leaf could not be made again without
	// the URL; Unheld pages have none.
	Revocation envelope.Hash `json:"revocation,omitzero"`
	Leaf       [32]byte      `json:"leaf,omitzero"`
	Unheld     bool          `json:"unheld,omitzero"`
}

// An answeredBatch is a batch with its answer, kept for as long as receipts.
type answeredBatch struct {
	BatchID   envelope.Hash `json:"batch_id"`
	Manifest  []byte        `json:"manifest"`
	Committed []byte        `json:"committed"` // the wire's Committed message, without the paths
	First     uint64        `json:"first"`     // log index of the first entry
	TreeSize  uint64        `json:"tree_size"`
}

func readSeries(r durable.Reader, publisher envelope.Name, series string) (*seriesRecord, error) {
	var rec seriesRecord
	ok, err := durable.ReadJSON(r, seriesKey(publisher, series), &rec)
	if err != nil || !ok {
		return nil, err
	}
	return &rec, rec.whole()
}

// write writes the record, and tells the feed if it lets out something else than
// the one before.
func (r *seriesRecord) write(b *durable.Batch) error {
	before, err := readSeries(b, r.Publisher, r.Series)
	if err == nil && !r.sameExits(before) {
		err = tellSeries(b, r.SID, seriesKey(r.Publisher, r.Series))
	}
	if err != nil {
		return err
	}
	return durable.WriteJSON(b, seriesKey(r.Publisher, r.Series), r)
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
		if err := rec.whole(); err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	return all, nil
}

// readPair reads the newest grant of a series with its policy.
func readPair(r durable.Reader, rec *seriesRecord) (grants.Pair, error) {
	return pairOf(r, rec.Grant.ID)
}

// pairOf reads a grant that is held, and the policy that it names.
func pairOf(r durable.Reader, id envelope.Hash) (grants.Pair, error) {
	raw, err := r.Get(objectKey(id))
	if err != nil {
		return grants.Pair{}, fmt.Errorf("grant %s: %w", id, err)
	}
	g, err := grants.ReadGrant(raw)
	if err != nil {
		return grants.Pair{}, fmt.Errorf("grant %s: %w", id, err)
	}
	p, err := r.Get(objectKey(g.Body.PolicyHash))
	if err != nil {
		return grants.Pair{}, fmt.Errorf("policy %s: %w", g.Body.PolicyHash, err)
	}
	return grants.ReadPair(raw, p)
}

// A lastReceipt is what is kept of the newest receipt of a series. It is no
// part of the series record, which only Prepare may write: what Finish adds is
// merged behind the records of later proposals of its group.
type lastReceipt struct {
	ID         envelope.Hash          `json:"receipt"`
	IssuedAt   envelope.Time          `json:"issued_at"`
	Checkpoint translog.CheckpointRef `json:"checkpoint"`
}

// readReceipt is the last receipt of a series, zero if there is none.
func readReceipt(r durable.Reader, sid uint32) (last lastReceipt, err error) {
	_, err = durable.ReadJSON(r, sidKey('Z', sid), &last)
	return last, err
}

func writeReceipt(b *durable.Batch, sid uint32, receipt *envelope.Object, c translog.CheckpointRef) error {
	return durable.WriteJSON(b, sidKey('Z', sid), lastReceipt{receipt.ID, envelope.At(receipt.IssuedAt), c})
}
