package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A noPage is the row of a file whose octets give no page: as long as its stamp is
// the file's, it need not be read to be skipped again
// (TestAFileThatGivesNoPageIsReadOnce). The zero stamp, of one that was not at rest yet,
// is no file's.
type noPage struct {
	Stamp  []byte        `json:"stamp"`
	Reason string        `json:"reason"`
	Broken bool          `json:"broken,omitzero"` // it is not the owner's wish: an earlier revision of the page stays
	Since  envelope.Time `json:"since"`
	Read   time.Time     `json:"read"` // when the scan began that read it
}

func noPageKey(coll, location string) []byte { return rowKey('J', coll, 'n', []byte(location)) }

// noPageRows yields the rows of a collection by ascending location.
func noPageRows(r durable.Reader, coll string, each func(location string, n noPage) (more bool, err error)) error {
	lo := noPageKey(coll, "")
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		location := string(kv.Key[len(lo):])
		var n noPage
		if err := json.Unmarshal(kv.Value, &n); err != nil {
			return fmt.Errorf("row of %q: %w", location, err)
		}
		if more, err := each(location, n); err != nil || !more {
			return err
		}
	}
	return nil
}

// noPages yields what is remembered of such files, by ascending location.
func (s *scanner) noPages(r durable.Reader) iter.Seq2[content.Skipped, error] {
	return func(yield func(content.Skipped, error) bool) {
		err := noPageRows(r, s.journal.coll, func(location string, n noPage) (bool, error) {
			k := content.Skipped{Location: location, Reason: n.Reason, Unread: true}
			if n.Broken {
				k.Err = errors.New(n.Reason)
			}
			var err error
			if k.Stamp, err = content.ParseStamp(n.Stamp); err != nil {
				return false, err
			}
			return yield(k, nil), nil
		})
		if err != nil {
			yield(content.Skipped{}, err)
		}
	}
}

// noneRows answers in the same way about files that give no page. It belongs to the
// goroutine that asks.
type noneRows struct {
	next  func() (content.Skipped, error, bool)
	row   content.Skipped
	begun bool
	more  bool
	stale []string // locations of rows that answered nothing, at most scanStamps
}

func (n *noneRows) advance() {
	var err error
	n.row, err, n.more = n.next()
	n.begun, n.more = true, n.more && err == nil
}

func (n *noneRows) pass() {
	if len(n.stale) < scanStamps {
		n.stale = append(n.stale, n.row.Location)
	}
	n.advance()
}

// at is what is remembered of a file under its present stamp, or nil.
func (n *noneRows) at(location string, now content.Stamp) *content.Skipped {
	if !n.begun {
		n.advance()
	}
	for n.more && n.row.Location < location {
		n.pass()
	}
	if !n.more || n.row.Location != location {
		return nil
	}
	if n.row.Stamp != now {
		n.pass()
		return nil
	}
	k := n.row
	n.advance()
	return &k
}

// rest ends the questions, and gives the rows that answered none.
func (n *noneRows) rest() []string {
	if !n.begun {
		n.advance()
	}
	for n.more && len(n.stale) < scanStamps {
		n.pass()
	}
	return n.stale
}

// writeNoPages writes those that were read.
func (s *scanner) writeNoPages(e *edit) error {
	for _, k := range s.none {
		row := noPage{Stamp: k.Stamp.Append(nil), Reason: k.Reason, Broken: k.Err != nil, Since: envelope.At(s.began), Read: s.began}
		key := noPageKey(s.journal.coll, k.Location)
		var old noPage
		if known, err := durable.ReadJSON(e.batch, key, &old); err != nil {
			return err
		} else if known && old.Reason == row.Reason {
			row.Since = old.Since
		}
		if err := durable.WriteJSON(e.batch.Batch, key, row); err != nil {
			return err
		}
	}
	clear(s.none)
	s.none = s.none[:0]
	return nil
}

// forgetNoPages takes away the rows of files that are gone, or give a page now: up
// to scanStamps of them; what is left is for the next scan.
func (s *scanner) forgetNoPages() error {
	if !s.verifying {
		return s.forgetStale()
	}
	snapshot, err := s.journal.store.Snapshot()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	b := s.journal.store.NewBatch()
	defer b.Close()
	n := 0
	err = noPageRows(snapshot, s.journal.coll, func(location string, row noPage) (bool, error) {
		if row.Read.Equal(s.began) {
			return true, nil
		}
		n++
		return n < scanStamps, b.Delete(noPageKey(s.journal.coll, location))
	})
	if err != nil || n == 0 {
		return err
	}
	return b.Commit()
}

// forgetStale takes away those that answered nothing in a scan by stamps.
func (s *scanner) forgetStale() error {
	if len(s.stale) == 0 {
		return nil
	}
	b := s.journal.store.NewBatch()
	defer b.Close()
	for _, location := range s.stale {
		key := noPageKey(s.journal.coll, location)
		var row noPage
		known, err := durable.ReadJSON(b, key, &row)
		if err == nil && known && !row.Read.Equal(s.began) {
			err = b.Delete(key)
		}
		if err != nil {
			return err
		}
	}
	return b.Commit()
}

// brokenFiles yields the files of a collection that cannot be a page as they are,
// behind the row after, or all if it is nil, with the keys of their rows.
func (j journal) brokenFiles(r durable.Reader, after []byte, yield func(key []byte, l DeadLetter) (bool, error)) error {
	return noPageRows(r, j.coll, func(location string, n noPage) (bool, error) {
		key := noPageKey(j.coll, location)
		if !n.Broken || bytes.Compare(key, after) <= 0 {
			return true, nil
		}
		return yield(key, DeadLetter{Collection: j.coll, Location: location, Reason: n.Reason, Since: n.Since})
	})
}
