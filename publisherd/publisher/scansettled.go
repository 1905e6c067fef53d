package publisher

import (
	"context"
	"iter"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// recheck is after how long a sitemap is read although its server would say
// that it has not changed: what stands beside it, such as the policy, may have.
const recheck = 24 * time.Hour

// settled is the row of a sitemap all of whose pages are in the journal. It is
// gone as soon as a commit takes pages of another sitemap in, or a page has to
// be looked at again, and is written when a scan has come to its end: whatever
// happens between, the sitemap is fetched again, and no page passed over
// (TestAnInterruptedScanFetchesTheSitemapAgain).
type settled struct {
	URL      string    `json:"url"`
	ETag     string    `json:"etag"` // of the body that was read
	Modified time.Time `json:"modified,omitzero"`
	At       time.Time `json:"at"`
}

func settledKey(coll string) []byte { return rowKey('J', coll, 's') }

// sitemapMemory holds the validators of one sitemap. It belongs to the
// goroutine that scans.
type sitemapMemory struct {
	url  string
	held tct.Held
	ok   bool
}

func (m *sitemapMemory) Lookup(url string) (tct.Held, bool) { return m.held, m.ok && url == m.url }

func (m *sitemapMemory) Keep(url string, h tct.Held) error {
	m.url, m.held, m.ok = url, h, h.ETag != "" || !h.Modified.IsZero()
	return nil
}

func (m *sitemapMemory) Forget(string) error {
	*m = sitemapMemory{}
	return nil
}

// A tctReader is a TCT source on a server.
type tctReader struct {
	*tct.Source
	memory *sitemapMemory
}

// A teller is a reader whose source may say something about purposes.
type teller interface{ Told() content.Told }

// recall tells the reader what is settled; nil if nothing is.
func (r *tctReader) recall(s *settled) {
	*r.memory = sitemapMemory{}
	if s != nil {
		*r.memory = sitemapMemory{s.URL, tct.Held{ETag: s.ETag, Modified: s.Modified}, true}
	}
}

// learnt is what is settled once all pages are in the journal; nil if the
// sitemap has to be read again.
func (r *tctReader) learnt(now time.Time) *settled {
	if !r.memory.ok {
		return nil
	}
	return &settled{r.memory.url, r.memory.held.ETag, r.memory.held.Modified, now}
}

// readPages begins to read the source, by what is settled unless all is to be read
// afresh.
func (s *scanner) readPages(ctx context.Context, r durable.Reader, known func(string) ([32]byte, bool), fresh bool) (iter.Seq2[content.Page, error], error) {
	if folder, ok := s.source.(stamper); ok {
		return s.readStamped(ctx, folder, r, known, fresh)
	}
	t, ok := s.source.(*tctReader)
	if !ok {
		return s.source.Pages(ctx, known, s.skip), nil
	}
	var old settled
	found, err := durable.ReadJSON(r, settledKey(s.journal.coll), &old)
	if err != nil {
		return nil, err
	}
	age := s.now().Sub(old.At)
	h, err := s.journal.head(r)
	if err != nil {
		return nil, err
	}
	s.settled, s.revision = found, h.Revision
	if found && !fresh && age >= 0 && age < recheck {
		t.recall(&old)
	} else {
		t.recall(nil)
	}
	return t.Pages(ctx, known, s.skip), nil
}

// begin notes whether something else than this scan has changed the journal,
// and makes sure that a commit of pages does not leave the row of another
// sitemap behind.
func (s *scanner) begin(e *edit) error {
	s.disturbed = s.disturbed || e.head.Revision != s.revision
	if !s.settled {
		return nil
	}
	s.settled = false
	return e.batch.Delete(settledKey(s.journal.coll))
}

// commit ends an edit of this scan.
func (s *scanner) commit(e *edit) error {
	s.revision = e.head.Revision
	return e.commit()
}

// settle writes the row, after everything that the scan found was committed. It
// does not if a session found meanwhile that a page is another than was read.
func (s *scanner) settle() error {
	t, ok := s.source.(*tctReader)
	if !ok {
		return nil
	}
	row := t.learnt(s.now())
	e, err := s.journal.edit()
	if err != nil {
		return err
	}
	defer e.batch.Close()
	had := s.settled
	if err := s.begin(e); err != nil {
		return err
	}
	if row == nil || s.disturbed {
		if !had {
			return nil
		}
		return s.commit(e)
	}
	if err := durable.WriteJSON(e.batch.Batch, settledKey(s.journal.coll), *row); err != nil {
		return err
	}
	return s.commit(e)
}

// state keeps what the source says about purposes, before the first of its
// pages is in the journal.
func (s *scanner) state() error {
	t, ok := s.source.(teller)
	if !ok || s.stated || s.keep == nil {
		return nil
	}
	s.stated = true
	return s.keep(t.Told().Preferences)
}
