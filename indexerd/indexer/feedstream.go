package indexer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A subscription tells one listener every change, in the order of the feed, judged
// at the moment at which it is told. Its goroutine owns everything but what is
// atomic. What has to stop is told ahead of whatever else there is to tell.
type subscription struct {
	x     *Indexer
	l     listener
	ctx   context.Context
	end   context.CancelCauseFunc
	ended chan struct{}
	send  func(*FeedItem) error
	lost  atomic.Pointer[refusal] // why nothing may be read any more
	woken chan struct{}           // at most one waits: lost was set
	told  atomic.Uint64           // at, for others to see

	r  *Reading
	at feedPlace
	// looked is the number of the last change of a series that was looked at for
	// what has to stop, and seen where the stream stood at each of them: what was
	// told from there on was judged with it.
	looked uint64
	seen   []seenAt
	handed map[uint32]uint64
}

type seenAt struct{ series, at uint64 }

func (x *Indexer) subscription(ctx context.Context, l listener, send func(*FeedItem) error) *subscription {
	s := &subscription{x: x, l: l, send: send, ended: make(chan struct{}), woken: make(chan struct{}, 1), handed: make(map[uint32]uint64)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	return s
}

// run tells everything behind a cursor, and, with follow, whatever comes. It
// returns when the stream's context ends, or when sending fails.
func (s *subscription) run(cursor []byte, follow bool) (err error) {
	if s.r, err = s.x.Reading(s.l.purpose, s.l.thirdParty); err != nil {
		return err
	}
	defer func() { s.r.Close() }()
	if len(cursor) == 0 {
		s.looked = s.r.series
		if err := s.tell(&FeedItem{Op: FeedReset, Reason: "begin", Cursor: s.x.feed.cursor(s.l, s.at)}); err != nil {
			return err
		}
	} else {
		if s.at, err = s.x.feed.open(s.r.rows, s.l, cursor, false); err != nil {
			return err
		}
		s.looked = s.at.number
	}
	s.seen = []seenAt{{s.r.series, s.at.number}}
	if err := s.stopNow(); err != nil {
		return err
	}
	for {
		more, err := s.round()
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if err := s.head(); err != nil || !follow {
			return err
		}
		if err := s.wait(); err != nil {
			return err
		}
	}
}

// round tells some changes, and reports whether there may be more.
func (s *subscription) round() (bool, error) {
	if err := s.look(); err != nil {
		return false, err
	}
	changes, err := changesAfter(s.r.rows, s.at.number, feedRound)
	if err != nil {
		return false, err
	}
	for _, c := range changes {
		if err := s.look(); err != nil {
			return false, err
		}
		if c.h != nil {
			err = s.page(c.sid, c.h, feedPlace{number: c.number}, c.number)
		} else {
			err = s.series(c)
		}
		if err != nil {
			return false, err
		}
		s.at = feedPlace{number: c.number}
		s.told.Store(c.number)
	}
	return len(changes) > 0, nil
}

// look is made before each item: it takes up what is released, and whether the
// listener still is one.
func (s *subscription) look() error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	if why := s.lost.Load(); why != nil {
		return s.farewell(why)
	}
	if s.r.done != nil && !s.r.isOver() {
		return nil
	}
	before := s.r.series
	if err := s.r.renew(); err != nil {
		return err
	}
	if s.r.series == before {
		return nil
	}
	s.seen = append(s.seen, seenAt{s.r.series, s.at.number})
	for len(s.seen) > 1 && s.seen[0].series <= s.at.number {
		s.seen = s.seen[1:]
	}
	return s.stopNow()
}

// farewell tells a listener that may read no more to drop everything. The cursor that
// comes with it is good for saying that this is done, and leads nowhere else: who has
// dropped everything has to begin anew.
func (s *subscription) farewell(why *refusal) error {
	last, err := number(s.x.store, feedKey(5))
	if err != nil {
		return err
	}
	end := s.x.feed.cursor(s.l, feedPlace{number: last, end: true})
	return errors.Join(
		s.tell(&FeedItem{Op: FeedReset, Reason: why.reason, Cursor: end}),
		s.tell(&FeedItem{Op: FeedHead, Time: envelope.At(s.x.latest()), Cursor: end}), why)
}

// stopNow tells what has to be dropped of each series that has changed, ahead of its
// turn and of all content. In its turn the change is told whole.
func (s *subscription) stopNow() error {
	lo := feedKey(2)
	for kv, err := range s.r.rows.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		sid := toldSID(kv.Key)
		n, err := number(s.r.rows, feedSID(2, sid))
		if err != nil {
			return err
		}
		if n <= s.looked {
			continue
		}
		if err := s.stopSeries(sid); err != nil {
			return err
		}
	}
	s.looked = s.r.series
	return nil
}

func (s *subscription) stopSeries(sid uint32) error {
	had, err := s.had(sid)
	if err != nil || had == 0 {
		return err
	}
	g, err := s.r.gate(sid)
	if err != nil || g == nil {
		return err
	}
	if closed, err := s.closed(g); err != nil || closed != "" {
		if err != nil {
			return err
		}
		return s.tell(&FeedItem{Op: FeedStop, Publisher: g.rec.Publisher, Series: g.rec.Series, Reason: closed})
	}
	if len(g.revs) == 0 && g.newest.Grant.Body.Scope.Covers(g.bound.Grant.Body.Scope) {
		return nil // no single page has to go
	}
	lo := feedSID(1, sid)
	for kv, err := range s.r.rows.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		var told toldPage
		if err := told.ParseRow(kv.Value); err != nil {
			return err
		}
		if told.Gone != 0 || told.First > had {
			continue
		}
		h := kv.Key[len(kv.Key)-32:]
		if _, _, err := s.r.find(g, h); err != nil {
			if err := s.drop(g, h, err, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// closed is the reason why no page of a series may be read, if there is one.
func (s *subscription) closed(g *gate) (grants.Reason, error) {
	err := g.closed(s.r.who, s.x.latest())
	if err == nil {
		return "", nil
	}
	return reasonOf(err)
}

// had is up to which number the listener may have been handed pages of a series, 0
// if it was handed none.
func (s *subscription) had(sid uint32) (uint64, error) {
	if n, ok := s.handed[sid]; ok {
		return n, nil
	}
	var row handedRow
	_, err := durable.ReadJSON(s.x.store, handedKey(sid, s.l), &row)
	if err == nil {
		s.handed[sid] = row.Number
	}
	return row.Number, err
}

// hand makes it durable that pages up to a number may have been handed out, before
// the first of them is.
func (s *subscription) hand(sid uint32, upTo uint64) (err error) {
	had, err := s.had(sid)
	if err != nil || had >= upTo {
		return err
	}
	if upTo, err = number(s.r.rows, feedKey(5)); err != nil {
		return err
	}
	key, now := handedKey(sid, s.l), envelope.At(s.x.latest())
	row := handedRow{Since: now, Begin: upTo}
	if _, err := durable.ReadJSON(s.x.store, key, &row); err != nil {
		return err
	}
	row.Number, row.Last, row.ThirdParty = upTo, now, s.l.thirdParty
	b := s.x.store.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := durable.WriteJSON(b, key, row); err != nil {
		return err
	}
	if err := b.Commit(); err != nil {
		return err
	}
	s.handed[sid] = upTo
	return nil
}

// tell sends one item.
func (s *subscription) tell(it *FeedItem) error {
	s.x.feed.items.Add(1)
	return s.send(it)
}

// head says that all is told.
func (s *subscription) head() error {
	return s.tell(&FeedItem{Op: FeedHead, Time: envelope.At(s.x.latest()), Cursor: s.x.feed.cursor(s.l, s.at)})
}

// wait holds no rows while it waits for something new to be told, and says now and
// then that all is told.
func (s *subscription) wait() error {
	over := s.r.Over()
	s.r.Close()
	beat := time.NewTicker(feedBeat)
	defer beat.Stop()
	for {
		select {
		case <-over:
			return s.look()
		case <-s.woken:
			return s.look()
		case <-beat.C:
			if err := s.head(); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}
