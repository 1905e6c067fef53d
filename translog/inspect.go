package translog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// What follows is for those who check a log, or read it from elsewhere: how the
// rows and the files of the public side are named and cut.

// TileWidth is the number of hashes of a full tile, and of entries of a full
// bundle.
const TileWidth = tileWidth

// MaxNote bounds a note with all its cosignatures, in octets.
const MaxNote = maxNote

// EntriesLevel stands for the entry bundles in TileURL.
const EntriesLevel = entriesLevel

// MaxBundle bounds an entry bundle, in octets.
const MaxBundle = tileWidth * (2 + MaxEntry)

// TileURL is the path of a tile on the public side, or with EntriesLevel that of
// an entry bundle, as C2SP tlog-tiles writes it.
func TileURL(level int, index uint64, width int) string {
	return "/tile/" + tilePath{level, index, width}.String()
}

// Width is how many hashes the tile at level and index has in a tree of that
// size: 0 to TileWidth. At level 0 it is that of the entry bundle too.
func Width(size uint64, level int, index uint64) int { return tree{size: size}.width(level, index) }

// TileRoot is the root over the hashes of a full tile: one hash of the level
// above. hashes is a power of two of them, and is not changed.
func TileRoot(hashes []byte) [32]byte { return [32]byte(foldTile(hashes)) }

// ErrBundle: octets that are no entry bundle of the width asked for.
var ErrBundle = errors.New("malformed entry bundle")

// ParseBundle cuts an entry bundle of exactly width entries into them, without
// copying. Errors: ErrBundle.
func ParseBundle(b []byte, width int) ([][]byte, error) {
	entries := make([][]byte, 0, min(width, tileWidth))
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n || len(entries) == width {
			break
		}
		entries = append(entries, b[2:2+n:2+n])
		b = b[2+n:]
	}
	if len(b) > 0 || len(entries) != width {
		return nil, fmt.Errorf("%w: %d entries and %d octets behind them, want %d entries", ErrBundle, len(entries), len(b), width)
	}
	return entries, nil
}

// ParseCheckpoint reads a signed-checkpoint without verifying its signature.
func ParseCheckpoint(raw []byte) (*envelope.Object, Checkpoint, error) { return parseCheckpoint(raw) }

// A RowKind is what a row of a stored log holds.
type RowKind byte

// The kinds of rows, in the order of their keys; see rows.go for what is in
// them.
const (
	RowUnknown    RowKind = 0   // no row of this format
	RowHeld       RowKind = 'c' // a checkpoint that waits for its witnesses, as an artefact
	RowHeldNote   RowKind = 'C' // and as a note
	RowEntry      RowKind = 'e' // by index
	RowIdentity   RowKind = 'f'
	RowHead       RowKind = 'h' // the checkpoint of the last commit, as an artefact
	RowHeadNote   RowKind = 'H' // and as a note
	RowLatest     RowKind = 'l' // the checkpoint published last
	RowLatestNote RowKind = 'L'
	RowPublished  RowKind = 'p' // by size
	RowSet        RowKind = 's' // by index
	RowTile       RowKind = 't' // by level and index
)

// A RowKey names one row. Log is the number of the log in its store, Level that
// of a tile, Number an index or a size.
type RowKey struct {
	Kind   RowKind
	Log    uint32
	Level  int
	Number uint64
}

// Bytes is the key as the store has it; nil for RowUnknown.
func (k RowKey) Bytes() []byte {
	name := k.name()
	if name == nil {
		return nil
	}
	return rows{number: k.Log}.key(name)
}

// name is the key as the log itself has it.
func (k RowKey) name() []byte {
	switch k.Kind {
	case RowIdentity:
		return []byte(rowIdentity)
	case RowHead:
		return []byte(rowHead + "o")
	case RowHeadNote:
		return []byte(rowHead + "n")
	case RowLatest:
		return []byte(rowLatest + "o")
	case RowLatestNote:
		return []byte(rowLatest + "n")
	case RowHeld:
		return []byte(rowCandidate + "o")
	case RowHeldNote:
		return []byte(rowCandidate + "n")
	case RowTile:
		return tileKey(k.Level, k.Number)
	case RowEntry, RowPublished, RowSet:
		return numberKey("L"+string(k.Kind), k.Number)
	}
	return nil
}

// String names the row for people.
func (k RowKey) String() string {
	switch k.Kind {
	case RowIdentity:
		return "identity"
	case RowHead:
		return "checkpoint of the last commit, artefact"
	case RowHeadNote:
		return "checkpoint of the last commit, note"
	case RowLatest:
		return "checkpoint published last, artefact"
	case RowLatestNote:
		return "checkpoint published last, note"
	case RowHeld:
		return "checkpoint held back, artefact"
	case RowHeldNote:
		return "checkpoint held back, note"
	case RowTile:
		return fmt.Sprintf("tile %d/%d", k.Level, k.Number)
	case RowPublished:
		return fmt.Sprintf("checkpoint of size %d", k.Number)
	case RowEntry:
		return fmt.Sprintf("entry %d", k.Number)
	case RowSet:
		return fmt.Sprintf("set %d", k.Number)
	}
	return "unknown row"
}

// ParseRowKey accepts exactly what Bytes makes; anything else is RowUnknown.
func ParseRowKey(key []byte) RowKey {
	var log uint32
	name := key
	if rest, ok := bytes.CutPrefix(key, []byte(rowLater)); ok && len(rest) > 4 {
		log, name = binary.BigEndian.Uint32(rest), append([]byte("L"), rest[4:]...)
	}
	k := parseRowName(name)
	k.Log = log
	if string(k.Bytes()) != string(key) {
		return RowKey{}
	}
	return k
}

// parseRowName may take for a key what is none; Bytes shows whether it is.
func parseRowName(key []byte) (k RowKey) {
	switch {
	case len(key) == 10 && (key[1] == rowEntry[1] || key[1] == rowSet[1] || key[1] == rowPublished[1]):
		k = RowKey{Kind: RowKind(key[1]), Number: binary.BigEndian.Uint64(key[2:])}
	case len(key) == 11 && key[1] == rowTile[1]:
		k = RowKey{Kind: RowTile, Level: int(key[2]), Number: binary.BigEndian.Uint64(key[3:])}
	case len(key) == 2:
		k.Kind = RowIdentity
	case len(key) == 3:
		for _, kind := range []RowKind{RowHead, RowHeadNote, RowLatest, RowLatestNote, RowHeld, RowHeldNote} {
			if string(RowKey{Kind: kind}.name()) == string(key) {
				k.Kind = kind
			}
		}
	}
	return k
}

// RowBounds are the keys between which all rows of a kind lie that has numbers.
func RowBounds(log uint32, kind RowKind) (lo, hi []byte) {
	r, prefix := rows{number: log}, "L"+string(kind)
	return r.key([]byte(prefix)), r.key(endOf(prefix))
}

// AllRows are the keys between which all rows of all logs of a store lie.
func AllRows() (lo, hi []byte) { return []byte{'L'}, []byte{'L' + 1} }

// An Identity says what log a store holds.
type Identity struct {
	Authority, Indexer envelope.Name
	Origin, VKey       string
	Continues          *Continues // the end of the log before; nil for the first
}

// Identities reads which logs a store holds, the first one first; all but the
// last have ended. Errors: ErrCorrupt, ErrIdentity.
func Identities(store durable.Reader) ([]Identity, error) {
	ids, err := identities(store)
	if err != nil {
		return nil, err
	}
	all := make([]Identity, len(ids))
	for i, id := range ids {
		all[i] = Identity{id.Authority, id.Indexer, id.Origin, id.Vkey, id.Continues}
	}
	return all, nil
}

// ReadMark reads the high-water mark of the log with the verifier key vkey from
// dir without changing it, also while a Log has it open; false if there is
// none. A Log that is open writes it before the release that it is about: read
// the mark first, and then what SnapshotOf its size shows.
func ReadMark(fs durable.FS, dir, origin, vkey string) (Tree, bool, error) {
	value, err := durable.ReadSlots(fs, filepath.Join(dir, markFile(vkey)))
	if err != nil || value == nil {
		return Tree{}, false, err
	}
	m, err := parseMark(value)
	return Tree{Origin: origin, Size: m.size, Root: m.root}, err == nil, err
}
