package indexer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Requests say how pages are asked for, where grants let this side ask.
type Requests struct {
	// Rate is how many pages a second are asked for, of each publisher; 0 means
	// 50, and below 0 nothing is asked for.
	Rate float64
	// Pages is how many may be asked for and not answered, of each publisher; 0
	// means 64, and more than 256 are 256.
	Pages int
	// Oldest asks in the order of revisions; else the newest comes first.
	Oldest bool
	// Backlog is how many pages of one series are kept to be asked for; beyond it
	// those whose turn is last are dropped. 0 means a million.
	Backlog uint64
	// Timeout is how long a request may bring nothing before it is taken back,
	// and how long the session then has to say so; 0 means 2 minutes.
	Timeout time.Duration
}

// maxAsked is the most pages of one request.
const maxAsked = 256

// SetRequests says how pages are asked for from now on, at any time. Open sessions
// follow.
func (x *Indexer) SetRequests(r Requests) {
	r = r.withDefaults()
	x.requests.Store(&r)
}

func (r Requests) withDefaults() Requests {
	r.Rate = cmp.Or(r.Rate, 50)
	r.Pages = min(cmp.Or(r.Pages, 64), maxAsked)
	r.Backlog = cmp.Or(r.Backlog, 1_000_000)
	r.Timeout = cmp.Or(r.Timeout, 2*time.Minute)
	return r
}

// asks is what all sessions have in common of what is asked for.
type asks struct {
	signals, asked, delivered, refused, cancelled atomic.Uint64 // pages; cancelled counts requests
	flying                                        atomic.Int64  // pages asked for, and not answered

	// byNameMu guards byName and wanted.
	byNameMu sync.Mutex
	byName   map[envelope.Name]*rate.Limiter // outlive sessions: a new one begins nothing anew
	wanted   map[uint32]uint64               // pages, by the number of their series
}

// limiter is the rate at which pages are asked for of a publisher.
func (a *asks) limiter(name envelope.Name, r Requests) *rate.Limiter {
	a.byNameMu.Lock()
	defer a.byNameMu.Unlock()
	l, burst := a.byName[name], max(1, min(r.Pages, int(r.Rate)))
	if l == nil {
		if a.byName == nil {
			a.byName = make(map[envelope.Name]*rate.Limiter)
		}
		l = rate.NewLimiter(rate.Limit(r.Rate), burst)
		a.byName[name] = l
	}
	if l.Limit() != rate.Limit(r.Rate) || l.Burst() != burst {
		l.SetLimit(rate.Limit(r.Rate))
		l.SetBurst(burst)
	}
	return l
}

// note takes note of how many pages are wanted of a series.
func (a *asks) note(rec *seriesRecord) {
	a.byNameMu.Lock()
	defer a.byNameMu.Unlock()
	if a.wanted == nil {
		a.wanted = make(map[uint32]uint64)
	}
	a.wanted[rec.SID] = rec.Wanted
}

// AskFigures are what an operator watches of what is asked for.
type AskFigures struct {
	Signals, Asked, Delivered, Refused, Cancelled, Wanted, Flying uint64
}

func (a *asks) figures() AskFigures {
	f := AskFigures{
		Signals: a.signals.Load(), Asked: a.asked.Load(), Delivered: a.delivered.Load(), Refused: a.refused.Load(),
		Cancelled: a.cancelled.Load(), Flying: uint64(max(0, a.flying.Load())),
	}
	a.byNameMu.Lock()
	defer a.byNameMu.Unlock()
	for _, n := range a.wanted {
		f.Wanted += n
	}
	return f
}

// A Wish is a page that is to be asked for, as `indexerd ask` prints it.
type Wish struct {
	Publisher  envelope.Name `json:"publisher"`
	Series     string        `json:"series"`
	Collection string        `json:"collection"`
	URL        string        `json:"url"`
	Wanted     uint64        `json:"wanted"` // pages of the series, with this one
}

// Ask has a page asked for, before everything that was signalled, of each
// publisher whose grant lets this side ask for it. It is durable on return.
func (x *Indexer) Ask(ctx context.Context, url string) ([]Wish, error) {
	recs, err := seriesOf(x.store, "")
	if err != nil {
		return nil, err
	}
	why := refuse(grants.ErrNoGrant, "no grant covers %.200q", url)
	var all []Wish
	for _, rec := range recs {
		p := &wishing{x: x, publisher: rec.Publisher, series: rec.Series, url: url}
		err := x.tlog.Commit(ctx, p)
		switch {
		case err == nil:
			all = append(all, Wish{rec.Publisher, rec.Series, rec.Collection, url, p.rec.Wanted})
			x.sessions.askSoon(rec.Publisher)
		case grants.ReasonOf(err) == "":
			return all, err
		case p.covered:
			why = err
		}
	}
	if len(all) == 0 {
		return nil, why
	}
	return all, nil
}

// A wishing is the proposal of one page that the operator asks for.
type wishing struct {
	x           *Indexer
	publisher   envelope.Name
	series, url string
	covered     bool // the series is for such pages
	rec         *seriesRecord
}

// Prepare looks at the grant, and queues the page.
func (p *wishing) Prepare(tx *translog.Tx) error {
	b := tx.Batch()
	rec, err := readSeries(b, p.publisher, p.series)
	if err != nil {
		return err
	}
	if rec == nil {
		return refuse(grants.ErrNoGrant, "the series is gone")
	}
	pair, err := readPair(b, rec)
	if err != nil {
		return err
	}
	if err := pair.Grant.Body.Scope.Match(p.url); err != nil {
		return err
	}
	p.covered = true
	if err := inForce(b, pair, tx.Now()); err != nil {
		return err
	}
	revs, err := revocationsOf(b, pair.Grant)
	if err != nil {
		return err
	}
	if err := errRevokedPage(pair.Grant, revs, p.url); err != nil {
		return err
	}
	switch {
	case !pair.Grant.Body.Mode.Asks():
		return refuse(grants.ErrPushOnly, "grant %s", rec.Grant.ID)
	case rec.Wanted >= p.x.requests.Load().Backlog:
		return refuse(grants.ErrExhausted, "%d pages of series %s are wanted already", rec.Wanted, rec.Series)
	}
	rec.Wishes++
	if err := rec.want(b, classAsked, rec.Wishes, wantedPage{URL: p.url}); err != nil {
		return err
	}
	p.rec = rec
	p.x.asks.note(rec)
	return rec.write(b)
}

// Finish has nothing to add.
func (p *wishing) Finish(*translog.Tx, *translog.Committed) error { return nil }

// A dropping is the proposal that takes pages out of a queue that do not come.
type dropping struct {
	x         *Indexer
	publisher envelope.Name
	series    string
	urls      []string
	through   uint64 // what was signalled again since stays
}

// Prepare drops them.
func (p *dropping) Prepare(tx *translog.Tx) error {
	rec, err := readSeries(tx.Batch(), p.publisher, p.series)
	if err != nil || rec == nil {
		return err
	}
	for _, url := range p.urls {
		if _, err := rec.unwant(tx.Batch(), sha256.Sum256([]byte(url)), p.through); err != nil {
			return err
		}
	}
	p.x.asks.note(rec)
	return rec.write(tx.Batch())
}

// Finish has nothing to add.
func (p *dropping) Finish(*translog.Tx, *translog.Committed) error { return nil }
