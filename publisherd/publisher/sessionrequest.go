package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// maxAsked is the most pages of one request.
const maxAsked = 256

// How long a push waits for requests once everything is signalled: for the next
// one, and for all of them.
const (
	attendQuiet = 3 * time.Second
	attendMost  = time.Minute
)

// askedPause keeps a session whose collection is still being scanned for the first
// time from looking all the time whether it can answer.
const askedPause = 100 * time.Millisecond

var errQuiet = errors.New("nothing was asked for")

// asking is what the indexer of a session asks for, by series. There is at most
// one request of a series, so that what waits here is bounded by the series that
// were announced.
type asking struct {
	requests  map[string]*oiv1.ContentRequest // not answered to their end
	cancelled map[string]uint64               // ids of those that were taken back
	wanted    map[string]uint64               // pages that it means to ask for
	violated  error                           // what the protocol does not allow
	answered  bool                            // the last frame of an answer was sent
}

func (q *asking) want(series string, n uint64) {
	if q.wanted == nil {
		q.wanted = make(map[string]uint64)
	}
	q.wanted[series] = n
}

// byItself takes note of a frame that the indexer may send at any time, and
// reports whether it is one. What it asks for is served by who pushes.
func (s *session) byItself(f *oiv1.IndexerFrame) bool {
	switch {
	case f.GetAcknowledgements() != nil:
		s.told = true // the next push hears of what
	case f.GetContentRequest() != nil:
		s.asked(f.GetContentRequest())
	case f.GetContentCancel() != nil:
		if q := f.GetContentCancel(); s.asking.requests[q.Series].GetId() == q.Id {
			s.asking.cancelled[q.Series] = q.Id
		}
	default:
		return false
	}
	return true
}

// asked keeps a request until it is answered.
func (s *session) asked(q *oiv1.ContentRequest) {
	announced := slices.ContainsFunc(s.rels, func(r *Relationship) bool { return r.Series == q.Series })
	switch {
	case !announced || s.refused[q.Series] != nil:
		s.asking.violated = s.violation("it asks for pages of series %.80q, which was not announced to it", q.Series)
	case s.asking.requests[q.Series] != nil:
		s.asking.violated = s.violation("it asks for pages of series %s before its last request is answered", q.Series)
	case q.Id == 0:
		s.asking.violated = s.violation("a request without a number")
	default:
		if s.asking.requests == nil {
			s.asking.requests, s.asking.cancelled = make(map[string]*oiv1.ContentRequest), make(map[string]uint64)
		}
		if len(q.Urls) > maxAsked {
			q.Urls = q.Urls[: maxAsked+1 : maxAsked+1] // it is refused, and not kept whole
		}
		s.asking.requests[q.Series] = q
	}
}

// answerAsked answers what the indexer asked for of one series, if it did.
func (s *session) answerAsked(ctx context.Context, rel *Relationship, col *collection, report *Result) error {
	defer func() { report.Waiting = s.asking.wanted[rel.Series] }()
	q := s.asking.requests[rel.Series]
	if q == nil {
		return nil
	}
	answer, err := s.serve(ctx, agreement{s.p.store, rel}, col, q, report)
	if err != nil {
		return err
	}
	delete(s.asking.requests, rel.Series)
	delete(s.asking.cancelled, rel.Series)
	// Signals may have been acknowledged since it was asked.
	wanted := s.asking.wanted[rel.Series]
	s.asking.want(rel.Series, max(q.Left, wanted-min(wanted, uint64(len(q.Urls)))))
	s.asking.answered = true
	return s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ContentAnswer{ContentAnswer: answer}})
}

// mayAsk refuses a request that the grant does not allow, or that no honest
// indexer makes.
func (a agreement) mayAsk(q *oiv1.ContentRequest) *Refused {
	seen := make(map[string]bool, len(q.Urls))
	for _, u := range q.Urls {
		seen[u] = true
	}
	switch {
	case !a.rel.Pair.Grant.Body.Mode.Asks():
		return &Refused{Reason: grants.ErrPushOnly, Detail: "what has changed is sent without being asked for"}
	case len(q.Urls) > maxAsked:
		return &Refused{Reason: grants.ErrOversize, Detail: fmt.Sprintf("more than %d pages at once", maxAsked)}
	case len(q.Urls) == 0 || len(seen) != len(q.Urls):
		return &Refused{Reason: grants.ErrMalformed, Detail: "no page, or one twice"}
	}
	return nil
}

func (r *Refused) fault() *oiv1.Fault {
	return &oiv1.Fault{Reason: string(r.Reason), Detail: r.Detail, RetryMs: r.RetryMS}
}

// An askedPage is a page of a request that may be sent.
type askedPage struct {
	place uint32 // in the request
	h     [32]byte
	row   pageRow
}

// serve sends the pages of a request, in batches that move no cursor, and gives
// the frame that ends the answer. An error ends the session: then the indexer
// asks again in the next one, and what was committed is known by its receipt.
func (s *session) serve(ctx context.Context, a agreement, col *collection, q *oiv1.ContentRequest, report *Result) (*oiv1.ContentAnswer, error) {
	answer := &oiv1.ContentAnswer{Series: q.Series, Id: q.Id}
	if r := a.mayAsk(q); r != nil {
		answer.Refused = r.fault()
		return answer, nil
	}
	if err := a.countAsked(len(q.Urls)); err != nil {
		return nil, err
	}
	report.Asked += len(q.Urls)
	c, err := a.cursor(s.p.store)
	if err != nil {
		return nil, err
	}
	d, err := s.newDrafter(a, col, c.Acked, 0)
	if err != nil {
		return nil, err
	}
	pages, err := d.choose(q, c.Acked, answer)
	if err != nil {
		return nil, err
	}
	sent, err := s.deliverAsked(ctx, a, c, d, q, answer, report)
	if err != nil || answer.Refused != nil {
		return answer, err
	}
	for _, p := range pages {
		if !sent[p.row.URL] { // its source has moved on
			answer.Refusals = append(answer.Refusals, &oiv1.ContentRefusal{Page: p.place, Reason: string(grants.ErrChanged)})
		}
	}
	return answer, nil
}

func (a agreement) countAsked(n int) error {
	b := a.store.NewBatch()
	defer b.Close()
	return errors.Join(a.count(b, askedCount{Asked: uint64(n)}), b.Commit())
}

// choose has the drafter read only the pages of a request that may be sent, and
// refuses the others in the answer.
func (d *drafter) choose(q *oiv1.ContentRequest, through uint64, answer *oiv1.ContentAnswer) ([]askedPage, error) {
	var pages []askedPage
	d.resend = make(map[[32]byte]bool, len(q.Urls))
	for i, url := range q.Urls {
		p := askedPage{place: uint32(i), h: urlHash(url)}
		row, known, err := d.journal.page(d.agreed.store, p.h)
		if err != nil {
			return nil, err
		}
		p.row = row
		if why := d.withholds(url, row, known, through); why != "" {
			answer.Refusals = append(answer.Refusals, &oiv1.ContentRefusal{Page: p.place, Reason: string(why)})
			continue
		}
		d.resend[p.h] = true
		pages = append(pages, p)
	}
	slices.SortFunc(pages, func(x, y askedPage) int { return cmp.Compare(x.row.Revision, y.row.Revision) })
	d.rows = func(_ durable.Reader, from uint64, yield func([32]byte, pageRow) (bool, error)) error {
		for _, p := range pages {
			if p.row.Revision <= from {
				continue
			}
			if more, err := yield(p.h, p.row); err != nil || !more {
				return err
			}
		}
		return nil
	}
	return pages, nil
}

// withholds is why a page is not sent to who asks for it; empty if it is. Its
// revision has to be one that the cursor has passed: what is newer is signalled,
// or sent, first.
func (d *drafter) withholds(url string, row pageRow, known bool, through uint64) grants.Reason {
	if err := d.agreed.rel.Match(url); err != nil {
		return cmp.Or(grants.ReasonOf(err), grants.ErrScope)
	}
	if !known || row.Deleted {
		return grants.ErrNotHeld
	}
	_, member := d.members.lookup(url, row.Digest)
	switch {
	case !member:
		return grants.ErrScope
	case row.denies(d.agreed.rel.Pair.Grant.Body.Purposes):
		return grants.ErrPolicy
	case row.Revision > through:
		return grants.ErrChanged
	case uint64(row.Size) > d.maxPage():
		return grants.ErrOversize
	case d.pace.never(row.Size):
		return grants.ErrLimit
	}
	return ""
}

// deliverAsked sends what was chosen, batch by batch, until all is sent, the
// request is taken back, or a limit of the grant stands in the way; the last two
// are told in the answer.
func (s *session) deliverAsked(ctx context.Context, a agreement, c cursor, d *drafter, q *oiv1.ContentRequest, answer *oiv1.ContentAnswer, report *Result) (map[string]bool, error) {
	sent := make(map[string]bool, len(q.Urls))
	for from, last := uint64(0), len(d.resend) == 0; !last; {
		if s.asking.cancelled[q.Series] == q.Id {
			answer.Refused = (&Refused{Reason: grants.ErrCancelled}).fault()
			return sent, nil
		}
		dr, err := d.next(ctx, from, 0) // which moves no cursor: revisions count from 0
		if err != nil {
			return sent, err
		}
		dr.answers = q.Id
		from, last = dr.through, dr.last
		if len(dr.items) > 0 {
			c, err = s.offerAsked(ctx, a, c, dr, report)
			if dr.alone != nil {
				d.giveBack()
			}
		}
		if err == nil && dr.spent {
			err = s.stopForToday(a)
		}
		var refused *Refused
		if errors.As(err, &refused) && (refused.Reason == grants.ErrLimit || refused.Reason == grants.ErrQuota) {
			answer.Refused = refused.fault()
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
		for _, it := range dr.items {
			sent[it.URL] = true
		}
	}
	return sent, nil
}

// offerAsked sends a batch that moves no cursor: an answer, or deletions.
func (s *session) offerAsked(ctx context.Context, a agreement, c cursor, dr *draft, report *Result) (cursor, error) {
	dr.request, dr.through = c.Request+1, c.Acked
	return s.paced(ctx, a, dr, func() (cursor, error) { return s.offerOne(ctx, a, c, dr, report) })
}

// A rowReader yields rows of a journal behind a revision, ascending.
type rowReader func(r durable.Reader, from uint64, yield func(h [32]byte, row pageRow) (bool, error)) error

// changes yields the rows that the next draft is made of.
func (d *drafter) changes(r durable.Reader, from uint64, yield func(h [32]byte, row pageRow) (bool, error)) error {
	if d.rows != nil {
		return d.rows(r, from, yield)
	}
	return d.journal.changes(r, from, d.target, yield)
}

// attend answers what the indexer still asks for when everything is signalled,
// for a while, and notes in the results how much it leaves.
func (s *session) attend(ctx context.Context, rels []*Relationship, scans map[string]*scanned, all []Result) []error {
	until := time.Now().Add(attendMost)
	for s.awaits(all, rels) && time.Now().Before(until) {
		var err error
		if len(s.asking.requests) == 0 {
			quiet, cancel := context.WithTimeoutCause(ctx, attendQuiet, errQuiet)
			err = s.listen(quiet)
			cancel()
		}
		if errors.Is(err, errQuiet) {
			return nil
		}
		for i := range all {
			if err == nil && s.asking.requests[rels[i].Series] != nil {
				err = s.attendOne(ctx, rels[i], scans[rels[i].Collection], &all[i])
			}
		}
		if err != nil {
			return []error{fmt.Errorf("%s: %w", s.name(), s.p.judged(rels, err))}
		}
	}
	return nil
}

// awaits reports whether the indexer means to ask for more.
func (s *session) awaits(all []Result, rels []*Relationship) bool {
	for i := range all {
		all[i].Waiting = s.asking.wanted[rels[i].Series]
	}
	return slices.ContainsFunc(all, func(r Result) bool { return r.Waiting > 0 })
}

// attendOne answers one request, and adds what came of it to a result.
func (s *session) attendOne(ctx context.Context, rel *Relationship, sc *scanned, all *Result) error {
	start := time.Now()
	next := *all
	next.Sent, next.Patched, next.Deleted, next.Signalled, next.Asked, next.Probes = 0, 0, 0, 0, 0, 0
	next.Refused, next.RefusedCount, next.Receipts, next.Unshown, next.Handshake = nil, 0, nil, nil, 0
	err := s.answerAsked(ctx, rel, sc.col, &next)
	if err == nil {
		err = s.follow(rel, &next)
	}
	next.WireOut, next.WireIn, next.RoundTrips = s.wire.out.Swap(0), s.wire.in.Swap(0), s.wire.trips.Swap(0)
	next.Seconds = time.Since(start).Seconds()
	*all = all.plus(next)
	return err
}
