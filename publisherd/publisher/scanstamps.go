package publisher

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// defaultVerify is how often all files of a folder are read, whatever the file
// system says of them.
const defaultVerify = 24 * time.Hour

// A stamper is a reader whose pages are files: those that have not moved since
// they were read need not be read again.
type stamper interface {
	PagesSince(ctx context.Context, known func(location string) ([32]byte, bool),
		kept func(location string, now content.Stamp) content.Kept, skip func(content.Skipped)) iter.Seq2[content.Page, error]
}

// The row of a location is the hash of its page's URL and, once the file was at
// rest when it was read, its stamp: the page's row was made of the file as it was
// under that stamp (TestAnEditIsFoundHoweverItIsHidden).
func locationRow(h [32]byte, s content.Stamp) []byte {
	if s == (content.Stamp{}) {
		return h[:]
	}
	return s.Append(h[:])
}

// locatedOf reads the row of a location.
func locatedOf(location string, row []byte) (located, error) {
	l := located{location: location}
	if copy(l.h[:], row) < len(l.h) {
		return l, errors.New("the row of a location is cut short")
	}
	var err error
	if rest := row[len(l.h):]; len(rest) > 0 {
		l.stamp, err = content.ParseStamp(rest)
	}
	return l, err
}

// verified is the row of the last scan that read every file.
type verified struct {
	At time.Time `json:"at"`
}

func verifiedKey(coll string) []byte { return rowKey('J', coll, 'v') }

// readStamped begins to read a folder: every file if that is due, and else those
// whose stamp has moved. A clock that was moved back makes it due.
func (s *scanner) readStamped(ctx context.Context, source stamper, r durable.Reader, known func(string) ([32]byte, bool), fresh bool) (iter.Seq2[content.Page, error], error) {
	var last verified
	found, err := durable.ReadJSON(r, verifiedKey(s.journal.coll), &last)
	if err != nil {
		return nil, err
	}
	age := s.began.Sub(last.At)
	if s.verifying = fresh || !found || age < 0 || age >= s.verify; s.verifying {
		return source.PagesSince(ctx, known, nil, s.skip), nil
	}
	return func(yield func(content.Page, error) bool) {
		pages, stop := iter.Pull2(s.locations(r))
		defer stop()
		others, stop := iter.Pull2(s.noPages(r))
		defer stop()
		page, other := pageRows(pages), noneRows{next: others}
		kept := func(location string, now content.Stamp) content.Kept {
			if page(location, now) {
				return content.Kept{Page: true}
			}
			return content.Kept{Skipped: other.at(location, now)}
		}
		for p, err := range source.PagesSince(ctx, known, kept, s.skip) {
			if !yield(p, err) || err != nil {
				return
			}
		}
		s.stale = other.rest()
	}, nil
}

// pageRows answers by rows that ascend by location, as the questions do, whether a
// page's file has not moved. A row that cannot be read is none: whoever merges the
// rows meets it as well.
func pageRows(next func() (located, error, bool)) func(string, content.Stamp) bool {
	row, err, more := next()
	return func(location string, now content.Stamp) bool {
		for more && err == nil && row.location < location {
			row, err, more = next()
		}
		return more && err == nil && row.location == location && row.stamp == now
	}
}

// atRest takes away the stamp of a file that an edit could follow unnoticed.
func (s *scanner) atRest(st content.Stamp) content.Stamp {
	if !st.AtRest(s.began) {
		return content.Stamp{}
	}
	return st
}

// restamp notes the stamp of a file that was read and found to be as before.
func (s *scanner) restamp(old located, now content.Stamp) {
	if now != old.stamp && now != (content.Stamp{}) && old.location != "" {
		old.stamp = now
		s.stamps = append(s.stamps, old)
	}
}

// writeStamps writes the noted ones, but for those of locations that a session
// has found to give another page meanwhile.
func (s *scanner) writeStamps(e *edit) error {
	for _, l := range s.stamps {
		key := rowKey('J', s.journal.coll, 'l', []byte(l.location))
		row, err := e.batch.Get(key)
		if errors.Is(err, durable.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if bytes.HasPrefix(row, l.h[:]) {
			if err := e.batch.Set(key, locationRow(l.h, l.stamp)); err != nil {
				return err
			}
		}
	}
	s.stamps = s.stamps[:0]
	return nil
}

// writeVerified notes that every file was read, with all that was found.
func (s *scanner) writeVerified(e *edit) error {
	if !s.verifying {
		return nil
	}
	return durable.WriteJSON(e.batch.Batch, verifiedKey(s.journal.coll), verified{s.began})
}
