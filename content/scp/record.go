package scp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A record is an accepted line in a spool: its length, where its members are, whether
// anything was odd about it, and a CRC-32C of all that; then the line.
const recordHeader = 4 + 8*int(memberCount) + 4 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A spoolWriter writes records one behind the other.
type spoolWriter struct {
	out *bufio.Writer
	at  int64
	buf [recordHeader]byte
}

func newSpoolWriter(w io.Writer) *spoolWriter {
	return &spoolWriter{out: bufio.NewWriterSize(w, 256<<10)}
}

// prepare is nothing here.
func (s *spoolWriter) prepare(*checked, *walker) {}

func (s *spoolWriter) page(c *checked) error {
	binary.LittleEndian.PutUint32(s.buf[:], uint32(len(c.line)))
	at := s.buf[4:]
	for _, part := range c.parts {
		binary.LittleEndian.PutUint32(at, part.from)
		binary.LittleEndian.PutUint32(at[4:], part.to)
		at = at[8:]
	}
	binary.LittleEndian.PutUint32(at, min(uint32(len(c.odd)), 1))
	binary.LittleEndian.PutUint32(at[4:], crc32.Checksum(s.buf[:recordHeader-4], castagnoli))
	s.at += int64(recordHeader + len(c.line))
	if _, err := s.out.Write(s.buf[:]); err != nil {
		return err
	}
	_, err := s.out.Write(c.line)
	return err
}

func (s *spoolWriter) flush() error { return s.out.Flush() }

// A recordHead is what stands before a line.
type recordHead struct {
	length uint32
	parts  parts
	odd    bool
}

// parse reads a head. One that was not written so is an error: the file is ours, but
// not the disk below it.
func (r *recordHead) parse(head *[recordHeader]byte) error {
	if crc32.Checksum(head[:recordHeader-4], castagnoli) != binary.LittleEndian.Uint32(head[recordHeader-4:]) {
		return errors.New("the head of a record is not what was written")
	}
	if r.length = binary.LittleEndian.Uint32(head[:]); r.length > MaxPage {
		return fmt.Errorf("record of %d octets", r.length)
	}
	at := head[4:]
	for m := range r.parts {
		s := span{binary.LittleEndian.Uint32(at), binary.LittleEndian.Uint32(at[4:])}
		if at = at[8:]; s.to != 0 && (s.to > r.length || s.from+2 > s.to) {
			return fmt.Errorf("record with member %s out of it", memberNames[m])
		}
		r.parts[m] = s
	}
	r.odd = binary.LittleEndian.Uint32(at) != 0
	return nil
}

// readRecord reads what page wrote.
func readRecord(in io.Reader) (line []byte, p parts, odd bool, err error) {
	var head [recordHeader]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, p, false, err
	}
	var r recordHead
	if err := r.parse(&head); err != nil {
		return nil, p, false, err
	}
	line = make([]byte, r.length)
	_, err = io.ReadFull(in, line)
	return line, r.parts, r.odd, err
}

// recordAt reads the record of so long a line at an offset.
func recordAt(in io.ReaderAt, offset int64, length uint32) (line []byte, p parts, odd bool, err error) {
	all := make([]byte, recordHeader+int(length))
	if _, err := in.ReadAt(all, offset); err != nil {
		return nil, p, false, err
	}
	var r recordHead
	if err := r.parse((*[recordHeader]byte)(all)); err != nil {
		return nil, p, false, err
	}
	if r.length != length {
		return nil, p, false, fmt.Errorf("record of %d octets in place of %d", r.length, length)
	}
	return all[recordHeader:], r.parts, r.odd, nil
}
