package indexer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// Times of asking.
const (
	askEvery = time.Second      // how often the queues are looked at, if nothing wakes
	askAgain = 30 * time.Second // before a series is asked for what it left out without a reason
	// askLimited bounds how long a limit of the grant keeps a series from being
	// asked: a day, and what two clocks may differ by.
	askLimited = 25 * time.Hour
)

// An asker asks for pages over one session: of each series one request at a time.
// Between two looks at the queues it is a timer and no goroutine.
type asker struct {
	// turnMu guards what is below it.
	turnMu  sync.Mutex
	timer   *time.Timer // nil until it begins
	looking bool        // a look is under way
	again   bool        // and another is to follow it
	over    bool
	looks   sync.WaitGroup // those under way; none is added once over

	// outMu guards out, until, full and last.
	outMu sync.Mutex
	out   map[string]*request  // under way, by series
	until map[string]time.Time // series that are left alone for a while
	full  map[string]*fullness // of those that are, because there is no room
	last  uint64               // id of the last request
}

// A request is one that was sent and is not answered to its end.
type request struct {
	id        uint64
	urls      []string
	open      map[string]bool // that did not come
	through   uint64          // the cursor when it was sent
	moved     time.Time       // when it was sent, or last brought something
	cancelled bool
}

func newAsker() *asker {
	return &asker{out: make(map[string]*request), until: make(map[string]time.Time), full: make(map[string]*fullness)}
}

// nudge has it look now. It does not wait for that.
func (a *asker) nudge() {
	a.turnMu.Lock()
	defer a.turnMu.Unlock()
	switch {
	case a.timer == nil || a.over:
	case a.looking:
		a.again = true
	default:
		a.timer.Reset(0)
	}
}

// begin has look called, at once and whenever it says or a nudge does, until it says
// that it was the last, or stop is called.
func (a *asker) begin(look func() (wait time.Duration, more bool)) {
	a.turnMu.Lock()
	defer a.turnMu.Unlock()
	a.timer = time.AfterFunc(0, func() {
		if !a.enter() {
			return
		}
		defer a.looks.Done()
		for {
			wait, more := look()
			if !a.leave(wait, more) {
				return
			}
		}
	})
}

// enter reports whether a look may begin.
func (a *asker) enter() bool {
	a.turnMu.Lock()
	defer a.turnMu.Unlock()
	if a.over || a.looking {
		a.again = a.looking
		return false
	}
	a.looking = true
	a.looks.Add(1)
	return true
}

// leave ends a look, and reports whether another follows at once.
func (a *asker) leave(wait time.Duration, more bool) bool {
	a.turnMu.Lock()
	defer a.turnMu.Unlock()
	a.over = a.over || !more
	again := a.again && !a.over
	a.again, a.looking = false, again
	if !again && !a.over {
		a.timer.Reset(wait)
	}
	return again
}

// stop ends the asking; on return no look is under way. The link is closed before,
// so that a look does not wait for room in it.
func (a *asker) stop() {
	a.turnMu.Lock()
	a.over = true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.turnMu.Unlock()
	a.looks.Wait()
}

// awaits reports whether a page was asked for by the request and did not come.
func (a *asker) awaits(series string, id uint64, url string) bool {
	a.outMu.Lock()
	defer a.outMu.Unlock()
	q := a.out[series]
	return q != nil && q.id == id && q.open[url]
}

// came notes pages of a request that are committed.
func (a *asker) came(series string, id uint64, urls []string) {
	a.outMu.Lock()
	defer a.outMu.Unlock()
	q := a.out[series]
	if q == nil || q.id != id {
		return
	}
	q.moved = time.Now()
	for _, u := range urls {
		delete(q.open, u)
	}
}

// asksForContent reports whether a grant of the session lets the indexer ask.
func (s *session) asksForContent() bool {
	for _, h := range s.live {
		if h.pair.Grant.Body.Mode.Asks() {
			return true
		}
	}
	return false
}

// ask asks for what is wanted until ctx ends, or the session is to end.
func (s *session) ask(ctx context.Context) {
	s.asks.begin(func() (time.Duration, bool) {
		if s.turn.Err() != nil { // it ends with ctx
			return 0, false
		}
		wait, err := s.askAll(ctx)
		if err != nil && !errors.Is(err, link.ErrClosed) && ctx.Err() == nil {
			s.x.log.Error("asking for pages", "publisher", s.peer.Card.Identity, "error", err)
		}
		return wait, true
	})
}

// forget counts what was under way when the session ended as not under way.
func (s *session) forget() {
	s.asks.outMu.Lock()
	defer s.asks.outMu.Unlock()
	for _, q := range s.asks.out {
		s.x.asks.flying.Add(-int64(len(q.urls)))
	}
	clear(s.asks.out)
}

// askAll sends the requests that are due, and says when to look again.
func (s *session) askAll(ctx context.Context) (time.Duration, error) {
	settings := *s.x.requests.Load()
	if settings.Rate < 0 {
		return askEvery, nil
	}
	limiter := s.x.asks.limiter(s.peer.Card.Identity, settings)
	for _, name := range slices.Sorted(maps.Keys(s.live)) {
		h := s.live[name]
		if !h.pair.Grant.Body.Mode.Asks() {
			continue
		}
		if err := s.roomAgain(name); err != nil {
			return askEvery, err
		}
		room := s.x.store.Room() == nil
		free, err := s.free(ctx, name, room)
		if err != nil {
			return askEvery, err
		}
		if !room || free == 0 || inForce(s.x.store, h.pair, s.x.cfg.Now()) != nil {
			continue
		}
		n := min(free, int(limiter.TokensAt(time.Now())))
		if n < 1 {
			return min(askEvery, time.Duration(float64(time.Second)/settings.Rate)), nil
		}
		if n, err = s.askOne(ctx, h, n); err != nil {
			return askEvery, err
		}
		limiter.AllowN(time.Now(), n)
	}
	return askEvery, nil
}

// free is how many pages of a series may be asked for now. A request that brings
// nothing for too long, or for which there is no room any more, is taken back; a
// publisher that does not answer even that is let go.
func (s *session) free(ctx context.Context, series string, room bool) (int, error) {
	a, settings := s.asks, s.x.requests.Load()
	a.outMu.Lock()
	flying := 0
	for _, q := range a.out {
		flying += len(q.urls)
	}
	q, until := a.out[series], a.until[series]
	late := q != nil && time.Since(q.moved) > settings.Timeout
	take := q != nil && !q.cancelled && (late || !room)
	lost := q != nil && q.cancelled && late
	if take {
		q.cancelled, q.moved = true, time.Now()
	}
	a.outMu.Unlock()
	switch {
	case lost:
		// Not end: it would race with the Fault that tells why.
		s.self.finish(refuse(grants.ErrMalformed, "a request that was taken back is not answered"))
		return 0, nil
	case take:
		s.x.asks.cancelled.Add(1)
		return 0, s.link.Urgent(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_ContentCancel{ContentCancel: &oiv1.ContentCancel{Series: series, Id: q.id}}})
	case q != nil || time.Now().Before(until):
		return 0, nil
	}
	return max(0, settings.Pages-flying), nil
}

// askOne asks for up to n pages of a series, and gives how many it asked for.
// What the grant does not hold any more is dropped.
func (s *session) askOne(ctx context.Context, h *held, n int) (int, error) {
	rec, err := readSeries(s.x.store, h.rec.Publisher, h.rec.Series)
	if err != nil || rec == nil || rec.Wanted == 0 || rec.Deletions > 0 {
		return 0, err
	}
	urls, gone, err := s.choose(rec, h.pair, n)
	if err == nil && len(gone) > 0 {
		err = s.x.tlog.Commit(ctx, &dropping{s.x, rec.Publisher, rec.Series, gone, rec.Revision})
	}
	if err != nil || len(urls) == 0 {
		return 0, err
	}
	q := &request{urls: urls, open: make(map[string]bool, len(urls)), through: rec.Revision, moved: time.Now()}
	for _, u := range urls {
		q.open[u] = true
	}
	s.asks.outMu.Lock()
	s.asks.last++
	q.id = s.asks.last
	s.asks.out[rec.Series] = q // before it is sent: the answer finds it
	s.asks.outMu.Unlock()
	s.x.asks.asked.Add(uint64(len(urls)))
	s.x.asks.flying.Add(int64(len(urls)))
	return len(urls), s.link.Send(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_ContentRequest{ContentRequest: &oiv1.ContentRequest{
		Series: rec.Series, Id: q.id, Urls: urls, Left: rec.Wanted - min(rec.Wanted, uint64(len(urls)+len(gone))),
	}}})
}

// choose takes the first n pages of the queue that the grant holds, and the
// others before them.
func (s *session) choose(rec *seriesRecord, pair grants.Pair, n int) (urls, gone []string, err error) {
	revs, err := revocationsOf(s.x.store, pair.Grant)
	if err != nil {
		return nil, nil, err
	}
	err = rec.eachWanted(s.x.store, s.x.requests.Load().Oldest, func(_ []byte, p *wantedPage) (bool, error) {
		if pair.Grant.Body.Scope.Match(p.URL) != nil || errRevokedPage(pair.Grant, revs, p.URL) != nil {
			gone = append(gone, p.URL)
		} else {
			urls = append(urls, p.URL)
		}
		return len(urls) < n && len(gone) < maxSignals, nil
	})
	return urls, gone, err
}

// contentAnswer ends a request. A page that was refused for good is dropped: the
// publisher signals it again when there is more to say.
func (s *session) contentAnswer(ctx context.Context, f *oiv1.ContentAnswer) error {
	q, err := s.ended(f)
	if err != nil {
		return err
	}
	s.x.asks.flying.Add(-int64(len(q.urls)))
	var gone []string
	for _, r := range f.Refusals {
		url := q.urls[r.Page]
		delete(q.open, url)
		switch reason := grants.Reason(r.Reason); reason {
		case grants.ErrLimit, grants.ErrQuota, grants.ErrExhausted, grants.ErrCancelled:
		default:
			gone = append(gone, url)
		}
	}
	s.x.asks.refused.Add(uint64(len(f.Refusals)))
	if len(f.Refusals) > 0 || f.Refused != nil {
		s.x.log.Info("pages refused", "publisher", s.peer.Card.Identity, "series", f.Series, "pages", len(f.Refusals), "reason", f.Refused.GetReason())
	}
	if err := s.leaveAlone(f, len(q.open)); err != nil {
		return err
	}
	if len(gone) > 0 {
		if err := s.x.tlog.Commit(ctx, &dropping{s.x, s.peer.Card.Identity, f.Series, gone, q.through}); err != nil {
			return err
		}
	}
	s.asks.nudge()
	return nil
}

// ended finds the request that an answer ends, and takes it out.
func (s *session) ended(f *oiv1.ContentAnswer) (*request, error) {
	a := s.asks
	a.outMu.Lock()
	defer a.outMu.Unlock()
	q := a.out[f.Series]
	if q == nil || q.id != f.Id {
		return nil, refuse(grants.ErrMalformed, "an answer to what was not asked")
	}
	seen := make(map[uint32]bool, len(q.urls))
	for _, r := range f.Refusals {
		if r == nil || int(r.Page) >= len(q.urls) || seen[r.Page] || !q.open[q.urls[r.Page]] || r.Reason == "" || len(r.Reason) > 64 {
			return nil, refuse(grants.ErrMalformed, "a refusal of a page that was not asked for, or came, or without a reason")
		}
		seen[r.Page] = true
	}
	delete(a.out, f.Series)
	return q, nil
}

// askSoon has the session of a publisher look at what is wanted.
func (r *registry) askSoon(name envelope.Name) {
	if m := r.of(name); m != nil && m.ask != nil {
		m.ask()
	}
}

// underWay is how many pages of a series are asked for and not answered.
func (r *registry) underWay(rec *seriesRecord) uint64 {
	m := r.of(rec.Publisher)
	if m == nil || m.underWay == nil {
		return 0
	}
	return m.underWay(rec.Series)
}

func (a *asker) underWay(series string) uint64 {
	a.outMu.Lock()
	defer a.outMu.Unlock()
	if q := a.out[series]; q != nil {
		return uint64(len(q.open))
	}
	return 0
}
