package indexer

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// A feedRig is the feed's endpoint of a rig.
type feedRig struct {
	r    *rig
	addr string
}

func (r *rig) feed() *feedRig {
	r.t.Helper()
	l := must[net.Listener](r.t)(net.Listen("tcp", "127.0.0.1:0"))
	ctx, cancel := context.WithCancel(context.Background())
	served, server := make(chan error, 1), r.x.NewFeedServer()
	go func() { served <- r.x.ServeFeed(ctx, server, l) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			r.t.Error(err)
		}
	})
	return &feedRig{r, l.Addr().String()}
}

// A consumerTester is a consumer by its identity alone.
type consumerTester struct {
	f     *feedRig
	local *identity.Local
	trust *identity.Trust
	conn  *grpc.ClientConn
	api   oiv1.FeedClient
}

// consumer makes an identity, and lets it read for some purposes, if there are any.
func (f *feedRig) consumer(name envelope.Name, purposes ...string) *consumerTester {
	f.r.t.Helper()
	t, dir := f.r.t, f.r.t.TempDir()
	c := &consumerTester{f: f}
	c.local = must[*identity.Local](t)(identity.Create(dir, identity.Options{Identity: name, Role: identity.Reader, Now: f.r.now().Add(-time.Hour)}))
	c.trust = must[*identity.Trust](t)(identity.OpenTrust(filepath.Join(dir, "trust"), identity.TrustOptions{Now: f.r.now}))
	must[*identity.Peer](t)(c.trust.Add(f.r.card.Object.Raw, identity.AddOptions{Now: f.r.now()}))
	if len(purposes) > 0 {
		c.may(purposes...)
	}
	config := identity.ClientConfig(c.local.Certificate, c.trust, identity.Indexer, f.r.card.Identity, f.r.now)
	c.conn = must[*grpc.ClientConn](t)(grpc.NewClient("passthrough:///"+f.addr, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithStaticStreamWindowSize(64<<10)))
	t.Cleanup(func() { c.conn.Close() })
	c.api = oiv1.NewFeedClient(c.conn)
	return c
}

// may is what the operator says of the consumer.
func (c *consumerTester) may(purposes ...string) {
	c.f.r.t.Helper()
	err := c.f.r.x.feed.consumers.Add(&identity.Consumer{
		Identity: c.local.Name(), Purposes: purposes, Card: c.local.Card, AddedAt: c.f.r.now(),
		ThirdParty: identity.DomainOf(c.local.Name()) != identity.DomainOf(c.f.r.card.Identity),
	})
	if err != nil {
		c.f.r.t.Fatal(err)
	}
}

// A feedReader is one open stream.
type feedReader struct {
	t      testing.TB
	stream grpc.ServerStreamingClient[oiv1.FeedItem]
	cancel context.CancelFunc
}

func (c *consumerTester) subscribe(purpose string, cursor []byte) *feedReader {
	c.f.r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	c.f.r.t.Cleanup(cancel)
	s := must[grpc.ServerStreamingClient[oiv1.FeedItem]](c.f.r.t)(c.api.Subscribe(ctx, &oiv1.SubscribeRequest{Purpose: purpose, Cursor: cursor}))
	return &feedReader{c.f.r.t, s, cancel}
}

// until reads up to the first item of a kind, and gives words for all of them.
func (f *feedReader) until(kind string) (words []string, last *oiv1.FeedItem) {
	f.t.Helper()
	for {
		m, err := f.stream.Recv()
		if err != nil {
			f.t.Fatalf("waiting for %s behind %q: %v", kind, words, err)
		}
		word := ""
		switch i := m.Item.(type) {
		case *oiv1.FeedItem_Put:
			word = "put"
		case *oiv1.FeedItem_Delete:
			word = "delete " + i.Delete.Reason
		case *oiv1.FeedItem_Stop:
			word = "stop " + i.Stop.Reason
		case *oiv1.FeedItem_Reset_:
			word = "reset " + i.Reset_.Reason
		case *oiv1.FeedItem_Head:
			word = "head"
		default:
			continue // a piece
		}
		words = append(words, word)
		if len(word) >= len(kind) && word[:len(kind)] == kind {
			return words, m
		}
	}
}

// reason is the typed reason with which a call was refused.
func reasonOfCall(err error) string {
	for _, d := range status.Convert(err).Details() {
		if f, ok := d.(*oiv1.Fault); ok {
			return f.Reason
		}
	}
	return status.Code(err).String()
}

func (f *feedReader) refused() string {
	for {
		if _, err := f.stream.Recv(); err != nil {
			return reasonOfCall(err)
		}
	}
}

// deletedWithin bounds how long the deletion of some pages may take behind the answer to
// the revocation: it waits for no consumer, whom it would wait half a minute for.
const deletedWithin = 10 * time.Second

// TestARevocationStopsFiftyStreamsWithinASecond has fifty consumers at the head of
// the feed, one that is far behind it, and one that takes nothing.
func TestARevocationStopsFiftyStreamsWithinASecond(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(20)
	f := r.feed()
	lazy := f.consumer("spiffe://search.example/lazy", "search.index").subscribe("search.index", nil)
	const n = 50
	readers := make([]*feedReader, n)
	for i := range readers {
		readers[i] = f.consumer(envelope.Name(fmt.Sprintf("spiffe://search.example/consumer-%d", i)), "search.index").subscribe("search.index", nil)
	}
	for _, rd := range readers {
		if words, _ := rd.until("head"); len(words) != 22 {
			t.Fatalf("the beginning: %q", words)
		}
	}
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	c.close()
	late := make([]time.Duration, n)
	var waiting sync.WaitGroup
	begun := time.Now()
	for i, rd := range readers {
		waiting.Go(func() {
			rd.until("stop revoked")
			late[i] = time.Since(begun)
		})
	}
	s.p.revoke(rev)
	answered := time.Since(begun)
	waiting.Wait()
	for i, d := range late {
		if d > answered+time.Second {
			t.Errorf("stream %d stops %v behind the call, which took %v", i, d, answered)
		}
	}
	s.p.settled(rev) // the deletion waits for no consumer
	deleted := time.Since(begun)
	t.Logf("the revocation is answered behind %v; %d streams are told within %v of its beginning; the deletion is acknowledged behind %v",
		answered, n, slices.Max(late), deleted)
	if deleted > answered+deletedWithin {
		t.Errorf("the deletion of 20 pages is acknowledged behind %v", deleted)
	}
	lazy.until("stop revoked")
	if r.x.feed.items.Load() == 0 {
		t.Error("nothing is counted")
	}
}

func TestConsumersAreToldWhoTheyAre(t *testing.T) {
	r := newRig(t)
	s := r.example().series("docs-1", site, func(d *grants.Draft) { d.Purposes = grants.Purposes{grants.RAGRetrieve, grants.SearchIndex} })
	s.p.session(s).push(s, puts("words", urls(site, 3)...)...)
	f := r.feed()
	own := f.consumer("spiffe://search.example/own", "rag.retrieve", "search.index")
	third := f.consumer("spiffe://other.example/third", "search.index")
	stranger := f.consumer("spiffe://search.example/stranger")
	words, head := own.subscribe("search.index", nil).until("head")
	if len(words) != 5 || words[0] != "reset begin" || words[1] != "put" {
		t.Errorf("its own consumer reads %q", words)
	}
	if words, _ := third.subscribe("search.index", nil).until("head"); len(words) != 2 {
		t.Errorf("a third party reads %q of what may not be passed on", words)
	}
	for _, tt := range []struct {
		name    string
		who     *consumerTester
		purpose string
		cursor  []byte
		refusal string
	}{
		{"a purpose of somebody else", third, "rag.retrieve", nil, "purpose"},
		{"a purpose that does not exist", own, "everything", nil, "purpose"},
		{"nobody's consumer", stranger, "search.index", nil, "Unavailable"},
		{"a cursor of another purpose", own, "rag.retrieve", head.Cursor, "cursor"},
		{"a cursor of another consumer", third, "search.index", head.Cursor, "cursor"},
		{"a cursor that is cut short", own, "search.index", head.Cursor[:20], "cursor"},
		{"a cursor that was changed", own, "search.index", flipped(head.Cursor), "cursor"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st, err := tt.who.api.Subscribe(t.Context(), &oiv1.SubscribeRequest{Purpose: tt.purpose, Cursor: tt.cursor})
			got := reasonOfCall(err)
			if err == nil {
				got = (&feedReader{t: t, stream: st}).refused()
			}
			if got != tt.refusal {
				t.Errorf("refused with %q, want %q", got, tt.refusal)
			}
			if tt.cursor == nil {
				return
			}
			_, err = tt.who.api.Purged(t.Context(), &oiv1.PurgedRequest{Purpose: tt.purpose, Cursor: tt.cursor})
			if got := reasonOfCall(err); got != tt.refusal {
				t.Errorf("purged: refused with %q, want %q", got, tt.refusal)
			}
		})
	}
	if _, err := own.api.Purged(t.Context(), &oiv1.PurgedRequest{Purpose: "search.index", Cursor: head.Cursor}); err != nil {
		t.Errorf("its own cursor: %v", err)
	}
}

func flipped(b []byte) []byte {
	c := append([]byte(nil), b...)
	c[12] ^= 1
	return c
}

// TestAConsumerThatIsRemovedIsToldToDropAll ends its stream while it reads.
func TestAConsumerThatIsRemovedIsToldToDropAll(t *testing.T) {
	r := newRig(t)
	r.example().held(3)
	f := r.feed()
	c := f.consumer("spiffe://search.example/own", "search.index")
	rd := c.subscribe("search.index", nil)
	rd.until("head")
	c.may("archive")
	if words, _ := rd.until("reset"); words[len(words)-1] != "reset purpose" {
		t.Errorf("told %q", words)
	}
	if got := rd.refused(); got != "purpose" {
		t.Errorf("ended with %q", got)
	}
	rd = c.subscribe("archive", nil)
	rd.until("head")
	if err := r.x.feed.consumers.Remove(c.local.Name()); err != nil {
		t.Fatal(err)
	}
	if words, _ := rd.until("reset"); words[len(words)-1] != "reset purpose" {
		t.Errorf("told %q", words)
	}
	// One that is forgotten is let in no more.
	c.may("archive")
	rd = c.subscribe("archive", nil)
	rd.until("head")
	if err := r.x.feed.consumers.Forget(c.local.Name()); err != nil {
		t.Fatal(err)
	}
	if words, _ := rd.until("reset"); words[len(words)-1] != "reset unknown-peer" {
		t.Errorf("told %q", words)
	}
}

// TestManySubscriptionsHoldUpNobody has one consumer subscribe ten thousand times
// over one connection, while pages are pushed and another one reads.
func TestManySubscriptionsHoldUpNobody(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(5)
	f := r.feed()
	good := f.consumer("spiffe://search.example/good", "search.index").subscribe("search.index", nil)
	good.until("head")
	bad := f.consumer("spiffe://search.example/bad", "search.index")
	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 8 {
		flood.Go(func() {
			for range 1250 {
				one, end := context.WithCancel(ctx)
				if st, err := bad.api.Subscribe(one, &oiv1.SubscribeRequest{Purpose: "search.index"}); err == nil {
					st.Recv()
				}
				end()
			}
		})
	}
	for i := range 5 {
		c.push(s, puts(fmt.Sprintf("words %d", i), urls(site, 5)...)...)
		good.until("put")
	}
	flood.Wait()
	cancel()
	r.eventually("the flood to be over", func() bool {
		figures, err := r.x.feedFigures()
		return err == nil && figures.Streams == 1
	})
}

// TestAConsumerThatTakesNothingIsGivenUp fills its window, and waits.
func TestAConsumerThatTakesNothingIsGivenUp(t *testing.T) {
	r := newRig(t)
	out := &feedStream{}
	out.since.Store(time.Now().Add(-2 * feedStuck).UnixNano())
	f := &feedService{x: r.x}
	l := listener{name: "spiffe://search.example/slow", purpose: grants.SearchIndex}
	s := r.x.subscription(t.Context(), l, nil)
	if err := f.watch(s, out, credentials.TLSInfo{}, make(chan error)); !errors.Is(err, errSlow) {
		t.Errorf("watch = %v", err)
	}
	if got := status.Code(feedStatus(errSlow)); got != codes.ResourceExhausted {
		t.Errorf("it is told %v", got)
	}
}
