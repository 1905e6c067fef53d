package publisher

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
)

// recentHappenings is how many of the newest receipts and refusals are kept, of
// each.
const recentHappenings = 10

// A pulse is what a publisher notes while it works, for whoever watches it. It
// names indexers and collections, and never a page. It is safe for concurrent use.
type pulse struct {
	items, octets, answer, evaluate, scan *tally.Meter
	receipts, refusals                    *tally.Recent[Happening]

	beats atomic.Bool // a daemon runs

	// knownMu guards peers and scans, which grow with grants and sources.
	knownMu sync.Mutex
	peers   map[envelope.Name]*peerPulse
	scans   map[string]*ScanFigures
}

func newPulse() *pulse {
	return &pulse{
		items: tally.NewMeter(1, 4, 7), octets: tally.NewMeter(1024, 4, 9), answer: tally.NewMeter(0.001, 4, 9),
		evaluate: tally.NewMeter(0.0001, 4, 9), scan: tally.NewMeter(0.001, 4, 11),
		receipts: tally.NewRecent[Happening](recentHappenings), refusals: tally.NewRecent[Happening](recentHappenings),
		peers: make(map[envelope.Name]*peerPulse), scans: make(map[string]*ScanFigures),
	}
}

// A Happening is one receipt that was stored, or one refusal.
type Happening struct {
	At         envelope.Time
	Indexer    envelope.Name
	Collection string
	Reason     string // of a refusal
	Pages      uint64
	Receipt    envelope.Hash
}

// A peerPulse is what is noted of one indexer.
type peerPulse struct {
	ends, refused tally.Counts // by reason

	// figuresMu guards figures and wire.
	figuresMu sync.Mutex
	figures   PeerFigures
	wire      *counter // of the open session; nil if there is none
}

// PeerFigures are what was noted of one indexer since the start.
type PeerFigures struct {
	Indexer   envelope.Name
	Open      time.Time // since when there is a session; zero if there is none
	Closed    time.Time // since when there is none; zero before the first attempt
	LastError string    // of the last session or attempt; empty after a success
	Next      time.Time // of the next attempt; zero while there is a session
	Sessions  uint64    // that were opened
	// Held are series that wait in the session, and until when.
	Held            map[string]time.Time
	Ends            map[string]uint64
	Refusals        map[string]uint64
	Batches, Pages  uint64    // that a receipt is stored for
	WireIn, WireOut uint64    // octets, TLS included
	TreeAt          time.Time // when a checkpoint of its log was last verified; zero before the first
}

// ScanFigures are what was noted of the scans of one collection.
type ScanFigures struct {
	Collection string
	Good       time.Time // when the last one without an error ended; zero before the first
	Error      string    // of the last one
	Scans      uint64
	Failed     uint64
}

func (p *pulse) peer(name envelope.Name) *peerPulse {
	p.knownMu.Lock()
	defer p.knownMu.Unlock()
	x := p.peers[name]
	if x == nil {
		x = &peerPulse{figures: PeerFigures{Indexer: name}}
		p.peers[name] = x
	}
	return x
}

func (x *peerPulse) opened(now time.Time, wire *counter) {
	x.figuresMu.Lock()
	defer x.figuresMu.Unlock()
	x.figures.Open, x.figures.Closed, x.figures.LastError, x.wire = now, time.Time{}, "", wire
	x.figures.Sessions, x.figures.Next = x.figures.Sessions+1, time.Time{}
}

// tries notes when the next attempt is made.
func (x *peerPulse) tries(at time.Time) {
	x.figuresMu.Lock()
	defer x.figuresMu.Unlock()
	x.figures.Next = at
}

// holds notes until when a series waits; the zero time ends that.
func (x *peerPulse) holds(series string, until time.Time) {
	x.figuresMu.Lock()
	defer x.figuresMu.Unlock()
	if x.figures.Held == nil {
		x.figures.Held = make(map[string]time.Time)
	}
	if x.figures.Held[series] = until; until.IsZero() {
		delete(x.figures.Held, series)
	}
}

// closed notes the end of a session, or an attempt that brought none.
func (x *peerPulse) closed(now time.Time, err error) {
	x.ends.Add(endOf(err))
	x.figuresMu.Lock()
	defer x.figuresMu.Unlock()
	f := &x.figures
	if !f.Open.IsZero() || f.Closed.IsZero() {
		f.Closed = now
	}
	f.Open = time.Time{}
	if x.wire != nil {
		f.WireIn, f.WireOut = f.WireIn+x.wire.allIn.Load(), f.WireOut+x.wire.allOut.Load()
		x.wire = nil
	}
	if err != nil && !replaced(err) {
		f.LastError = clean(err.Error())
	}
}

// seen notes that a checkpoint of the indexer's log was verified.
func (x *peerPulse) seen(now time.Time) {
	x.figuresMu.Lock()
	defer x.figuresMu.Unlock()
	x.figures.TreeAt = now
}

func (x *peerPulse) read() PeerFigures {
	x.figuresMu.Lock()
	defer x.figuresMu.Unlock()
	f := x.figures
	f.Held = maps.Clone(f.Held)
	f.Ends, f.Refusals = x.ends.Read(), x.refused.Read()
	if x.wire != nil {
		f.WireIn, f.WireOut = f.WireIn+x.wire.allIn.Load(), f.WireOut+x.wire.allOut.Load()
	}
	return f
}

// noteReceipt notes an answer that is stored.
func (s *session) noteReceipt(rel *Relationship, stored storedAnswer, items []offered) {
	x := s.p.pulse.peer(s.name())
	s.p.pulse.receipts.Add(Happening{At: envelope.At(s.p.now()), Indexer: s.name(), Collection: rel.Collection, Pages: uint64(len(items)), Receipt: stored.Receipt})
	x.figuresMu.Lock()
	defer x.figuresMu.Unlock()
	x.figures.Batches++
	x.figures.Pages += uint64(len(items))
	x.figures.TreeAt = s.p.now()
}

// noteRefusal notes that a batch was turned away.
func (s *session) noteRefusal(rel *Relationship, reason string) {
	s.p.pulse.peer(s.name()).refused.Add(reason)
	s.p.pulse.refusals.Add(Happening{At: envelope.At(s.p.now()), Indexer: s.name(), Collection: rel.Collection, Reason: reason})
}

// noteScan notes the end of a scan.
func (p *Publisher) noteScan(collection string, began time.Time, err error) {
	p.pulse.scan.Since(began)
	p.pulse.knownMu.Lock()
	defer p.pulse.knownMu.Unlock()
	f := p.pulse.scans[collection]
	if f == nil {
		f = &ScanFigures{Collection: collection}
		p.pulse.scans[collection] = f
	}
	f.Scans++
	if f.Error = textOf(err); err != nil {
		f.Failed++
		return
	}
	f.Good = p.now()
}

// PulseFigures are what was counted since the start.
type PulseFigures struct {
	Peers []PeerFigures // by name
	Scans []ScanFigures // by collection

	Items, Octets          tally.Histogram // of a batch
	Answer, Evaluate, Scan tally.Histogram // in seconds
}

func (p *pulse) read() PulseFigures {
	f := PulseFigures{
		Items: p.items.Read(), Octets: p.octets.Read(), Answer: p.answer.Read(), Evaluate: p.evaluate.Read(), Scan: p.scan.Read(),
	}
	p.knownMu.Lock()
	defer p.knownMu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(p.peers)) {
		f.Peers = append(f.Peers, p.peers[name].read())
	}
	for _, name := range slices.Sorted(maps.Keys(p.scans)) {
		f.Scans = append(f.Scans, *p.scans[name])
	}
	return f
}

// RecentReceipts are the newest ones that were stored, the oldest first.
func (p *Publisher) RecentReceipts() []Happening { return p.pulse.receipts.List() }

// RecentRefusals are the newest ones, the oldest first.
func (p *Publisher) RecentRefusals() []Happening { return p.pulse.refusals.List() }

// endOf is why a session or an attempt ended, in one word.
func endOf(err error) string {
	var refused *Refused
	switch {
	case err == nil, errors.Is(err, ErrStopping), errors.Is(err, context.Canceled):
		return "closed"
	case errors.Is(err, errChanged), errors.Is(err, errAnew):
		return "renewed"
	case errors.Is(err, ErrDraining):
		return "draining"
	case judge(err).alarm:
		return "alarm"
	case errors.Is(err, ErrClock):
		return "clock"
	case errors.As(err, &refused):
		return "refused"
	case errors.Is(err, ErrNoAnswer):
		return "no-answer"
	case errors.Is(err, link.ErrSilent):
		return "silent"
	case errors.Is(err, ErrUnavailable):
		return "unreachable"
	}
	return "error"
}

// outcome is how something ended, in one word; empty if well.
func outcome(err error) string {
	if err == nil {
		return ""
	}
	return endOf(err)
}
