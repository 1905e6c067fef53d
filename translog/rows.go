package translog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// formatVersion is that of the rows below. A log of another version is refused.
const formatVersion = 1

// The rows of a log, all behind the octet 'L':
//
//	L f                  what the log is: an identity, in canonical JSON
//	L e u64be(index)     an entry, the exact octets that were hashed
//	L s u64be(index)     the leaf hashes of its decision set, 32 octets each
//	L t u8(level) u64be  a full tile: 256 hashes
//	L h o, L h n         the checkpoint of the last commit: artefact and note
//	L l o, L l n         the checkpoint published last: artefact and note
//	L c o, L c n         one of a new size that waits for witnesses: the same
//	L p u64be(size)      the artefact published first at that size
//
// A rotation begins the next log in the same store. Its rows are the same, with
// L x u32be(number) in place of L: log 0 is the first.
const (
	rowIdentity  = "Lf"
	rowEntry     = "Le"
	rowSet       = "Ls"
	rowTile      = "Lt"
	rowHead      = "Lh"
	rowLatest    = "Ll"
	rowCandidate = "Lc"
	rowPublished = "Lp"
	rowLater     = "Lx"
)

// rows is the part of a store in which one log has its rows. Everybody else
// names a row as if its log were the only one.
type rows struct {
	store  durable.Reader
	number uint32 // of the log
}

// key is where the row that is named k lies.
func (r rows) key(k []byte) []byte {
	if r.number == 0 {
		return k
	}
	return append(binary.BigEndian.AppendUint32([]byte(rowLater), r.number), k[len("L"):]...)
}

// Get reads a row of the log.
func (r rows) Get(k []byte) ([]byte, error) { return r.store.Get(r.key(k)) }

// Scan yields rows of the log, as they are named.
func (r rows) Scan(lo, hi []byte) iter.Seq2[durable.Row, error] {
	return r.named(r.store.Scan(r.key(lo), r.key(hi)))
}

// ScanReverse is Scan in descending order.
func (r rows) ScanReverse(lo, hi []byte) iter.Seq2[durable.Row, error] {
	return r.named(r.store.ScanReverse(r.key(lo), r.key(hi)))
}

func (r rows) named(all iter.Seq2[durable.Row, error]) iter.Seq2[durable.Row, error] {
	if r.number == 0 {
		return all
	}
	return func(yield func(durable.Row, error) bool) {
		for row, err := range all {
			if err == nil {
				row.Key = append([]byte("L"), row.Key[len(rowLater)+4:]...)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// identity says what log a store holds. Fields stand in canonical order.
type identity struct {
	Authority envelope.Name `json:"authority"`
	Continues *Continues    `json:"continues,omitempty"` // the log before, where there is one
	Format    uint64        `json:"format"`
	Indexer   envelope.Name `json:"indexer"`
	Origin    string        `json:"origin"`
	Vkey      string        `json:"vkey"`
}

// maxLogs is how many logs, one after the other, a store may hold: one a year
// for longer than evidence is kept by default.
const maxLogs = 12

// identities reads which logs the store holds, the first one first. All but the
// last have ended.
func identities(store durable.Reader) ([]identity, error) {
	var all []identity
	for len(all) <= maxLogs {
		raw, err := rows{store, uint32(len(all))}.Get([]byte(rowIdentity))
		if errors.Is(err, durable.ErrNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var id identity
		if err := envelope.DecodeCanonical(raw, &id); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if id.Format != formatVersion {
			return nil, fmt.Errorf("%w: format %d, this program reads %d", ErrIdentity, id.Format, formatVersion)
		}
		if (id.Continues == nil) != (len(all) == 0) {
			return nil, fmt.Errorf("%w: log %d, %s, does not say what it continues", ErrCorrupt, len(all), id.Origin)
		}
		all = append(all, id)
	}
	return nil, fmt.Errorf("%w: more than %d logs", ErrCorrupt, maxLogs)
}

func numberKey(prefix string, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(prefix), n)
}

func entryKey(index uint64) []byte { return numberKey(rowEntry, index) }

func setKeyOf(index uint64) []byte { return numberKey(rowSet, index) }

func publishedKey(size uint64) []byte { return numberKey(rowPublished, size) }

func tileKey(level int, index uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{rowTile[0], rowTile[1], byte(level)}, index)
}

func endOf(prefix string) []byte { return durable.PrefixEnd([]byte(prefix)) }

// joinHashes writes hashes one behind the other.
func joinHashes(hashes [][32]byte) []byte {
	b := make([]byte, 0, 32*len(hashes))
	for i := range hashes {
		b = append(b, hashes[i][:]...)
	}
	return b
}
