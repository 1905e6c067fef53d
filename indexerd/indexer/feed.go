package indexer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// The ops of a FeedItem.
const (
	FeedPut    = "put"    // the page may be read, under these terms
	FeedDelete = "delete" // the page is to be dropped
	FeedStop   = "stop"   // every page of the series is to be dropped
	FeedReset  = "reset"  // everything of the purpose is to be dropped
	FeedHead   = "head"   // all is told that there is at this moment
)

// A FeedItem is one line of what a purpose may read. Applying one again changes
// nothing.
type FeedItem struct {
	Op string
	// Cursor goes on behind the item; none of one that is told ahead of its turn.
	Cursor    []byte
	Page      *Page         // of a put
	Publisher envelope.Name // of a put, delete or stop
	Series    string        // likewise
	URLHash   envelope.Hash // of a put or delete
	Reason    grants.Reason // of a delete, stop or reset
	Time      envelope.Time // of a head

	watch *Watch // of a put whose payload goes out in pieces: looked at before each
}

// A listener is who reads a feed.
type listener struct {
	name       envelope.Name
	purpose    grants.Purpose
	thirdParty bool
	added      int64 // a consumer that was removed and added again is another one
}

// key begins with what precedes it, and names the listener's own row in a space.
func (l listener) key(prefix []byte) []byte {
	k := append(slices.Clone(prefix), l.name...)
	return append(append(k, 0), l.purpose...)
}

// A handedRow is what a listener was handed of a series. It is durable before the
// first page of which it speaks goes out.
type handedRow struct {
	Number     uint64        `json:"number"` // of the feed, up to which it may have been handed pages
	Begin      uint64        `json:"begin"`  // likewise, where it had been handed none: what was gone by then it never had
	ThirdParty bool          `json:"third_party,omitzero"`
	Since      envelope.Time `json:"since"`
	Last       envelope.Time `json:"last"`
}

// A purgedRow is up to where a listener says to have dropped what it was to drop.
type purgedRow struct {
	Number uint64        `json:"number"`
	At     envelope.Time `json:"at"`
}

func handedKey(sid uint32, l listener) []byte { return l.key(sidKey('U', sid)) }
func purgedKey(l listener) []byte             { return l.key([]byte{'u'}) }

// A hub knows the live streams of the feed.
type hub struct {
	consumers *identity.Consumers
	id        feedIdentity

	// liveMu guards live and each stream's place in it.
	liveMu sync.Mutex
	live   map[string]*subscription

	// purgedMu keeps one statement from being written over by an older one.
	purgedMu sync.Mutex

	// handedMu lets one at a time of the indexer's own exits write what it was handed.
	handedMu sync.Mutex

	items, slow, refused atomic.Uint64
}

// Bounds of the feed.
const (
	feedStreams = 256              // at once, over all consumers; one a consumer and purpose
	feedRound   = 256              // changes that are read at once
	feedPiece   = 256 << 10        // octets of a payload in one message
	feedBeat    = 10 * time.Second // between two signs of life
	feedLook    = time.Second      // between two looks at who the consumer is
	feedStuck   = 30 * time.Second // in which an item has to be taken
)

// A feedPlace is how far a listener has come: every change up to number is told, and of
// the walk through the series whose change is "of" the pages up to walk.
type feedPlace struct {
	number, of uint64
	walk       []byte
	end        bool // everything was to be dropped there
}

// The first octet of a cursor.
const (
	cursorVersion = 1
	cursorEnd     = 2 // behind a farewell
)

// cursor gives the place a form that only the same listener can bring back.
func (h *hub) cursor(l listener, p feedPlace) []byte {
	c := append([]byte{cursorVersion}, h.id.ID[:]...)
	if p.end {
		c[0] = cursorEnd
	}
	c = binary.BigEndian.AppendUint64(c, p.number)
	if p.walk != nil {
		c = append(binary.BigEndian.AppendUint64(c, p.of), p.walk...)
	}
	return append(c, h.seal(l, c)...)
}

func (h *hub) seal(l listener, c []byte) []byte {
	m := hmac.New(sha256.New, h.id.Key[:])
	m.Write(l.key([]byte("uzpif-oi/feed-cursor/v1\x00")))
	m.Write([]byte{0, boolByte(l.thirdParty)})
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(l.added)))
	m.Write(c)
	return m.Sum(nil)[:16]
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// open reads a cursor that this indexer gave to this listener. ErrCursor is one
// that leads nowhere, or no further: whoever brings it begins anew. That of a farewell
// is good for a statement alone.
func (h *hub) open(r durable.Reader, l listener, c []byte, statement bool) (feedPlace, error) {
	const body = 1 + 8 + 8
	n := len(c) - 16
	if n != body && n != body+8+32 || c[0] != cursorVersion && (c[0] != cursorEnd || !statement) || [8]byte(c[1:9]) != h.id.ID || !hmac.Equal(c[n:], h.seal(l, c[:n])) {
		return feedPlace{}, refuse(grants.ErrCursor, "not given to this consumer for this purpose, or before the store was restored")
	}
	p := feedPlace{number: binary.BigEndian.Uint64(c[9:])}
	if n > body {
		p.of, p.walk = binary.BigEndian.Uint64(c[body:]), slices.Clone(c[body+8:n])
	}
	last, err := number(r, feedKey(5))
	if err != nil {
		return feedPlace{}, err
	}
	var id feedIdentity
	if _, err := durable.ReadJSON(r, feedKey(3), &id); err != nil {
		return feedPlace{}, err
	}
	if p.number > last || p.number != 0 && p.number < id.Floor {
		return feedPlace{}, refuse(grants.ErrCursor, "deletions that came behind it are not told any more")
	}
	return p, nil
}

// join makes s the stream of its listener. An older one is ended, and waited for, so
// that one at a time writes what the listener was handed.
func (h *hub) join(s *subscription) error {
	key := string(s.l.key(nil))
	for {
		h.liveMu.Lock()
		old := h.live[key]
		if old == nil {
			full := len(h.live) >= feedStreams
			if !full {
				h.live[key] = s
			}
			h.liveMu.Unlock()
			if full {
				h.refused.Add(1)
				return &refusal{reason: grants.ErrExhausted, detail: "too many consumers read", retryMS: retryOverload}
			}
			return nil
		}
		h.liveMu.Unlock()
		old.end(errFenced)
		select {
		case <-old.ended:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// leave takes s out; it has ended.
func (h *hub) leave(s *subscription) {
	h.liveMu.Lock()
	delete(h.live, string(s.l.key(nil)))
	h.liveMu.Unlock()
	close(s.ended)
}

func (h *hub) endAll(why error) {
	h.liveMu.Lock()
	defer h.liveMu.Unlock()
	for _, s := range h.live {
		s.end(why)
	}
}

// FeedFigures are what an operator watches of the feed.
type FeedFigures struct {
	Streams int
	Lag     uint64 // changes that the slowest stream was not told
	Items   uint64 // told, ever
	Slow    uint64 // streams that were ended since they took nothing
	Refused uint64 // streams that were refused
}

func (x *Indexer) feedFigures() (f FeedFigures, err error) {
	last, err := number(x.store, feedKey(5))
	h := x.feed
	f.Items, f.Slow, f.Refused = h.items.Load(), h.slow.Load(), h.refused.Load()
	h.liveMu.Lock()
	defer h.liveMu.Unlock()
	f.Streams = len(h.live)
	for _, s := range h.live {
		f.Lag = max(f.Lag, last-min(last, s.told.Load()))
	}
	return f, err
}
