package indexer

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// A client is one stream of a tester.
type client struct {
	p       *tester
	conn    *grpc.ClientConn
	stream  grpc.BidiStreamingClient[oiv1.PublisherFrame, oiv1.IndexerFrame]
	welcome *oiv1.Welcome
	cancel  context.CancelFunc
	deaf    bool                   // to acknowledgements that it did not ask for
	early   []*oiv1.ContentRequest // that came while something else was waited for
	left    uint64                 // credit for the batch under way
}

func (p *tester) connect() *grpc.ClientConn {
	config := identity.ClientConfig(p.local.Certificate, p.trust, identity.Indexer, p.r.card.Identity, p.r.now)
	return must[*grpc.ClientConn](p.r.t)(grpc.NewClient("passthrough:///"+p.r.addr, grpc.WithTransportCredentials(credentials.NewTLS(config))))
}

// stream opens a stream, and says nothing yet.
func (p *tester) stream() *client {
	t := p.r.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	c := &client{p: p, conn: p.connect(), cancel: cancel}
	t.Cleanup(c.close)
	var err error
	if c.stream, err = oiv1.NewOutboundIndexingClient(c.conn).Session(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *client) close() {
	c.cancel()
	c.conn.Close()
}

func (c *client) send(f *oiv1.PublisherFrame) {
	c.p.r.t.Helper()
	if err := c.stream.Send(f); err != nil {
		c.p.r.t.Fatal(err)
	}
}

// recv is the next frame that is neither heartbeat nor credit.
func (c *client) recv() (*oiv1.IndexerFrame, error) {
	for {
		f, err := c.stream.Recv()
		if f.GetCredit() != nil {
			c.left += f.GetCredit().Octets
			continue
		}
		if err == nil && c.deaf && f.GetAcknowledgements() != nil {
			continue
		}
		if err != nil || f.GetHeartbeat() == nil {
			return f, err
		}
	}
}

func (c *client) next() *oiv1.IndexerFrame {
	c.p.r.t.Helper()
	return must[*oiv1.IndexerFrame](c.p.r.t)(c.recv())
}

// greeted is a stream that is past Welcome.
func (p *tester) greeted() *client {
	p.r.t.Helper()
	return p.greetedWith(nil)
}

// greetedWith is greeted by a publisher that kept the log's note.
func (p *tester) greetedWith(note []byte) *client {
	p.r.t.Helper()
	c := p.stream()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: &oiv1.Hello{Versions: []string{sessionVersion}, Note: note}}})
	if c.welcome = c.next().GetWelcome(); c.welcome == nil {
		p.r.t.Fatal("no welcome")
	}
	return c
}

// announcement is the signed announcement of all, made for this stream.
func (c *client) announcement(all ...*series) *oiv1.Announce {
	t := c.p.r.t
	t.Helper()
	pr, _ := peer.FromContext(c.stream.Context())
	info := pr.AuthInfo.(credentials.TLSInfo)
	exporter := must[[]byte](t)(info.State.ExportKeyingMaterial(exporterLabel, nil, 32))
	body := grants.AnnouncementBody{Exporter: grants.Binding(exporter), Nonce: grants.Binding(c.welcome.Nonce), Publisher: c.p.local.Name()}
	f := new(oiv1.Announce)
	for _, s := range all {
		g := s.pair.Grant
		body.Grants = append(body.Grants, g.Object.ID)
		body.Policies = append(body.Policies, s.pair.Policy.Object.ID)
		body.Requests = append(body.Requests, grants.Request{
			Actions: []grants.Action{grants.Discover, grants.Refresh}, Purposes: g.Body.Purposes, Scope: g.Body.Scope, Series: s.name,
		})
		f.Grants, f.Policies = append(f.Grants, g.Object.Raw), append(f.Policies, s.pair.Policy.Object.Raw)
		f.Secrets = append(f.Secrets, &oiv1.SeriesSecret{Series: s.name, LeafKey: s.key[:], Relationship: s.relation[:], Collection: "docs"})
	}
	byHash := func(a, b envelope.Hash) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(body.Grants, byHash)
	slices.SortFunc(body.Policies, byHash)
	slices.SortFunc(body.Requests, func(a, b grants.Request) int { return cmp.Compare(a.Series, b.Series) })
	stamp := grants.Stamp{Indexer: c.p.r.card.Identity, Epoch: c.p.local.Epoch(envelope.UseEnvelope), Sequence: 1, At: c.p.r.now()}
	f.Announcement = must[*grants.Announcement](t)(grants.SignAnnouncement(body, stamp, c.p.local.Envelope)).Object.Raw
	return f
}

func (c *client) announce(f *oiv1.Announce) *oiv1.AnnounceResult {
	c.p.r.t.Helper()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: f}})
	result := c.next().GetAnnounceResult()
	if result == nil {
		c.p.r.t.Fatal("no answer to the announcement")
	}
	return result
}

// session is a stream on which all is announced and admitted.
func (p *tester) session(all ...*series) *client {
	p.r.t.Helper()
	c := p.greeted()
	if r := c.announce(c.announcement(all...)); len(r.Refusals) > 0 {
		p.r.t.Fatalf("the announcement is refused: %v", r.Refusals)
	}
	return c
}

// deliver sends a packed batch and returns its answer.
func (c *client) deliver(b *parcel) *oiv1.BatchResult {
	c.p.r.t.Helper()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
	c.left = c.welcome.Limits.InitialCredit
	for frame := b.frame; len(frame) > 0; {
		for c.left == 0 {
			f := must[*oiv1.IndexerFrame](c.p.r.t)(c.stream.Recv())
			if r := f.GetBatchResult(); r != nil {
				return r
			}
			c.left += f.GetCredit().GetOctets()
		}
		n := min(len(frame), 1<<20, int(c.left))
		c.left -= uint64(n)
		c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: frame[:n]}}})
		frame = frame[n:]
	}
	f := c.next()
	for f.GetContentRequest() != nil { // for what there is room for now
		c.early = append(c.early, f.GetContentRequest())
		f = c.next()
	}
	if f.GetBatchResult() == nil {
		c.p.r.t.Fatalf("no answer to the batch but %v", f)
	}
	return f.GetBatchResult()
}

// push delivers changes that are to be applied.
func (c *client) push(s *series, changes ...change) *oiv1.BatchResult {
	c.p.r.t.Helper()
	b := s.parcel(changes...).pack()
	r := c.deliver(b)
	if r.Refused != nil {
		c.p.r.t.Fatalf("the batch is refused: %v", r.Refused)
	}
	b.take()
	return r
}

// held is a series with n pages that the indexer holds, and its open session.
func (p *tester) held(n int) (*series, *client) {
	p.r.t.Helper()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	c.push(s, puts("words", urls(site, n)...)...)
	return s, c
}

func (c *client) rebind(s *series) *oiv1.BatchResult {
	c.p.r.t.Helper()
	id, root := s.pair.Grant.Object.ID, s.root()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Rebind{Rebind: &oiv1.Rebind{
		Series: s.name, GrantId: id[:], JournalEpoch: s.epoch, Revision: s.revision, StateRoot: root[:],
	}}})
	return c.next().GetBatchResult()
}

// revocation signs one.
func (p *tester) revocation(b grants.RevocationBody) *grants.Revocation {
	p.next++
	stamp := grants.Stamp{Indexer: p.r.card.Identity, Epoch: 1, Sequence: p.next, At: p.r.now()}
	return must[*grants.Revocation](p.r.t)(grants.SignRevocation(b, stamp, p.local.Envelope))
}

// revoke brings a revocation over the unary call.
func (p *tester) revoke(rev *grants.Revocation) *oiv1.Acknowledgements {
	p.r.t.Helper()
	conn := p.connect()
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return must[*oiv1.Acknowledgements](p.r.t)(oiv1.NewOutboundIndexingClient(conn).Revoke(ctx, &oiv1.SignedObject{Object: rev.Object.Raw}))
}

// settled asks again until no deletion is pending.
func (p *tester) settled(rev *grants.Revocation) *oiv1.Acknowledgements {
	p.r.t.Helper()
	for range 400 {
		if a := p.revoke(rev); a.Pending == 0 {
			return a
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.r.t.Fatal("the deletion does not end")
	return nil
}
