package indexer

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
)

// recentHappenings is how many of the newest receipts and refusals are kept, of
// each.
const recentHappenings = 10

// A pulse is what an indexer notes while it works, for whoever watches it. It
// names publishers and collections, and never a page.
type pulse struct {
	begun, batches, pages, payload atomic.Uint64
	purged, deletions              atomic.Uint64

	ends, refused, excluded tally.Counts // by reason

	items, octets      *tally.Meter
	receipts, refusals *tally.Recent[Happening]
}

func newPulse() *pulse {
	return &pulse{
		items: tally.NewMeter(1, 4, 7), octets: tally.NewMeter(1024, 4, 9),
		receipts: tally.NewRecent[Happening](recentHappenings), refusals: tally.NewRecent[Happening](recentHappenings),
	}
}

// A Happening is one receipt that was given, or one refusal.
type Happening struct {
	At         envelope.Time
	Publisher  envelope.Name // empty if nobody knows
	Collection string        // empty of what concerns no collection
	What       string        // of a refusal: connection, session, announcement or batch
	Reason     string        // of a refusal
	Pages      uint64
	Receipt    envelope.Hash
}

// PulseFigures are what was counted since the start.
type PulseFigures struct {
	Sessions      uint64            // begun
	Ends          map[string]uint64 // of sessions
	Refusals      map[string]uint64 // of connections, sessions, announcements and batches
	Excluded      map[string]uint64 // pages of batches that were taken without them
	Batches       uint64            // that a receipt was given for
	Pages         uint64            // taken in with them
	Payload       uint64            // octets of those
	Items, Octets tally.Histogram   // of a batch
	Purged        uint64            // pages whose retention was over
	Deletions     uint64            // that revocations asked for, carried out
}

func (p *pulse) figures() PulseFigures {
	return PulseFigures{
		Sessions: p.begun.Load(), Ends: p.ends.Read(), Refusals: p.refused.Read(), Excluded: p.excluded.Read(),
		Batches: p.batches.Load(), Pages: p.pages.Load(), Payload: p.payload.Load(), Items: p.items.Read(), Octets: p.octets.Read(),
		Purged: p.purged.Load(), Deletions: p.deletions.Load(),
	}
}

// RecentReceipts are the newest ones that were given, the oldest first.
func (x *Indexer) RecentReceipts() []Happening { return x.pulse.receipts.List() }

// RecentRefusals are the newest ones, the oldest first.
func (x *Indexer) RecentRefusals() []Happening { return x.pulse.refusals.List() }

// noteRefusal notes that somebody was turned away.
func (x *Indexer) noteRefusal(what, reason string, publisher envelope.Name, collection string) {
	x.pulse.refused.Add(reason)
	x.pulse.refusals.Add(Happening{At: envelope.At(x.cfg.Now()), Publisher: publisher, Collection: collection, What: what, Reason: reason})
}

// collection is that of a series that the session announced; empty for another.
func (s *session) collection(series string) string {
	if h := s.live[series]; h != nil {
		return h.rec.Collection
	}
	return ""
}

// noteBatch notes a batch that was committed, and not only answered again.
func (s *session) noteBatch(in *ingest) {
	p := s.x.pulse
	if in.receipt.IsZero() { // it was committed before
		return
	}
	octets, _ := in.payload()
	p.batches.Add(1)
	p.items.Observe(float64(len(in.items)))
	p.octets.Observe(float64(octets))
	var pages uint64
	for i := range in.items {
		it := &in.items[i]
		if it.reason != "" {
			p.excluded.Add(string(it.reason))
			continue
		}
		pages++
		p.payload.Add(it.length)
	}
	p.pages.Add(pages)
	p.receipts.Add(Happening{
		At: envelope.At(s.x.cfg.Now()), Publisher: s.peer.Card.Identity, Collection: in.held.rec.Collection, Pages: pages, Receipt: in.receipt,
	})
}

// endOf is why a session ended, in one word.
func endOf(err error) string {
	_, refused := asRefusal(err)
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, context.Canceled), errors.Is(err, link.ErrClosed):
		return "closed"
	case errors.Is(err, errFenced):
		return "fenced"
	case errors.Is(err, errShutdown):
		return "shutdown"
	case errors.Is(err, errLapsed):
		return "lapsed"
	case errors.Is(err, errRemoved):
		return "untrusted"
	case errors.Is(err, link.ErrSilent):
		return "silent"
	case refused:
		return "refused"
	}
	return "broken"
}

// Connected reports whether a publisher has a session.
func (x *Indexer) Connected(publisher envelope.Name) bool { return x.sessions.of(publisher) != nil }
