package translog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// markFile is the name, in Config.Dir, of the high-water mark of the log with
// the verifier key vkey.
func markFile(vkey string) string {
	h := sha256.Sum256([]byte(vkey))
	return "high-water-" + hex.EncodeToString(h[:8])
}

// A mark is how far a log has come: the last commit that may have been shown
// to anybody, and the latest time that the log has seen. It is kept outside the
// database, so that a database which was lost, cut short or replaced by an
// older copy is found out before anything is signed again.
//
// The mark of a log that has ended says so, for ever: a copy of its store from
// before its end, found beside its key, signs nothing more.
type mark struct {
	size    uint64
	root    [32]byte
	highest time.Time // in whole seconds
	ended   bool
}

// markSize is that of a living log's mark; one octet more, 1, says that it has
// ended.
const markSize = 8 + 32 + 8

func (m mark) bytes() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, markSize+1), m.size)
	b = append(b, m.root[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.highest.Unix()))
	if m.ended {
		b = append(b, 1)
	}
	return b
}

func parseMark(b []byte) (mark, error) {
	ended := len(b) == markSize+1 && b[markSize] == 1
	if len(b) != markSize && !ended {
		return mark{}, fmt.Errorf("%w: high-water mark of %d octets", ErrCorrupt, len(b))
	}
	return mark{
		size:    binary.BigEndian.Uint64(b),
		root:    [32]byte(b[8:40]),
		highest: time.Unix(int64(binary.BigEndian.Uint64(b[40:markSize])), 0).UTC(),
		ended:   ended,
	}, nil
}

// openMark opens the mark of the log in dir. found is false if none was ever
// written.
func openMark(s *durable.Store, dir, vkey string) (file *durable.Slots, m mark, found bool, err error) {
	file, err = s.OpenSlots(filepath.Join(dir, markFile(vkey)))
	if err != nil {
		return nil, mark{}, false, fmt.Errorf("high-water mark: %w", err)
	}
	if file.Value() == nil {
		return file, mark{}, false, nil
	}
	if m, err = parseMark(file.Value()); err != nil {
		_ = file.Close() // nothing was written
		return nil, mark{}, false, err
	}
	return file, m, true, nil
}

// check compares the mark with the tree in the store.
func (m mark) check(t tree) error {
	if m.ended {
		return fmt.Errorf("%w with a tree of %d, as the high-water mark says", ErrEnded, m.size)
	}
	if m.size > t.size {
		return fmt.Errorf("%w: it holds %d entries, and this log has signed a tree of %d. "+
			"Put the newest copy of the store back. If it is lost, begin a log under a new origin: "+
			"to sign under this one again would fork it", ErrRollback, t.size, m.size)
	}
	root, err := t.rootAt(m.size)
	if err != nil {
		return err
	}
	if root != m.root {
		return fmt.Errorf("%w: at size %d its root is %x, and this log has signed %x. "+
			"Put back the store that this log has written. If it is lost, begin a log under a new origin",
			ErrRollback, m.size, root, m.root)
	}
	return nil
}

// endMark writes in the mark of the log vkey that it has ended. To do so again
// changes nothing.
func endMark(s *durable.Store, dir, vkey string, last mark) (err error) {
	file, m, _, err := openMark(s, dir, vkey)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if m.ended {
		return nil
	}
	last.ended = true
	if m.highest.After(last.highest) {
		last.highest = m.highest
	}
	return file.Write(last.bytes())
}
