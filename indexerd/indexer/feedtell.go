package indexer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// walkStep is how many pages of a series are looked up at once.
const walkStep = 64

// page tells of one page: that it may be read, with its payload, or that it is to be
// dropped, if the listener can have it. behind is where the stream stands then. only
// is the change that is told; a later one is told in its own turn.
func (s *subscription) page(sid uint32, h []byte, behind feedPlace, only uint64) error {
	for {
		err := s.pageOnce(sid, h, behind, only)
		if !gone(err) {
			return err
		}
		// Its file or key went since the rows were read: they say so by now.
		if err := errors.Join(s.r.renew(), s.look()); err != nil {
			return err
		}
	}
}

func (s *subscription) pageOnce(sid uint32, h []byte, behind feedPlace, only uint64) error {
	g, err := s.r.gate(sid)
	if err != nil || g == nil {
		return err
	}
	var told toldPage
	ok, err := readRow(s.r.rows, feedSID(1, sid, h...), &told)
	if err != nil || !ok || told.Number != only {
		return err
	}
	var p *Page
	row, terms, refused := s.r.find(g, h)
	if refused == nil {
		if p, err = s.r.page(g, row, terms); errors.Is(err, grants.ErrNotHeld) {
			refused = err
		} else if err != nil {
			return err
		}
	}
	if refused != nil {
		had, err := s.had(sid)
		if err != nil || told.First > had {
			return err
		}
		return s.drop(g, h, refused, s.x.feed.cursor(s.l, behind))
	}
	if err := s.hand(sid, told.Number); err != nil {
		return err
	}
	it := &FeedItem{Op: FeedPut, Page: p, Publisher: p.Publisher, Series: p.Series, URLHash: envelope.Hash(h), Cursor: s.x.feed.cursor(s.l, behind)}
	if len(p.Payload) > feedPiece {
		if it.watch, err = s.r.watchPage(sid, p); err != nil {
			return err
		}
	}
	return s.tell(it)
}

// drop tells that a page is to be dropped. refused is why it may not be read; what
// is no refusal is a fault of ours.
func (s *subscription) drop(g *gate, h []byte, refused error, cursor []byte) error {
	reason, err := reasonOf(refused)
	if err != nil {
		return err
	}
	return s.tell(&FeedItem{
		Op: FeedDelete, Publisher: g.rec.Publisher, Series: g.rec.Series, URLHash: envelope.Hash(h), Reason: reason, Cursor: cursor,
	})
}

// series tells of a series that lets out something else than before: its end, or
// each of its pages anew that the stream told before it knew.
func (s *subscription) series(c feedChange) error {
	g, err := s.r.gate(c.sid)
	if err != nil || g == nil {
		return err
	}
	base := s.knew(c.number)
	var after []byte
	if s.at.of == c.number {
		after = s.at.walk
	}
	for {
		if n, err := number(s.r.rows, feedSID(2, c.sid)); err != nil || n != c.number {
			return err // a later change is told in its turn
		}
		closed, err := s.closed(g)
		if err != nil {
			return err
		}
		if closed != "" {
			had, err := s.had(c.sid)
			if err != nil || had == 0 {
				return err
			}
			return s.tell(&FeedItem{Op: FeedStop, Publisher: g.rec.Publisher, Series: g.rec.Series, Reason: closed, Cursor: s.x.feed.cursor(s.l, feedPlace{number: c.number})})
		}
		if base == 0 {
			return nil // nothing was told before
		}
		pages, err := walkTold(s.r.rows, c.sid, after)
		if err != nil || len(pages) == 0 {
			return err
		}
		for _, p := range pages {
			after = p.h
			if p.told.Number > base || p.told.Gone != 0 {
				continue
			}
			if err := s.look(); err != nil {
				return err
			}
			s.at.of, s.at.walk = c.number, p.h
			if err := s.page(c.sid, p.h, s.at, p.told.Number); err != nil {
				return err
			}
		}
		if g, err = s.r.gate(c.sid); err != nil {
			return err
		}
	}
}

// knew is up to which change the stream told pages before it knew of the change of a
// series: those behind it were judged with it.
func (s *subscription) knew(series uint64) uint64 {
	for _, k := range s.seen {
		if k.series >= series {
			return k.at
		}
	}
	return series
}

type walked struct {
	h    []byte
	told toldPage
}

// walkTold reads some of the pages of a series behind one of them, by ascending hash.
func walkTold(r durable.Reader, sid uint32, after []byte) ([]walked, error) {
	var all []walked
	lo := feedSID(1, sid)
	hi := durable.PrefixEnd(lo)
	if after != nil {
		lo = append(append(lo, after...), 0)
	}
	for kv, err := range r.Scan(lo, hi) {
		if err != nil {
			return nil, err
		}
		w := walked{h: append([]byte(nil), kv.Key[len(kv.Key)-32:]...)}
		if err := w.told.ParseRow(kv.Value); err != nil {
			return nil, fmt.Errorf("row %x: %w", kv.Key, err)
		}
		if all = append(all, w); len(all) == walkStep {
			break
		}
	}
	return all, nil
}

// toldSID is the number of the series that a row of the feed speaks of.
func toldSID(key []byte) uint32 { return binary.BigEndian.Uint32(key[2:]) }

// Feed tells what may be read for a purpose to the indexer's own commands, which are
// no third party: from a cursor on, until all is told, or with follow until ctx
// ends. send must not keep the item. ErrCursor is a cursor that leads nowhere.
func (x *Indexer) Feed(ctx context.Context, purpose grants.Purpose, cursor []byte, follow bool, send func(*FeedItem) error) error {
	if x.frozen != nil {
		return ErrFrozen
	}
	s := x.subscription(ctx, listener{name: x.local.Name(), purpose: purpose}, send)
	if err := x.feed.join(s); err != nil {
		return err
	}
	defer x.feed.leave(s)
	return s.run(cursor, follow)
}

// Purged makes it durable that the indexer itself has dropped, wherever it had it, what
// its own feed told it to drop up to a cursor. ErrCursor is a cursor that it was not
// given.
func (x *Indexer) Purged(purpose grants.Purpose, cursor []byte) (envelope.Time, error) {
	if x.frozen != nil {
		return envelope.Time{}, ErrFrozen
	}
	return x.purged(listener{name: x.local.Name(), purpose: purpose}, cursor)
}
