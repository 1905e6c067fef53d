package indexer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// The rows of which there is one for each page are not JSON, as all others are: they are
// most of what an indexer stores, and a batch writes thousands of them while all others
// wait. Each begins with its form, and has its members in the order of its type: numbers
// as varints, hashes as they are, texts behind their length.

// rowForm is the first octet of such a row. A row of another form is of another release.
const rowForm = 1

// Flags of a catalogue row.
const (
	flagHeld   = 1 << iota
	flagPurged // its end stands last
)

// AppendRow appends the row to dst.
func (row *catalogueRow) AppendRow(dst []byte) []byte {
	flags := byte(0)
	if row.Held {
		flags |= flagHeld
	}
	if row.Purged != nil {
		flags |= flagPurged
	}
	dst = appendText(append(dst, rowForm, flags), row.URL)
	dst = append(append(dst, row.Digest[:]...), row.Format)
	dst = appendNumbers(dst, row.JournalEpoch, row.Revision)
	dst = appendText(binary.AppendVarint(dst, row.Modified), row.Reason)
	dst = appendNumbers(dst, row.Segment, row.File, row.Offset, row.Length, uint64(row.DataKey))
	dst = append(dst, row.GrantID[:]...)
	dst = appendNumbers(dst, uint64(row.Log), row.Entry, uint64(row.Place))
	dst = binary.AppendVarint(dst, row.At)
	if p := row.Purged; p != nil {
		dst = appendNumbers(binary.AppendVarint(dst, p.At), p.Step, uint64(p.Place))
	}
	return dst
}

// ParseRow reads what AppendRow has written. The error wraps errRow.
func (row *catalogueRow) ParseRow(b []byte) error {
	r := rowReader{b: b}
	flags := r.form()
	*row = catalogueRow{Held: flags&flagHeld != 0, URL: r.text()}
	r.hash((*[32]byte)(&row.Digest))
	row.Format = r.octet()
	row.JournalEpoch, row.Revision, row.Modified, row.Reason = r.number(), r.number(), r.signed(), r.text()
	row.Segment, row.File, row.Offset, row.Length, row.DataKey = r.number(), r.number(), r.number(), r.number(), uint32(r.below(1<<32))
	r.hash((*[32]byte)(&row.GrantID))
	row.Log, row.Entry, row.Place, row.At = uint32(r.below(1<<32)), r.number(), int(r.below(1<<31)), r.signed()
	if flags&flagPurged != 0 {
		row.Purged = &purgedPage{At: r.signed(), Step: r.number(), Place: int(r.below(1 << 31))}
	}
	if flags&^(flagHeld|flagPurged) != 0 {
		r.bad = true
	}
	return r.end()
}

// AppendRow appends the row to dst.
func (t *toldPage) AppendRow(dst []byte) []byte {
	return binary.AppendVarint(appendNumbers(append(dst, rowForm), t.Number, t.First), t.Gone)
}

// ParseRow reads what AppendRow has written. The error wraps errRow.
func (t *toldPage) ParseRow(b []byte) error {
	r := rowReader{b: b}
	r.bad = r.octet() != rowForm
	*t = toldPage{Number: r.number(), First: r.number(), Gone: r.signed()}
	return r.end()
}

// A pageRow is a row of which there is one for each page.
type pageRow interface {
	AppendRow(dst []byte) []byte
	ParseRow(b []byte) error
}

// readRow reads the row at key into row, and reports whether it is there.
func readRow(r durable.Getter, key []byte, row pageRow) (bool, error) {
	b, err := r.Get(key)
	if errors.Is(err, durable.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = row.ParseRow(b)
	}
	if err != nil {
		return false, fmt.Errorf("row %x: %w", key, err)
	}
	return true, nil
}

// writeRow adds row at key to b.
func writeRow(b *durable.Batch, key []byte, row pageRow) error {
	return b.Set(key, row.AppendRow(make([]byte, 0, 256)))
}

// errRow is what is wrong with a row that cannot be read.
var errRow = errors.New("the row is not of the form of this release")

// A rowReader reads the members of a row one after the other. What comes behind the
// first that is not there is zero, and end says so.
type rowReader struct {
	b   []byte
	bad bool
}

// take takes the next n octets.
func (r *rowReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *rowReader) octet() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// form reads the form, and the flags behind it.
func (r *rowReader) form() (flags byte) {
	r.bad = r.octet() != rowForm
	return r.octet()
}

func (r *rowReader) number() uint64 {
	n, length := binary.Uvarint(r.b)
	if length <= 0 || r.take(uint64(length)) == nil {
		r.bad = true
		return 0
	}
	return n
}

// below is a number that is below a limit.
func (r *rowReader) below(limit uint64) uint64 {
	n := r.number()
	if n >= limit {
		r.bad = true
		return 0
	}
	return n
}

func (r *rowReader) signed() int64 {
	n, length := binary.Varint(r.b)
	if length <= 0 || r.take(uint64(length)) == nil {
		r.bad = true
		return 0
	}
	return n
}

func (r *rowReader) text() string { return string(r.take(r.number())) }

func (r *rowReader) hash(h *[32]byte) { copy(h[:], r.take(32)) }

// end says whether all was there, and nothing behind it.
func (r *rowReader) end() error {
	if r.bad || len(r.b) > 0 {
		return errRow
	}
	return nil
}

func appendNumbers(dst []byte, all ...uint64) []byte {
	for _, n := range all {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
