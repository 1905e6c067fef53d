package publisher

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A fakeIndexer speaks the session over real mutual TLS, and signs what a
// stage makes, lies included.
type fakeIndexer struct {
	oiv1.UnimplementedOutboundIndexingServer
	t      testing.TB
	items  uint32      // of a batch, 0 for many
	alone  uint64      // above it a page travels alone, 0 if none does
	credit uint64      // that a batch may begin with, 0 for plenty
	gone   atomic.Bool // hangs up whatever comes
	full   atomic.Bool // has no room for a rebind now

	mu     sync.Mutex // guards what follows
	s      *stage.Stage
	lie    stage.Lie
	ackLie stage.AckLie
	hangUp bool // after the next commit, in place of the answer
	pairs  map[envelope.Hash]grants.Pair
	pages  map[string]state.Item
	fakeProbes
	fakeAsks
	fakePatches
	held     oiv1.CollectionState
	answered map[envelope.Hash]*oiv1.BatchResult // by batch or grant
	last     *stage.Batch
	offered  []*oiv1.Item // of the last batch
	acks     []*oiv1.Acknowledged
	batches  int      // that came
	alones   int      // of them, with a page alone
	limits   []uint32 // not empty: hints of refusals by a limit, one a batch
	quota    int      // not 0: how many pages it holds at the most
	chunk    int      // the largest that came
	slow     bool     // finds each batch to come too slowly
	excludes string   // not empty: pages with it in their URL are excluded
	rebinds  int
}

// A fixture is a publisher with one agreement with a fake indexer.
type fixture struct {
	t    testing.TB
	s    *stage.Stage
	fake *fakeIndexer
	p    *Publisher
	rel  *Relationship
	site string
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	s := stage.New(t, 1)
	dir, site := t.TempDir(), t.TempDir()
	x := &fixture{t: t, s: s, site: site}
	clock := func() time.Time { return s.Now }
	x.fake = &fakeIndexer{
		t: t, s: s, pairs: map[envelope.Hash]grants.Pair{s.Pair.Grant.Object.ID: s.Pair},
		pages: make(map[string]state.Item), answered: make(map[envelope.Hash]*oiv1.BatchResult), held: oiv1.CollectionState{Series: "docs-1"},
	}
	l := x.fake.serve(clock)
	trust, err := identity.OpenTrust(filepath.Join(dir, "trust"), identity.TrustOptions{Now: clock})
	check(t, err)
	_, err = trust.Add(s.Indexer.Card.Object.Raw, identity.AddOptions{Endpoint: l, Now: s.Now})
	check(t, err)
	store, err := durable.Open(filepath.Join(dir, "store"), durable.Options{})
	check(t, err)
	x.p = &Publisher{
		pulse: newPulse(),
		dir:   dir, log: slog.New(slog.DiscardHandler), clock: clock, local: s.Publisher, trust: trust, store: store,
		edits: make(map[string]*sync.Mutex),
	}
	t.Cleanup(func() { check(t, x.p.Close()) })
	x.rel = &Relationship{Series: "docs-1", Indexer: s.Indexer.Name(), Collection: "docs", LeafKey: s.LeafKey, Relation: s.R, Pair: s.Pair}
	check(t, x.rel.write(dir))
	check(t, AddSource(dir, Source{Name: "docs", Kind: "site", Location: site, BaseURL: "https://example.com/doc/"}))
	return x
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (x *fixture) write(name, words string) {
	x.t.Helper()
	path := filepath.Join(x.site, name+".html")
	check(x.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(x.t, os.WriteFile(path, []byte("<!DOCTYPE html><html lang=en><title>"+name+"</title><main><h1>"+name+"</h1><p>"+words+"</p></main></html>"), 0o644))
}

func (x *fixture) push() ([]Result, error) {
	x.t.Helper()
	return x.p.Push(x.t.Context(), PushOptions{})
}

func (x *fixture) cursor() cursor {
	x.t.Helper()
	c, err := agreement{x.p.store, x.rel}.cursor(x.p.store)
	check(x.t, err)
	return c
}

func (x *fixture) receipts() int {
	x.t.Helper()
	n, bad, err := x.p.VerifyReceipts()
	check(x.t, err)
	if len(bad) > 0 {
		x.t.Errorf("receipts that do not hold: %v", bad)
	}
	return n
}

// renew stores the next grant of the series.
func (x *fixture) renew(sequence uint64, prefix string) {
	x.t.Helper()
	pair := x.s.Grant(x.t, sequence, func(d *grants.Draft) {
		scope, err := grants.PrefixScope(prefix)
		check(x.t, err)
		d.Scope, d.Mode = scope, x.rel.Pair.Grant.Body.Mode
	})
	x.fake.pairs[pair.Grant.Object.ID] = pair
	x.rel.Pair = pair
	check(x.t, x.rel.write(x.p.dir))
}

func (f *fakeIndexer) serve(now func() time.Time) string {
	dir := f.t.TempDir()
	trust, err := identity.OpenTrust(dir, identity.TrustOptions{Now: now})
	check(f.t, err)
	_, err = trust.Add(f.s.Publisher.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{"https://example.com"}, Now: f.s.Now})
	check(f.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(f.t, err)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(identity.ServerConfig(f.s.Indexer.Certificate, trust, identity.Publisher, now))))
	oiv1.RegisterOutboundIndexingServer(server, f)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(l)
	}()
	f.t.Cleanup(func() {
		server.Stop()
		<-ended
	})
	return l.Addr().String()
}

var errHungUp = errors.New("hung up")

func (f *fakeIndexer) Session(stream grpc.BidiStreamingServer[oiv1.PublisherFrame, oiv1.IndexerFrame]) error {
	seen := uint64(0)
	for {
		in, err := stream.Recv()
		if err != nil {
			return nil
		}
		out, err := f.frame(stream, in, &seen)
		if err != nil {
			return err
		}
		if out.GetBatchResult().GetCommitted() != nil {
			seen = max(seen, f.size())
		}
		for ; out != nil; out = f.follows(out) {
			if err := stream.Send(out); err != nil {
				return nil
			}
		}
	}
}

func (f *fakeIndexer) size() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.s.Size()
}

// frame answers one frame.
func (f *fakeIndexer) frame(stream grpc.BidiStreamingServer[oiv1.PublisherFrame, oiv1.IndexerFrame], in *oiv1.PublisherFrame, seen *uint64) (*oiv1.IndexerFrame, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.gone.Load():
		return nil, errHungUp
	case in.GetHello() != nil:
		f.open = nil
		return f.welcome(in.GetHello(), seen), nil
	case in.GetAnnounce() != nil:
		held := proto.Clone(&f.held).(*oiv1.CollectionState)
		held.Wanted = uint64(len(f.signals))
		return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_AnnounceResult{AnnounceResult: &oiv1.AnnounceResult{Collections: []*oiv1.CollectionState{held}}}}, nil
	case in.GetBatch() != nil:
		return f.batch(stream, in.GetBatch(), *seen)
	case in.GetRebind() != nil && f.full.Load():
		q := in.GetRebind()
		return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_BatchResult{BatchResult: &oiv1.BatchResult{
			Series: q.Series, BatchId: q.GrantId, Refused: &oiv1.Fault{Reason: string(grants.ErrExhausted), RetryMs: 250},
		}}}, nil
	case in.GetRebind() != nil:
		return f.rebind(in.GetRebind(), *seen)
	case in.GetFreshness() != nil:
		return f.signalled(in.GetFreshness())
	case in.GetContentAnswer() != nil:
		return f.answers(in.GetContentAnswer())
	case in.GetProbe() != nil:
		return f.probe(in.GetProbe()), nil
	case in.GetRangeRequest() != nil:
		return f.rows(in.GetRangeRequest()), nil
	case in.GetReceiptRequest() != nil:
		q := in.GetReceiptRequest()
		if a := f.answered[envelope.Hash(q.BatchId)]; a != nil {
			return f.again(a, *seen), nil
		}
		return result(&oiv1.BatchResult{Series: q.Series, BatchId: q.BatchId, Refused: &oiv1.Fault{Reason: string(grants.ErrNotHeld)}}), nil
	}
	return nil, nil
}

func result(r *oiv1.BatchResult) *oiv1.IndexerFrame {
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_BatchResult{BatchResult: r}}
}

func (f *fakeIndexer) welcome(h *oiv1.Hello, seen *uint64) *oiv1.IndexerFrame {
	w := &oiv1.Welcome{
		Version: sessionVersion, Features: []string{featurePatch}, Nonce: make([]byte, 32), Note: f.s.Note(f.t, f.s.Size()),
		Limits: &oiv1.Limits{ChunkBytes: 1 << 20, BatchItems: cmp.Or(f.items, 1000), BatchBytes: 4 << 20, PageBytes: 1 << 20, AloneBytes: f.alone, Signals: 3, InitialCredit: cmp.Or(f.credit, 1<<30)},
	}
	w.Nonce[0] = 1
	if len(h.Note) > 0 {
		t, err := translog.OpenNote(h.Note, f.s.Indexer.Card.Log.VKey)
		check(f.t, err)
		w.Consistency = rawPath(f.s.Log.Consistency(t.Size, f.s.Size()))
	}
	*seen = f.s.Size()
	return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Welcome{Welcome: w}}
}

func rawPath(path [][32]byte) [][]byte {
	var raw [][]byte
	for _, h := range path {
		raw = append(raw, h[:])
	}
	return raw
}

// again is a stored answer with the proof between its tree and the one that
// this session was shown.
func (f *fakeIndexer) again(a *oiv1.BatchResult, seen uint64) *oiv1.IndexerFrame {
	t, err := translog.OpenNote(a.Committed.Note, f.s.Indexer.Card.Log.VKey)
	check(f.t, err)
	a.Consistency = rawPath(f.s.Log.Consistency(min(t.Size, seen), max(t.Size, seen)))
	return result(a)
}

// batch commits a batch, with every page included.
func (f *fakeIndexer) batch(stream grpc.BidiStreamingServer[oiv1.PublisherFrame, oiv1.IndexerFrame], b *oiv1.Batch, seen uint64) (*oiv1.IndexerFrame, error) {
	f.batches++
	var frame []byte
	for last := false; !last && (b.Alone || uint64(len(frame)) < b.FrameBytes); {
		if r, err := f.giveCredit(stream, b, len(frame)); r != nil || err != nil {
			return r, err
		}
		in, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		frame = append(frame, in.GetChunk().GetData()...)
		f.chunk = max(f.chunk, len(in.GetChunk().GetData()))
		last = in.GetChunk().GetLast()
	}
	if b.Alone {
		f.alones++
	}
	o, err := envelope.Parse(b.Manifest)
	check(f.t, err)
	var m translog.Manifest
	check(f.t, o.DecodeBody(&m))
	if len(f.limits) > 0 {
		return f.refuseByLimit(b.Series, o.ID), nil
	}
	if b.DictionaryBytes > 0 {
		if frame = f.unpatch(b, frame); frame == nil {
			return result(&oiv1.BatchResult{Series: b.Series, BatchId: o.ID[:], Refused: &oiv1.Fault{Reason: string(grants.ErrBase)}}), nil
		}
	}
	if f.slow {
		return &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Fault{Fault: &oiv1.Fault{Reason: string(grants.ErrMalformed), Detail: "too slow"}}}, nil
	}
	if f.overQuota(m, frame, b.ItemsBytes) {
		return result(&oiv1.BatchResult{Series: b.Series, BatchId: o.ID[:], Refused: &oiv1.Fault{Reason: string(grants.ErrQuota), Detail: "that is too much", RetryMs: 300_000}}), nil
	}
	if f.spoilt(b, frame) {
		return result(&oiv1.BatchResult{Series: b.Series, BatchId: o.ID[:], Refused: &oiv1.Fault{Reason: string(grants.ErrMalformed), Detail: "this page"}}), nil
	}
	f.s.JournalEpoch = m.JournalEpoch
	offer := &stage.Batch{From: m.From, Through: m.Through, Request: m.Request, Manifest: o, StateAfter: m.StateAfter, Pair: f.pairs[m.GrantID]}
	decisions := f.unpack(offer, m, frame, b.ItemsBytes)
	a := f.s.Answer(f.t, offer, seen, f.lie)
	f.last = offer
	f.came(m, offer.Pages)
	return f.commit(b.Series, o.ID, a, decisions, m.GrantID, m.StateAfter, m.Through)
}

// unpack fills the batch's pages in, and decides on each.
func (f *fakeIndexer) unpack(offer *stage.Batch, m translog.Manifest, frame []byte, itemsBytes uint64) (decisions []byte) {
	if len(frame) == 0 {
		return nil
	}
	d, err := zstd.NewReader(nil)
	check(f.t, err)
	defer d.Close()
	raw, err := d.DecodeAll(frame, nil)
	check(f.t, err)
	var items oiv1.Items
	check(f.t, proto.Unmarshal(raw[:itemsBytes], &items))
	f.offered = items.Items
	payloads, revision := raw[itemsBytes:], f.base(m)
	for _, it := range items.Items {
		revision += it.RevisionDelta
		body := payloads[:it.Length]
		payloads = payloads[it.Length:]
		page := stage.Page{Op: translog.Op(it.Op), URL: it.Url, Payload: string(body), Decision: translog.Include}
		decision := oiv1.Decision_DECISION_INCLUDE
		h := sha256.Sum256([]byte(it.Url))
		if page.Op == translog.OpTombstone {
			page.Decision, decision = translog.DeleteAck, oiv1.Decision_DECISION_DELETE
			delete(f.pages, it.Url)
		} else {
			f.keep(it.Url, body)
			f.pages[it.Url] = state.Item{URLHash: h, Digest: sha256.Sum256(body), Format: uint8(it.Format)}
		}
		if f.excludes != "" && strings.Contains(it.Url, f.excludes) {
			page.Decision, decision = translog.Exclude, oiv1.Decision_DECISION_EXCLUDE
		}
		var digest [32]byte
		if page.Op == translog.OpPut {
			digest = sha256.Sum256(body)
		}
		offer.Pages = append(offer.Pages, page)
		offer.Leaves = append(offer.Leaves, f.s.LeafKey.Leaf(page.Op, m.JournalEpoch, revision, it.Url, digest))
		decisions = append(decisions, byte(decision))
	}
	return decisions
}

// commit keeps an answer, and sends it or hangs up.
func (f *fakeIndexer) commit(series string, id envelope.Hash, a evaluate.Answer, decisions []byte, grant, root envelope.Hash, revision uint64) (*oiv1.IndexerFrame, error) {
	c := &oiv1.Committed{Receipt: a.Receipt, Entries: a.Entries, Checkpoint: a.Checkpoint, Note: a.Note, Decisions: decisions}
	for _, p := range a.Inclusion {
		c.Inclusion = append(c.Inclusion, &oiv1.Path{Hashes: rawPath(p)})
	}
	r := &oiv1.BatchResult{Series: series, BatchId: id[:], Committed: c, Consistency: rawPath(a.Consistency)}
	f.answered[id] = r
	receipt, err := envelope.Parse(a.Receipt)
	check(f.t, err)
	f.held = oiv1.CollectionState{
		Series: series, JournalEpoch: f.s.JournalEpoch, Revision: revision, StateRoot: root[:], Receipt: receipt.ID[:], BoundGrant: grant[:],
	}
	if f.hangUp {
		f.hangUp = false
		return nil, errHungUp
	}
	return result(r), nil
}

// rebind takes the state over, without the pages outside the new scope.
func (f *fakeIndexer) rebind(q *oiv1.Rebind, seen uint64) (*oiv1.IndexerFrame, error) {
	f.rebinds++
	if a := f.answered[envelope.Hash(q.GrantId)]; a != nil {
		return f.again(a, seen), nil
	}
	if q.JournalEpoch != f.held.JournalEpoch || q.Revision != f.held.Revision || string(q.StateRoot) != string(f.held.StateRoot) {
		return result(&oiv1.BatchResult{Series: q.Series, BatchId: q.GrantId, Refused: &oiv1.Fault{Reason: string(grants.ErrState)}}), nil
	}
	r := &stage.Rebind{Pair: f.pairs[envelope.Hash(q.GrantId)], Cursor: q.Revision}
	for url, it := range f.pages {
		if r.Pair.Grant.Body.Scope.Holds(url, it.Digest) != nil {
			delete(f.pages, url)
			r.Left++
		}
	}
	r.Pages, r.StateAfter = uint64(len(f.pages)), rootOf(f.t, f.pages)
	return f.commit(q.Series, envelope.Hash(q.GrantId), f.s.AnswerRebind(f.t, r, seen, f.lie), nil, envelope.Hash(q.GrantId), r.StateAfter, q.Revision)
}

// Revoke stops at the first call and deletes at the second.
func (f *fakeIndexer) Revoke(_ context.Context, q *oiv1.SignedObject) (*oiv1.Acknowledgements, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := envelope.Parse(q.Object)
	check(f.t, err)
	rev := &grants.Revocation{Object: o}
	check(f.t, o.DecodeBody(&rev.Body))
	kind := translog.RevokeAck
	if len(f.acks) == 1 {
		kind = translog.DeleteAck
	}
	if len(f.acks) < 2 {
		a := f.s.Acknowledge(f.t, f.last, rev, kind, q.Seen, f.ackLie)
		f.acks = append(f.acks, &oiv1.Acknowledged{
			Series: "docs-1", Acknowledgement: a.Acknowledgement, Entry: a.Entry, Inclusion: &oiv1.Path{Hashes: rawPath(a.Inclusion)},
			Checkpoint: a.Checkpoint, Note: a.Note, Consistency: rawPath(a.Consistency),
		})
	}
	return &oiv1.Acknowledgements{RevocationId: o.ID[:], Acknowledged: f.acks, Pending: uint32(2 - len(f.acks))}, nil
}

func (x *fixture) peer() *identity.Peer {
	x.t.Helper()
	who, ok := x.p.trust.Lookup(x.rel.Indexer)
	if !ok {
		x.t.Fatal("the indexer is not trusted")
	}
	return who
}
