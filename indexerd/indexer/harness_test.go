package indexer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

const (
	site  = "https://example.com/doc/"
	blogs = "https://example.com/blog/"
)

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A rig is an indexer in a folder of its own, behind its real gRPC server, with
// a clock that stands still until it is moved.
type rig struct {
	t     testing.TB
	dir   string
	clock atomic.Int64 // Unix seconds
	x     *Indexer
	addr  string
	stop  func()
	card  *identity.Card
	// before becomes the hook of the next open.
	before func() error
	// What follows is passed on at the next open.
	fs      durable.FS
	room    durable.Room
	publish time.Duration
	rows    int // of one step of a deletion
	limits  Limits

	requests Requests
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigWith(t, nil)
}

// newRigWith is newRig whose deletions are stopped by before.
func newRigWith(t testing.TB, before func() error) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), before: before}
	if before != nil {
		r.rows = 15
	}
	r.create()
	r.open()
	t.Cleanup(func() { r.close() })
	return r
}

// create makes the indexer's identity.
func (r *rig) create() {
	t := r.t
	r.clock.Store(time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC).Unix())
	local := must[*identity.Local](t)(identity.Create(r.dir, identity.Options{
		Identity: "spiffe://search.example/indexer", Role: identity.Indexer, Now: r.now().Add(-time.Hour),
		Endpoint: "search.example:7443", LogURL: "https://log.search.example",
	}))
	r.card = local.Card
}

func (r *rig) now() time.Time { return time.Unix(r.clock.Load(), 0).UTC() }

func (r *rig) forward(d time.Duration) { r.clock.Add(int64(d / time.Second)) }

func (r *rig) open() {
	r.t.Helper()
	r.x = must[*Indexer](r.t)(Open(Config{Dir: r.dir, Now: r.now, FS: r.fs, Room: r.room, Publish: r.publish, Limits: r.limits, Requests: r.requests}))
	r.x.tender.once.Lock()
	r.x.tender.before = r.before
	if r.rows > 0 {
		r.x.tender.rows = r.rows
	}
	r.x.tender.once.Unlock()
	l := must[net.Listener](r.t)(net.Listen("tcp", "127.0.0.1:0"))
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	server := r.x.NewServer()
	go func() { served <- r.x.Serve(ctx, server, l) }()
	r.addr = l.Addr().String()
	r.stop = func() {
		cancel()
		if err := <-served; err != nil {
			r.t.Error(err)
		}
	}
}

// close ends the indexer; it may be opened again.
func (r *rig) close() {
	r.t.Helper()
	if r.x == nil {
		return
	}
	r.x.sessions.endAll(errShutdown)
	r.stop()
	if err := r.x.Close(); err != nil {
		r.t.Error(err)
	}
	r.x = nil
}

// A tester is a publisher by its identity alone: what it sends is up to each
// test.
type tester struct {
	r     *rig
	dir   string
	local *identity.Local
	trust *identity.Trust
	next  uint64 // sequence of revocations
}

func (r *rig) publisher(name envelope.Name, origins ...identity.Origin) *tester {
	r.t.Helper()
	t, dir := r.t, r.t.TempDir()
	p := &tester{r: r, dir: dir}
	p.local = must[*identity.Local](t)(identity.Create(dir, identity.Options{Identity: name, Role: identity.Publisher, Now: r.now().Add(-time.Hour)}))
	p.trust = must[*identity.Trust](t)(identity.OpenTrust(filepath.Join(dir, "trust"), identity.TrustOptions{Now: r.now}))
	must[*identity.Peer](t)(p.trust.Add(r.card.Object.Raw, identity.AddOptions{Now: r.now()}))
	if len(origins) > 0 {
		must[*identity.Peer](t)(r.x.trust.Add(p.local.Card.Object.Raw, identity.AddOptions{Origins: origins, Now: r.now()}))
	}
	return p
}

// example is the publisher of most tests.
func (r *rig) example() *tester {
	return r.publisher("spiffe://example.com/publisher", "https://example.com")
}

// A page is what the publisher knows of one that it offered.
type page struct {
	digest   [32]byte
	revision uint64
}

// A series is an agreement with what the publisher believes to be its state.
type series struct {
	p        *tester
	name     string
	key      translog.LeafKey
	relation [32]byte
	pair     grants.Pair
	prefix   string

	epoch, revision uint64
	pages           map[string]page
}

func (p *tester) series(name, prefix string, change func(*grants.Draft)) *series {
	s := &series{p: p, name: name, prefix: prefix, epoch: 77, pages: make(map[string]page)}
	rand.Read(s.key[:])
	rand.Read(s.relation[:])
	s.pair = s.grant(1, change)
	return s
}

// grant issues a grant of the series.
func (s *series) grant(sequence uint64, change func(*grants.Draft)) grants.Pair {
	t := s.p.r.t
	t.Helper()
	d := grants.Draft{
		Stamp:     grants.Stamp{Indexer: s.p.r.card.Identity, Epoch: 1, Sequence: sequence, At: s.p.r.now()},
		Publisher: s.p.local.Name(), Series: s.name, Scope: must[grants.Scope](t)(grants.PrefixScope(s.prefix)),
		Purposes: grants.Purposes{grants.SearchIndex}, LeafKeyCommit: s.key.Commit(), Lifetime: 24 * time.Hour,
		GrantNonce: grants.Nonce{1, byte(sequence)}, PolicyNonce: grants.Nonce{2, byte(sequence)},
	}
	if change != nil {
		change(&d)
	}
	pair, _, err := grants.Issue(d, s.p.local.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func (s *series) subject() envelope.Name {
	return translog.RelationshipName(s.relation, s.p.local.Name())
}

// root is the state that the publisher believes in.
func (s *series) root() envelope.Hash {
	var items []state.Item
	for url, pg := range s.pages {
		items = append(items, state.Item{URLHash: sha256.Sum256([]byte(url)), Digest: pg.digest, Format: uint8(content.FormatTCT)})
	}
	slices.SortFunc(items, func(a, b state.Item) int { return bytes.Compare(a.URLHash[:], b.URLHash[:]) })
	root, _, err := state.Of(func(yield func(state.Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
	})
	if err != nil {
		s.p.r.t.Fatal(err)
	}
	return root
}

// urls gives n URLs below prefix.
func urls(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%spage-%04d", prefix, i))
	}
	return all
}

// A change is one item: no text is a deletion.
type change struct {
	url, text string
	payload   []byte // in place of what text gives
}

func puts(text string, urls ...string) []change {
	var all []change
	for _, u := range urls {
		all = append(all, change{url: u, text: text + " at " + u})
	}
	return all
}

func payloadOf(url, text string) []byte {
	payload, _ := tct.Encode(nil, tct.Document{URL: url, Title: "A page", Content: text})
	return payload
}

// A parcel is a batch that is ready to be sent; tests change what they like.
type parcel struct {
	s        *series
	header   envelope.Header
	body     translog.Manifest
	signer   *envelope.Signer
	items    oiv1.Items
	payloads []byte
	after    map[string]page
	leaves   [][32]byte

	manifest *envelope.Object
	batch    *oiv1.Batch
	frame    []byte
}

// parcel makes a batch of changes on top of what the series holds.
func (s *series) parcel(changes ...change) *parcel {
	r := s.p.r
	b := &parcel{s: s, after: make(map[string]page), signer: s.p.local.Envelope}
	for u, pg := range s.pages {
		b.after[u] = pg
	}
	for i, c := range changes {
		revision := s.revision + uint64(i) + 1
		it := &oiv1.Item{RevisionDelta: 1, Url: c.url, Op: oiv1.Op_OP_TOMBSTONE}
		op, digest := translog.OpTombstone, [32]byte{}
		if c.text != "" || c.payload != nil {
			payload := c.payload
			if payload == nil {
				payload = payloadOf(c.url, c.text)
			}
			op, digest = translog.OpPut, sha256.Sum256(payload)
			it.Op, it.Format, it.Length = oiv1.Op_OP_PUT, uint32(content.FormatTCT), uint64(len(payload))
			b.payloads = append(b.payloads, payload...)
			b.after[c.url] = page{digest, revision}
		} else {
			delete(b.after, c.url)
		}
		b.items.Items = append(b.items.Items, it)
		b.leaves = append(b.leaves, s.key.Leaf(op, s.epoch, revision, c.url, digest).Hash())
	}
	through := s.revision + max(1, uint64(len(changes)))
	after := *s
	after.pages = b.after
	b.body = translog.Manifest{
		CollectionRef: s.key.CollectionRef("docs"), From: s.revision, GrantID: s.pair.Grant.Object.ID, JournalEpoch: s.epoch,
		Offered: translog.SetOf(b.leaves), Publisher: s.p.local.Name(), StateBefore: s.root(), StateAfter: after.root(), Through: through,
	}
	b.header = envelope.Header{
		Type: envelope.BatchManifest, Authority: s.p.local.Name().Authority(), Subject: s.subject(), Audience: r.card.Identity,
		Epoch: s.p.local.Epoch(envelope.UseEnvelope), Sequence: through, IssuedAt: r.now(),
	}
	return b
}

// pack signs and compresses.
func (b *parcel) pack() *parcel {
	t := b.s.p.r.t
	t.Helper()
	b.manifest = must[*envelope.Object](t)(envelope.Sign(b.header, &b.body, b.signer))
	list := must[[]byte](t)(proto.Marshal(&b.items))
	raw := append(list, b.payloads...)
	encoder := must[*zstd.Encoder](t)(zstd.NewWriter(nil))
	defer encoder.Close()
	b.frame = encoder.EncodeAll(raw, nil)
	b.batch = &oiv1.Batch{
		Series: b.s.name, Manifest: b.manifest.Raw, FrameBytes: uint64(len(b.frame)), ItemsBytes: uint64(len(raw) - len(b.payloads)), RawBytes: uint64(len(raw)),
	}
	return b
}

// take believes the batch to be applied.
func (b *parcel) take() {
	b.s.pages, b.s.revision, b.s.epoch = b.after, b.body.Through, b.body.JournalEpoch
}

// log reads every entry of the log.
func (r *rig) log() []translog.Entry {
	r.t.Helper()
	view := r.x.tlog.Released()
	var all []translog.Entry
	for i := range view.Tree.Size {
		var e translog.Entry
		o := must[*envelope.Object](r.t)(envelope.Parse(must[[]byte](r.t)(view.Entry(i))))
		if err := o.DecodeBody(&e); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// words gives each entry as "decision/status count".
func words(all []translog.Entry) []string {
	var w []string
	for _, e := range all {
		w = append(w, fmt.Sprintf("%s/%s %d", e.Decision, e.Status, e.Objects.Count))
	}
	return w
}

// eventually waits for what another goroutine brings about.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for range 600 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("waited in vain: %s", what)
}

func (r *rig) readable(s *series, url string) error {
	_, err := r.x.Read(s.p.local.Name(), s.name, url, grants.SearchIndex)
	return err
}

var errStopped = errors.New("stopped by the test")
