package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A Slots keeps one small value outside the database: in a file of two
// sectors, written in place and in turn, so that one of them is whole at any
// instant. It is for what must outlive the loss or the replacement of the
// database, such as how far it had come. It belongs to one goroutine.
//
// A sector is 512 octets: u64be sequence, u16be length, the value, zeros, and
// the CRC-32C of all that. A higher sequence is newer. A sector of zeros was
// never written.
type Slots struct {
	s     *Store
	path  string
	file  vfs.File
	seq   uint64
	value []byte
}

const (
	slotSize  = 512
	slotHead  = 8 + 2
	slotCheck = slotSize - 4

	// MaxSlot is the size of the largest value of a Slots, in octets.
	MaxSlot = slotCheck - slotHead
)

// ErrSlots: no sector of the file is whole.
var ErrSlots = errors.New("no sector of the file is whole")

// OpenSlots opens the file at path, which it makes if need be, with the
// folders above it; they are durable on return. One path is open once.
func (s *Store) OpenSlots(path string) (*Slots, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	path = filepath.Clean(path)
	s.slotsMu.Lock()
	defer s.slotsMu.Unlock()
	if s.slots[path] {
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	f, err := openSlotsFile(s.fs, path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	sl := &Slots{s: s, path: path, file: f}
	if err := sl.load(); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	s.slots[path] = true
	return sl, nil
}

// openSlotsFile opens the file at its full size, so that later writes change
// no metadata and an fdatasync makes them durable.
func openSlotsFile(fs vfs.FS, path string) (vfs.File, error) {
	dir := fs.PathDir(path)
	if err := makeDir(fs, dir); err != nil {
		return nil, err
	}
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < 2*slotSize {
		if _, err = f.WriteAt(make([]byte, 2*slotSize-info.Size()), info.Size()); err == nil {
			err = f.Sync()
		}
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// makeDir makes dir and what is missing above it, and syncs each parent.
func makeDir(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent != dir {
		if err := makeDir(fs, parent); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return syncDir(fs, parent)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (sl *Slots) load() error {
	var both [2 * slotSize]byte
	if _, err := sl.file.ReadAt(both[:], 0); err != nil && err != io.EOF {
		return err
	}
	damaged := 0
	for i := range 2 {
		b := both[i*slotSize:][:slotSize]
		if [slotSize]byte(b) == [slotSize]byte{} {
			continue
		}
		n := int(binary.BigEndian.Uint16(b[8:]))
		seq := binary.BigEndian.Uint64(b)
		if n > MaxSlot || binary.BigEndian.Uint32(b[slotCheck:]) != checksum(b[:slotCheck]) || seq%2 != uint64(i) {
			damaged++
			continue
		}
		if seq > sl.seq || sl.value == nil {
			sl.seq, sl.value = seq, append([]byte{}, b[slotHead:][:n]...)
		}
	}
	if damaged == 2 {
		return ErrSlots
	}
	return nil
}

// Value is the newest value, or nil if none was ever written whole.
func (sl *Slots) Value() []byte { return sl.value }

// Write makes value, of at most MaxSlot octets, the newest and returns once it
// is durable. An error is final for the whole store, like that of a Commit.
func (sl *Slots) Write(value []byte) error {
	if err := sl.s.Err(); err != nil {
		return err
	}
	if len(value) > MaxSlot {
		return fmt.Errorf("write %s: %d octets, at most %d", sl.path, len(value), MaxSlot)
	}
	var b [slotSize]byte
	seq := sl.seq + 1
	binary.BigEndian.PutUint64(b[:], seq)
	binary.BigEndian.PutUint16(b[8:], uint16(len(value)))
	copy(b[slotHead:], value)
	binary.BigEndian.PutUint32(b[slotCheck:], checksum(b[:slotCheck]))
	err := sl.s.do(func() error {
		defer sl.s.guard.stalls.end(sl.s.guard.stalls.begin("write", sl.path))
		_, err := sl.file.WriteAt(b[:], int64(seq%2)*slotSize)
		if err == nil {
			err = sl.file.SyncData()
		}
		return err
	})
	if err != nil {
		sl.s.guard.fail(fmt.Errorf("write %s: %w", sl.path, err))
		return sl.s.Err()
	}
	sl.seq, sl.value = seq, append(sl.value[:0], value...)
	return nil
}

// Close closes the file.
func (sl *Slots) Close() error {
	sl.s.slotsMu.Lock()
	defer sl.s.slotsMu.Unlock()
	delete(sl.s.slots, sl.path)
	return sl.file.Close()
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
