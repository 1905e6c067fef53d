package indexer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/packed"
)

// The rows of which there is one for each page are packed, and not JSON as all others
// are: they are most of what an indexer stores, and a batch writes thousands of them while
// all others wait. Each begins with its form and its flags, and has its members in the
// order of its type.

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
	dst = packed.AppendText(append(dst, rowForm, flags), row.URL)
	dst = append(append(dst, row.Digest[:]...), row.Format)
	dst = packed.AppendNumbers(dst, row.JournalEpoch, row.Revision)
	dst = packed.AppendText(binary.AppendVarint(dst, row.Modified), row.Reason)
	dst = packed.AppendNumbers(dst, row.Segment, row.File, row.Offset, row.Length, uint64(row.DataKey))
	dst = append(dst, row.GrantID[:]...)
	dst = packed.AppendNumbers(dst, uint64(row.Log), row.Entry, uint64(row.Place))
	dst = binary.AppendVarint(dst, row.At)
	if p := row.Purged; p != nil {
		dst = packed.AppendNumbers(binary.AppendVarint(dst, p.At), p.Step, uint64(p.Place))
	}
	return dst
}

// ParseRow reads what AppendRow has written. The error wraps packed.ErrDamaged.
func (row *catalogueRow) ParseRow(b []byte) error {
	r, flags := pageReader(b)
	*row = catalogueRow{Held: flags&flagHeld != 0, URL: r.Text(), Digest: r.Hash(), Format: r.Octet()}
	row.JournalEpoch, row.Revision, row.Modified, row.Reason = r.Number(), r.Number(), r.Signed(), r.Text()
	row.Segment, row.File, row.Offset, row.Length, row.DataKey = r.Number(), r.Number(), r.Number(), r.Number(), uint32(r.Below(1<<32))
	row.GrantID, row.Log, row.Entry, row.Place, row.At = r.Hash(), uint32(r.Below(1<<32)), r.Number(), int(r.Below(1<<31)), r.Signed()
	if flags&flagPurged != 0 {
		row.Purged = &purgedPage{At: r.Signed(), Step: r.Number(), Place: int(r.Below(1 << 31))}
	}
	if flags&^(flagHeld|flagPurged) != 0 {
		r.Fault()
	}
	return r.End()
}

// AppendRow appends the row to dst.
func (t *toldPage) AppendRow(dst []byte) []byte {
	return binary.AppendVarint(packed.AppendNumbers(append(dst, rowForm, 0), t.Number, t.First), t.Gone)
}

// ParseRow reads what AppendRow has written. The error wraps packed.ErrDamaged.
func (t *toldPage) ParseRow(b []byte) error {
	r, flags := pageReader(b)
	*t = toldPage{Number: r.Number(), First: r.Number(), Gone: r.Signed()}
	if flags != 0 {
		r.Fault()
	}
	return r.End()
}

// pageReader begins to read a row, behind its form and its flags.
func pageReader(b []byte) (r packed.Reader, flags byte) {
	r = packed.NewReader(b)
	if r.Octet() != rowForm {
		r.Fault()
	}
	return r, r.Octet()
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
