package translog

import (
	"encoding/binary"

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
//	L p u64be(size)      the artefact published first at that size
const (
	rowIdentity  = "Lf"
	rowEntry     = "Le"
	rowSet       = "Ls"
	rowTile      = "Lt"
	rowHead      = "Lh"
	rowLatest    = "Ll"
	rowPublished = "Lp"
)

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
