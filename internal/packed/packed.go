// Package packed reads and writes rows of which there is one for each page: numbers are
// varints, texts have their length before them, and hashes are as they are. A million of
// them as JSON would be most of what the stores hold and most of what a push writes.
package packed

import (
	"encoding/binary"
	"errors"
)

// ErrDamaged is what is wrong with a row that is cut short, has something behind it, or
// does not say what it may say.
var ErrDamaged = errors.New("a packed row is damaged")

// A Reader reads the members of a row one after the other. Behind the first fault it
// gives nothing more, and End says so.
type Reader struct {
	rest []byte
	bad  bool
}

// NewReader reads row, which must not be changed meanwhile.
func NewReader(row []byte) Reader { return Reader{rest: row} }

// Octets takes the next n, which are those of the row.
func (r *Reader) Octets(n uint64) []byte {
	if r.bad = r.bad || uint64(len(r.rest)) < n; r.bad {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// Octet takes one.
func (r *Reader) Octet() byte {
	if b := r.Octets(1); b != nil {
		return b[0]
	}
	return 0
}

// Number takes what AppendNumbers has written.
func (r *Reader) Number() uint64 {
	n, size := binary.Uvarint(r.rest)
	return r.took(size, n)
}

// Below takes a number that is below limit.
func (r *Reader) Below(limit uint64) uint64 {
	n := r.Number()
	if n >= limit {
		r.Fault()
		return 0
	}
	return n
}

// Signed takes what binary.AppendVarint has written.
func (r *Reader) Signed() int64 {
	n, size := binary.Varint(r.rest)
	return int64(r.took(size, uint64(n)))
}

func (r *Reader) took(size int, n uint64) uint64 {
	if size <= 0 || r.Octets(uint64(size)) == nil {
		r.bad = true
		return 0
	}
	return n
}

// Text takes what AppendText has written.
func (r *Reader) Text() string { return string(r.Octets(r.Number())) }

// Hash takes one.
func (r *Reader) Hash() (h [32]byte) {
	copy(h[:], r.Octets(uint64(len(h))))
	return h
}

// Fault makes the row a damaged one.
func (r *Reader) Fault() { r.bad = true }

// More reports whether there is something left, and no fault yet.
func (r *Reader) More() bool { return !r.bad && len(r.rest) > 0 }

// Rest takes all that is left.
func (r *Reader) Rest() []byte { return r.Octets(uint64(len(r.rest))) }

// Err is ErrDamaged behind a fault.
func (r *Reader) Err() error {
	if r.bad {
		return ErrDamaged
	}
	return nil
}

// End is ErrDamaged unless the whole row was read, and without fault.
func (r *Reader) End() error {
	if len(r.rest) > 0 {
		return ErrDamaged
	}
	return r.Err()
}

// AppendText appends a text behind its length.
func AppendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// AppendNumbers appends numbers.
func AppendNumbers(dst []byte, all ...uint64) []byte {
	for _, n := range all {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}
