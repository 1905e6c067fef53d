package feed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// maxMessage bounds one message of the feed, in octets: a piece of a payload, or a
// put with its terms.
const maxMessage = 1 << 20

// window is how much may be on its way to the handler, in octets: a stop waits behind as
// much of what was sent before it. It does not grow with the speed of the line.
const window = 256 << 10

// errProtocol is what the other side may not say.
var errProtocol = errors.New("the indexer breaks the feed's rules")

// A connection is one gRPC connection, which connects anew by itself.
type connection struct {
	c      Config
	conn   *grpc.ClientConn
	client oiv1.FeedClient
	log    *slog.Logger
	items  uint64 // that came, ever
}

func open(c Config) (*connection, error) {
	local, trust, name, err := trusted(c)
	if err != nil {
		return nil, err
	}
	c.MaxPayload, c.Silence = cmp.Or(c.MaxPayload, 128<<20), cmp.Or(c.Silence, 42*time.Second)
	tls := identity.ClientConfig(local.Certificate, trust, identity.Indexer, name, time.Now)
	conn, err := grpc.NewClient("passthrough:///"+c.Addr,
		grpc.WithTransportCredentials(credentials.NewTLS(tls)), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window))
	if err != nil {
		return nil, err
	}
	r := &connection{c: c, conn: conn, client: oiv1.NewFeedClient(conn), log: c.Log}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

func (r *connection) close() { r.conn.Close() }

// stream reads one stream to its end.
func (r *connection) stream(ctx context.Context, h Handler, fresh bool) error {
	cursor, err := h.Cursor(ctx)
	if err != nil {
		return errHandler{err}
	}
	if fresh {
		cursor = nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(r.c.Silence, cancel)
	defer silent.Stop()
	s, err := r.client.Subscribe(ctx, &oiv1.SubscribeRequest{Purpose: r.c.Purpose, Cursor: cursor})
	if err != nil {
		return refusedBy(err)
	}
	dropped := false
	for {
		it, err := r.next(s, silent)
		if err != nil {
			return refusedBy(err)
		}
		r.items++
		silent.Stop() // the handler takes the time that it needs
		if err := h.Apply(ctx, it); err != nil {
			return errHandler{err}
		}
		dropped = dropped || it.Op == Delete || it.Op == Stop || it.Op == Reset
		if it.Op == Head && dropped {
			if _, err := r.client.Purged(ctx, &oiv1.PurgedRequest{Purpose: r.c.Purpose, Cursor: it.Cursor}); err != nil {
				return refusedBy(err)
			}
			dropped = false
		}
		silent.Reset(r.c.Silence)
	}
}

// next reads one item, and the whole payload of a put.
func (r *connection) next(s grpc.ServerStreamingClient[oiv1.FeedItem], silent *time.Timer) (*Item, error) {
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	silent.Reset(r.c.Silence)
	it, err := itemOf(m)
	if err != nil || it.Op != Put {
		return it, err
	}
	size := m.GetPut().GetSize()
	if size > r.c.MaxPayload || size > math.MaxInt32 {
		return nil, fmt.Errorf("%w: a payload of %d octets, at most %d", errProtocol, size, r.c.MaxPayload)
	}
	for uint64(len(it.Page.Payload)) < size {
		if m, err = s.Recv(); err != nil {
			return nil, err
		}
		silent.Reset(r.c.Silence)
		piece := m.GetPiece().GetData()
		if len(piece) == 0 || uint64(len(piece)) > size-uint64(len(it.Page.Payload)) {
			return nil, fmt.Errorf("%w: a payload that is not as long as it was said to be", errProtocol)
		}
		it.Page.Payload, it.Cursor = append(it.Page.Payload, piece...), m.GetCursor()
	}
	if sha256.Sum256(it.Page.Payload) != it.Page.Digest {
		return nil, fmt.Errorf("%w: a payload with another digest", errProtocol)
	}
	return it, nil
}

// itemOf reads a message; pieces are read behind their put.
func itemOf(m *oiv1.FeedItem) (*Item, error) {
	it := &Item{Cursor: m.GetCursor()}
	var page *oiv1.FeedPage
	switch f := m.GetItem().(type) {
	case *oiv1.FeedItem_Put:
		it.Op, page = Put, f.Put.GetPage()
		it.Page = pageOf(f.Put)
	case *oiv1.FeedItem_Delete:
		it.Op, page, it.Reason = Delete, f.Delete.GetPage(), f.Delete.GetReason()
	case *oiv1.FeedItem_Stop:
		it.Op, it.Publisher, it.Series, it.Reason = Stop, f.Stop.GetPublisher(), f.Stop.GetSeries(), f.Stop.GetReason()
	case *oiv1.FeedItem_Reset_:
		it.Op, it.Reason = Reset, f.Reset_.GetReason()
	case *oiv1.FeedItem_Head:
		it.Op, it.Time = Head, at(f.Head.GetTime())
	default:
		return nil, fmt.Errorf("%w: an item that is not known", errProtocol)
	}
	if page == nil && (it.Op == Put || it.Op == Delete) {
		return nil, fmt.Errorf("%w: a %s that names no page", errProtocol, it.Op)
	}
	if page != nil {
		if len(page.GetUrlHash()) != 32 {
			return nil, fmt.Errorf("%w: a page's hash of %d octets", errProtocol, len(page.GetUrlHash()))
		}
		it.Publisher, it.Series, it.URLHash = page.GetPublisher(), page.GetSeries(), [32]byte(page.GetUrlHash())
	}
	if it.Op == Put && sha256.Sum256([]byte(it.Page.URL)) != it.URLHash {
		return nil, fmt.Errorf("%w: a page under another URL's hash", errProtocol)
	}
	return it, nil
}

func pageOf(p *oiv1.FeedPut) *Page {
	t, e := p.GetTerms(), p.GetEvidence()
	return &Page{
		URL: p.GetUrl(), Collection: p.GetCollection(), Format: uint8(p.GetFormat()), Digest: hash(p.GetDigest()), Modified: at(p.GetModified()),
		Terms: Terms{
			Purposes: t.GetPurposes(), AttributionRequired: t.GetAttributionRequired(), LinkBack: t.GetLinkBack(), Attribution: t.GetAttribution(),
			Snippets: t.GetSnippets(), Summary: t.GetSummary(), Embeddings: t.GetEmbeddings(), Derivatives: t.GetOtherDerivatives(),
			Redistribution: t.GetRedistribution(), TermsURL: t.GetTermsUrl(),
			CopyUntil: at(t.GetCopyUntil()), FeaturesUntil: at(t.GetFeaturesUntil()), ExpiresAt: at(t.GetExpiresAt()),
		},
		Evidence: Evidence{
			LogOrigin: e.GetLogOrigin(), Entry: e.GetEntry(), EntryID: hash(e.GetEntryId()), Place: e.GetPlace(), Manifest: hash(e.GetManifest()),
			GrantID: hash(e.GetGrantId()), PolicyHash: hash(e.GetPolicyHash()), JournalEpoch: e.GetJournalEpoch(), Revision: e.GetRevision(),
		},
	}
}

// hash is a hash from the wire; one of another length is none, and zero.
func hash(b []byte) (h [32]byte) {
	if len(b) == len(h) {
		copy(h[:], b)
	}
	return h
}

// at is a time from the wire; 0 is none.
func at(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// refusedBy finds the typed refusal in what ended a call.
func refusedBy(err error) error {
	for _, d := range status.Convert(err).Details() {
		if f, ok := d.(*oiv1.Fault); ok && f.GetRetryMs() == 0 {
			return &Refused{Reason: f.GetReason(), Detail: f.GetDetail()}
		}
	}
	return err
}
