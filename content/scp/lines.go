package scp

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"slices"
	"strings"
)

// lines splits a decompressed file into its lines, one in memory at a time,
// and hashes what the checksum covers.
//
// A line's slice is valid until the next call. A line that is longer than
// bufio's buffer is gathered in long, which doubles with what has really come,
// up to the limit, and is let go once lines are short again.
type lines struct {
	in    *bufio.Reader
	long  []byte
	n     int64        // lines read
	alone func() error // called before more than maxKept of a line is gathered

	hash hash.Hash
	// pending is a line feed that is not hashed yet: whether the last one of a
	// file counts is what two readings of the text differ in.
	pending bool
}

func newLines(r io.Reader) *lines {
	return &lines{in: bufio.NewReaderSize(r, 256<<10), hash: sha256.New()}
}

// maxKept is the size up to which long is kept between lines.
const maxKept = 1 << 20

// next returns the next line without its line feed; io.EOF behind the last.
func (l *lines) next() ([]byte, error) {
	if cap(l.long) > maxKept {
		l.long = nil
	}
	l.long = l.long[:0]
	l.n++
	alone := l.alone
	for {
		part, err := l.in.ReadSlice('\n')
		if len(l.long)+len(part) > MaxPage+len("\r\n") {
			return nil, limit("a line of more than %d octets", MaxPage)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			need := len(l.long) + len(part)
			if need > maxKept && alone != nil {
				if err := alone(); err != nil {
					return nil, err
				}
				alone = nil
			}
			if need > cap(l.long) {
				l.long = slices.Grow(l.long, min(need, MaxPage-len(l.long)+len("\r\n")))
			}
			l.long = append(l.long, part...)
			continue
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		line := part
		if len(l.long) > 0 {
			l.long = append(l.long, part...)
			line = l.long
		}
		if len(line) == 0 {
			return nil, io.EOF
		}
		return line, nil
	}
}

// give hands over the line that was returned last, which was gathered.
func (l *lines) give() []byte {
	line := l.long
	l.long = nil
	return line
}

// sum hashes a line, as next returned it, but for the part of it that is cut.
func (l *lines) sum(line []byte, c cut) {
	if l.pending {
		l.hash.Write([]byte{'\n'})
	}
	if l.pending = line[len(line)-1] == '\n'; l.pending {
		line = line[:len(line)-1]
	}
	l.hash.Write(line[:c.from])
	l.hash.Write(line[c.to:])
}

// check compares a claimed checksum with both readings: without a line feed at
// the end of the file, and with one.
func (l *lines) check(claim string) error {
	digits := strings.ToLower(strings.TrimPrefix(claim, checksumPrefix))
	if hex.EncodeToString(l.hash.Sum(nil)) == digits {
		return nil
	}
	l.hash.Write([]byte{'\n'})
	if hex.EncodeToString(l.hash.Sum(nil)) == digits {
		return nil
	}
	return ErrChecksum
}

// trim takes white space that JSON allows off both ends of a line.
func trim(line []byte) []byte { return bytes.Trim(line, " \t\r\n") }
