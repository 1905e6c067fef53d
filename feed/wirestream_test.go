package feed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

const indexerName, consumerName = "spiffe://search.example/indexer", "spiffe://search.example/consumer"

// A script is an indexer that says what a test has it say.
type script struct {
	oiv1.UnimplementedFeedServer
	subscribe func(cursor []byte, send func(*oiv1.FeedItem) error) error

	purgedMu sync.Mutex
	purged   [][]byte
}

func (s *script) Subscribe(q *oiv1.SubscribeRequest, stream grpc.ServerStreamingServer[oiv1.FeedItem]) error {
	return s.subscribe(q.GetCursor(), stream.Send)
}

func (s *script) Purged(_ context.Context, q *oiv1.PurgedRequest) (*oiv1.PurgedAnswer, error) {
	s.purgedMu.Lock()
	defer s.purgedMu.Unlock()
	s.purged = append(s.purged, q.GetCursor())
	return &oiv1.PurgedAnswer{Recorded: 1}, nil
}

// serve runs a script behind real TLS, and gives the configuration that reads it.
func serve(t *testing.T, s *script) Config {
	t.Helper()
	fatal := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	dir, own := t.TempDir(), t.TempDir()
	x, err := identity.Create(dir, identity.Options{
		Identity: indexerName, Role: identity.Indexer, Now: time.Now().Add(-time.Hour), Endpoint: "search.example:7443", LogURL: "https://log.example",
	})
	fatal(err)
	card, err := Create(own, consumerName)
	fatal(err)
	parsed, err := identity.ParseCard(card, time.Now())
	fatal(err)
	trust, err := identity.OpenTrust(filepath.Join(dir, "trust"), identity.TrustOptions{})
	fatal(err)
	consumers, err := identity.OpenConsumers(filepath.Join(dir, "consumers"), trust)
	fatal(err)
	fatal(consumers.Add(&identity.Consumer{Identity: consumerName, Purposes: []string{"search.index"}, Card: parsed, AddedAt: time.Now()}))
	name, err := Trust(own, x.Card.Object.Raw)
	fatal(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(consumers.ServerConfig(x.Certificate, time.Now))))
	oiv1.RegisterFeedServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return Config{Dir: own, Indexer: name, Addr: l.Addr().String(), Purpose: "search.index", MaxPayload: 1 << 20}
}

// A notebook is a handler that keeps what it is told in memory, or fails.
type notebook struct {
	cursor []byte
	told   []Item
	apply  func(it *Item) error
}

func (n *notebook) Cursor(context.Context) ([]byte, error) { return n.cursor, nil }

func (n *notebook) Apply(_ context.Context, it *Item) error {
	if n.apply != nil {
		if err := n.apply(it); err != nil {
			return err
		}
	}
	n.told = append(n.told, *it)
	if len(it.Cursor) > 0 {
		n.cursor = it.Cursor
	}
	return nil
}

func place(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// put is a page's messages: the put, and its payload in two pieces.
func put(n uint64, payload string) []*oiv1.FeedItem {
	url := "https://example.com/" + string(rune('a'+n%26))
	h, digest := sha256.Sum256([]byte(url)), sha256.Sum256([]byte(payload))
	half := len(payload) / 2
	return []*oiv1.FeedItem{
		{Item: &oiv1.FeedItem_Put{Put: &oiv1.FeedPut{
			Page: &oiv1.FeedPage{Publisher: "spiffe://example.com/p", Series: "s", UrlHash: h[:]}, Url: url, Digest: digest[:], Size: uint64(len(payload)),
		}}},
		{Item: &oiv1.FeedItem_Piece{Piece: &oiv1.FeedPiece{Data: []byte(payload[:half])}}},
		{Item: &oiv1.FeedItem_Piece{Piece: &oiv1.FeedPiece{Data: []byte(payload[half:])}}, Cursor: place(n)},
	}
}

func head(n uint64) *oiv1.FeedItem {
	return &oiv1.FeedItem{Item: &oiv1.FeedItem_Head{Head: &oiv1.FeedHead{Time: 1}}, Cursor: place(n)}
}

func fault(code codes.Code, reason string) error {
	s, err := status.New(code, reason).WithDetails(&oiv1.Fault{Reason: reason})
	return errors.Join(err, s.Err())
}

// TestEveryChangeComesThroughInterruptions cuts streams off anywhere.
func TestEveryChangeComesThroughInterruptions(t *testing.T) {
	const n = 40
	rng := rand.New(rand.NewPCG(1, 2))
	s := &script{subscribe: func(cursor []byte, send func(*oiv1.FeedItem) error) error {
		from := uint64(0)
		if len(cursor) == 8 {
			from = binary.BigEndian.Uint64(cursor)
		}
		left := 10 + rng.IntN(60)
		for i := from + 1; i <= n; i++ {
			for _, m := range put(i, "the words of a page") {
				if left--; left == 0 {
					return status.Error(codes.Unavailable, "cut off")
				}
				if err := send(m); err != nil {
					return err
				}
			}
		}
		return send(head(n))
	}}
	c := serve(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(map[uint64]bool)
	h := &notebook{apply: func(it *Item) error {
		if it.Op == Put {
			if string(it.Page.Payload) != "the words of a page" {
				t.Errorf("payload %q", it.Page.Payload)
			}
			seen[binary.BigEndian.Uint64(it.Cursor)] = true
		}
		if it.Op == Head {
			cancel()
		}
		return nil
	}}
	if err := Run(ctx, c, h); err != nil {
		t.Fatal(err)
	}
	if len(seen) != n {
		t.Errorf("%d changes came, want %d", len(seen), n)
	}
}

func TestACursorThatIsRefusedBeginsAnew(t *testing.T) {
	s := &script{}
	s.subscribe = func(cursor []byte, send func(*oiv1.FeedItem) error) error {
		if len(cursor) > 0 {
			return fault(codes.OutOfRange, "cursor")
		}
		return errors.Join(send(&oiv1.FeedItem{Item: &oiv1.FeedItem_Reset_{Reset_: &oiv1.FeedReset{Reason: "begin"}}, Cursor: place(0)}), send(head(7)), send(head(8)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := &notebook{cursor: place(5)}
	h.apply = func(it *Item) error {
		if string(it.Cursor) == string(place(8)) {
			cancel()
		}
		return nil
	}
	if err := Run(ctx, serve(t, s), h); err != nil {
		t.Fatal(err)
	}
	if h.told[0].Op != Reset || string(h.cursor) != string(place(8)) {
		t.Errorf("told %v, stands at %x", h.told, h.cursor)
	}
	s.purgedMu.Lock()
	defer s.purgedMu.Unlock()
	if !slices.EqualFunc(s.purged, [][]byte{place(7)}, slices.Equal[[]byte]) {
		t.Errorf("said to be purged: %x, want that of the head behind the reset", s.purged)
	}
}

func TestAPurposeThatIsTakenAwayEndsWithAReset(t *testing.T) {
	for _, reason := range []string{"purpose", "unknown-peer"} {
		s := &script{subscribe: func([]byte, func(*oiv1.FeedItem) error) error { return fault(codes.PermissionDenied, reason) }}
		h := &notebook{cursor: place(5)}
		err := Run(t.Context(), serve(t, s), h)
		var refused *Refused
		if !errors.As(err, &refused) || refused.Reason != reason {
			t.Errorf("Run = %v, want a refusal for %s", err, reason)
		}
		if len(h.told) != 1 || h.told[0].Op != Reset {
			t.Errorf("told %v, want a reset", h.told)
		}
	}
}

// TestPayloadsAreWhatWasAnnounced has an indexer that sends something else.
func TestPayloadsAreWhatWasAnnounced(t *testing.T) {
	c := &connection{c: Config{MaxPayload: 1000, Silence: time.Minute}}
	silent := time.NewTimer(time.Hour)
	defer silent.Stop()
	changed := func(change func([]*oiv1.FeedItem) []*oiv1.FeedItem) []*oiv1.FeedItem {
		return change(put(3, "some words"))
	}
	for _, tt := range []struct {
		name string
		all  []*oiv1.FeedItem
		want error
	}{
		{"a page as it should be", put(3, "some words"), nil},
		{"a page without a payload", put(3, "")[:1], nil},
		{"an item that is not known", []*oiv1.FeedItem{{}}, errProtocol},
		{"a piece with no put before it", put(3, "some words")[1:], errProtocol},
		{"another item in place of a piece", changed(func(m []*oiv1.FeedItem) []*oiv1.FeedItem { m[1] = head(3); return m }), errProtocol},
		{"more than was announced", changed(func(m []*oiv1.FeedItem) []*oiv1.FeedItem { m[0].GetPut().Size--; return m }), errProtocol},
		{"a size without bound", changed(func(m []*oiv1.FeedItem) []*oiv1.FeedItem { m[0].GetPut().Size = 1 << 60; return m }), errProtocol},
		{"another digest", changed(func(m []*oiv1.FeedItem) []*oiv1.FeedItem { m[1].GetPiece().Data[0] ^= 1; return m }), errProtocol},
		{"a URL with another hash", changed(func(m []*oiv1.FeedItem) []*oiv1.FeedItem { m[0].GetPut().Url += "x"; return m }), errProtocol},
		{"a hash that is cut short", changed(func(m []*oiv1.FeedItem) []*oiv1.FeedItem {
			m[0].GetPut().Page.UrlHash = m[0].GetPut().Page.UrlHash[1:]
			return m
		}), errProtocol},
		{"a put that names no page", changed(func(m []*oiv1.FeedItem) []*oiv1.FeedItem { m[0].GetPut().Page = nil; return m }), errProtocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := c.next(&played{all: tt.all}, silent); !errors.Is(err, tt.want) {
				t.Errorf("next = %v, want %v", err, tt.want)
			}
		})
	}
}

// played is a stream of messages that are there already.
type played struct {
	grpc.ServerStreamingClient[oiv1.FeedItem]
	all []*oiv1.FeedItem
}

func (p *played) Recv() (*oiv1.FeedItem, error) {
	if len(p.all) == 0 {
		return nil, io.EOF
	}
	m := p.all[0]
	p.all = p.all[1:]
	return m, nil
}

// FuzzItem: whatever one message says, it is refused or becomes an item.
func FuzzItem(f *testing.F) {
	f.Add([]byte("https://example.com/a"), uint64(9), []byte("hash"))
	f.Fuzz(func(t *testing.T, url []byte, size uint64, h []byte) {
		digest := sha256.Sum256(url)
		for _, hash := range [][]byte{h, digest[:]} {
			m := &oiv1.FeedItem{Item: &oiv1.FeedItem_Put{Put: &oiv1.FeedPut{Url: string(url), Size: size, Page: &oiv1.FeedPage{UrlHash: hash}}}}
			it, err := itemOf(m)
			if (err == nil) != (envelope.Hash(digest) == it.hash()) {
				t.Errorf("itemOf = %v, %v", it, err)
			}
		}
	})
}

// hash is that of an item that was accepted, else zero.
func (it *Item) hash() envelope.Hash {
	if it == nil {
		return envelope.Hash{}
	}
	return it.URLHash
}

// FuzzStream: whatever messages come, each item that is taken is whole: a page under its
// own URL's hash, with a payload of its digest, and no larger than is allowed.
func FuzzStream(f *testing.F) {
	pack := func(all ...*oiv1.FeedItem) (raw []byte) {
		for _, m := range all {
			b, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			raw = append(binary.BigEndian.AppendUint16(raw, uint16(len(b))), b...)
		}
		return raw
	}
	f.Add(pack(append(put(3, "some words"), head(3))...))
	f.Add(pack(put(3, "some words")[1:]...))
	f.Add(pack(head(3), head(4)))
	f.Add([]byte{0, 3, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all []*oiv1.FeedItem
		for len(raw) >= 2 {
			n := min(int(binary.BigEndian.Uint16(raw)), len(raw)-2)
			m := new(oiv1.FeedItem)
			if proto.Unmarshal(raw[2:2+n], m) == nil {
				all = append(all, m)
			}
			raw = raw[2+n:]
		}
		c := &connection{c: Config{MaxPayload: 1000, Silence: time.Minute}}
		silent := time.NewTimer(time.Hour)
		defer silent.Stop()
		s := &played{all: all}
		for {
			it, err := c.next(s, silent)
			if err != nil {
				return
			}
			if it.Op == Put && (len(it.Page.Payload) > 1000 || sha256.Sum256(it.Page.Payload) != it.Page.Digest || sha256.Sum256([]byte(it.Page.URL)) != it.URLHash) {
				t.Errorf("taken: %+v, %+v", it, it.Page)
			}
		}
	})
}
