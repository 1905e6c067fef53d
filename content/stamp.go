package content

import (
	"encoding/binary"
	"fmt"
	"time"
)

// A Stamp is what a file system says of a file without its being read: as long
// as none of it moves, and it was at rest when it was taken down, the file's
// octets are the same. The change time is what no program sets, so an edit that
// restores size and modification time moves it all the same. The zero Stamp
// stands for a file system that does not tell.
type Stamp struct {
	Size     int64
	Modified int64 // nanoseconds since 1970, as Changed
	Changed  int64
	Device   uint64
	Inode    uint64
}

// StampSize is the length of a Stamp's octets.
const StampSize = 5 * 8

// Rest is how long a file must have been left alone for its Stamp to be told
// from that of a later edit. File systems give times in steps of up to 2 seconds.
const Rest = 3 * time.Second

// AtRest reports whether nothing had moved for Rest at a time. A Stamp from the
// future, of a clock that was moved back, is not at rest.
func (s Stamp) AtRest(at time.Time) bool {
	return s != Stamp{} && time.Unix(0, max(s.Modified, s.Changed)).Add(Rest).Before(at)
}

// Append appends the Stamp's octets to b.
func (s Stamp) Append(b []byte) []byte {
	for _, n := range [...]uint64{uint64(s.Size), uint64(s.Modified), uint64(s.Changed), s.Device, s.Inode} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// ParseStamp accepts exactly what Append appends.
func ParseStamp(b []byte) (Stamp, error) {
	if len(b) != StampSize {
		return Stamp{}, fmt.Errorf("a stamp of %d octets", len(b))
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return Stamp{int64(n(0)), int64(n(1)), int64(n(2)), n(3), n(4)}, nil
}
