package publisher

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A journal is the change feed of one collection: revision → page, one live row
// a page, and hash of the URL → revision. It is compacted as it grows, since a new
// revision of a page takes the place of the page's earlier one. The pages lie in the
// order of their revisions, in which sessions read them: in that of the hashes each
// would be a block of its own.
//
// Scans and sessions write to it side by side, one edit at a time: edits is
// held from edit to commit. A journal that is only read needs none.
type journal struct {
	store *durable.Store
	coll  string
	edits *sync.Mutex
}

// head is where a journal stands.
type head struct {
	Epoch     uint64 `json:"journal_epoch"` // one life of the journal; random
	Revision  uint64 `json:"revision"`      // the highest given
	Pages     uint64 `json:"pages"`         // live ones
	Extractor string `json:"extractor"`     // the version that the rows come from
}

// A pageRow is what the journal knows of a page.
type pageRow struct {
	URL         string
	Location    string
	Source      envelope.Hash // of the source's octets
	Digest      envelope.Hash
	Fingerprint envelope.Hash
	Format      uint8
	Size        int
	Revision    uint64
	Modified    envelope.Time // of the last change of the fingerprint
	Deleted     bool
	Denied      []string // purposes that the page itself denies, ascending

	stamp content.Stamp // goes to the row of Location
}

func urlHash(url string) [32]byte { return sha256.Sum256([]byte(url)) }

// head reads where the journal stands; a new one is given its epoch, which the
// first commit makes durable.
func (j journal) head(r durable.Reader) (head, error) {
	var h head
	ok, err := durable.ReadJSON(r, rowKey('J', j.coll, 'm'), &h)
	if err != nil || ok {
		return h, err
	}
	h.Epoch, err = newJournalEpoch()
	return h, err
}

// newJournalEpoch draws from 1…2^53−1.
func newJournalEpoch() (uint64, error) {
	var b [8]byte
	for {
		if _, err := rand.Read(b[:]); err != nil {
			return 0, err
		}
		if n := binary.BigEndian.Uint64(b[:]) >> 11; n != 0 {
			return n, nil
		}
	}
}

// page is the live row of a page, and whether there is one.
func (j journal) page(r durable.Reader, h [32]byte) (p pageRow, ok bool, err error) {
	revision, err := r.Get(pageKey(j.coll, h))
	if errors.Is(err, durable.ErrNotFound) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	if len(revision) == 8 {
		var row []byte
		if row, err = r.Get(revisionKey(j.coll, binary.BigEndian.Uint64(revision))); err == nil {
			p, err = unpackPage(row)
			ok = true
		} else if errors.Is(err, durable.ErrNotFound) {
			err = nil
		}
	}
	if err == nil && (!ok || urlHash(p.URL) != h) {
		err = fmt.Errorf("journal of %s: page %x without its row", j.coll, h)
	}
	return p, ok, err
}

// has reports whether there is a row of a page, whichever.
func (j journal) has(r durable.Reader, h [32]byte) (bool, error) {
	_, err := r.Get(pageKey(j.coll, h))
	if errors.Is(err, durable.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// edit collects changes of a journal for one commit. It ends with commit, or
// with the batch's Close, and holds up all other edits until then.
type edit struct {
	j     journal
	head  head
	batch *editBatch
}

// An editBatch lets the next edit begin when it is closed.
type editBatch struct {
	*durable.Batch
	unlock func()
}

// Close forgets what was not committed. It may be called more than once.
func (b *editBatch) Close() error {
	defer b.unlock()
	return b.Batch.Close()
}

func (j journal) edit() (*edit, error) {
	j.edits.Lock()
	b := &editBatch{j.store.NewBatch(), sync.OnceFunc(j.edits.Unlock)}
	h, err := j.head(b)
	if err != nil {
		b.Close()
		return nil, err
	}
	return &edit{j, h, b}, nil
}

// rowOf is what the journal is to know of a page that was read.
func rowOf(p content.Page, now time.Time) pageRow {
	return pageRow{
		URL: p.URL, Location: p.Location, Source: p.SourceHash, Digest: p.Digest, Fingerprint: p.Fingerprint,
		Format: uint8(p.Format), Size: len(p.Payload), Modified: envelope.At(now),
		Denied: deniedBy(p), stamp: p.Stamp,
	}
}

// put takes in a page that was read, with the hash of its URL: it gets a new revision if
// its fingerprint or format is new, or what it denies, and only a note of its octets if
// none is. It reports whether there was a change.
func (e *edit) put(h [32]byte, row pageRow) (bool, error) {
	old, known, err := e.j.page(e.batch, h)
	if err != nil {
		return false, err
	}
	row.Revision = old.Revision
	// Times alone make no revision, although they stand in some payloads: an
	// indexer that has the page keeps it as it is, another gets it as it is now.
	same := known && !old.Deleted && old.Fingerprint == row.Fingerprint && old.Format == row.Format
	if same {
		row.Modified = old.Modified
		if slices.Equal(old.Denied, row.Denied) {
			return false, e.set(h, row)
		}
	}
	if !known || old.Deleted {
		e.head.Pages++
	}
	return true, e.revise(h, old, row)
}

// remove tombstones the page that location gave, unless another location
// gives it now.
func (e *edit) remove(location string, h [32]byte) (bool, error) {
	if err := e.batch.Delete(rowKey('J', e.j.coll, 'l', []byte(location))); err != nil {
		return false, err
	}
	old, known, err := e.j.page(e.batch, h)
	if err != nil || !known || old.Deleted || old.Location != location {
		return false, err
	}
	e.head.Pages--
	return true, e.revise(h, old, pageRow{URL: old.URL, Format: old.Format, Deleted: true})
}

// removeStranger gives a page that the journal does not know a tombstone. It looks
// again whether that is so: the session with another indexer may have found the same
// page meanwhile, and every page has one revision.
func (e *edit) removeStranger(h [32]byte, url string, format uint8) error {
	if _, known, err := e.j.page(e.batch, h); err != nil || known {
		return err
	}
	return e.revise(h, pageRow{}, pageRow{URL: url, Format: format, Deleted: true})
}

// revise writes row under the next revision, in place of old's.
func (e *edit) revise(h [32]byte, old, row pageRow) error {
	if old.Revision != 0 {
		if err := e.batch.Delete(revisionKey(e.j.coll, old.Revision)); err != nil {
			return err
		}
	}
	e.head.Revision++
	row.Revision = e.head.Revision
	if err := e.batch.Set(pageKey(e.j.coll, h), binary.BigEndian.AppendUint64(nil, row.Revision)); err != nil {
		return err
	}
	return e.set(h, row)
}

// set writes row in place of the one of its revision.
func (e *edit) set(h [32]byte, row pageRow) error {
	if row.Location != "" {
		if err := e.batch.Set(rowKey('J', e.j.coll, 'l', []byte(row.Location)), locationRow(h, row.stamp)); err != nil {
			return err
		}
	}
	return e.batch.Set(revisionKey(e.j.coll, row.Revision), row.append(nil))
}

// commit makes the edit durable.
func (e *edit) commit() error {
	defer e.batch.Close()
	if err := durable.WriteJSON(e.batch.Batch, rowKey('J', e.j.coll, 'm'), e.head); err != nil {
		return err
	}
	if err := e.batch.Commit(); err != nil {
		return fmt.Errorf("journal of %s: %w", e.j.coll, err)
	}
	return nil
}

// again re-reads one page at send time. If the source has moved on since the
// scan, what it holds now gets a revision of its own, so that the change is
// offered later and the revision being sent is passed over.
func (j journal) again(h [32]byte, p *content.Page, now time.Time) error {
	e, err := j.edit()
	if err != nil {
		return err
	}
	old, known, err := j.page(e.batch, h)
	if err == nil {
		err = e.batch.Delete(settledKey(j.coll)) // the next scan has to look
	}
	if err != nil || !known {
		e.batch.Close()
		return err
	}
	if p != nil && p.URL == old.URL {
		p.Stamp = content.Stamp{} // read in the midst of an edit, it may be
		_, err = e.put(h, rowOf(*p, now))
	} else {
		// The source cannot give the page now; the next scan decides.
		row := old
		row.Source = envelope.Hash{}
		err = e.revise(h, old, row)
	}
	if err != nil {
		e.batch.Close()
		return err
	}
	return e.commit()
}

// changes yields the live rows with revision above from, ascending, up to and
// including to.
func (j journal) changes(r durable.Reader, from, to uint64, yield func(h [32]byte, row pageRow) (bool, error)) error {
	for kv, err := range r.Scan(revisionKey(j.coll, from+1), revisionKey(j.coll, to+1)) {
		if err != nil {
			return err
		}
		row, err := unpackPage(kv.Value)
		if err != nil {
			return fmt.Errorf("journal of %s: row %x: %w", j.coll, kv.Key, err)
		}
		if more, err := yield(urlHash(row.URL), row); err != nil || !more {
			return err
		}
	}
	return nil
}
