package e2e

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A writer is a whole publisher in a few fields: an identity, one grant, and
// what it knows of the indexer. All of it is in memory and outlives the indexer,
// as a publisher's disk does. One goroutine owns it.
type writer struct {
	local   *identity.Local
	indexer *identity.Card
	trust   *identity.Trust // shared
	address string
	record  *record

	origin   string
	series   string
	leafKey  translog.LeafKey
	relation [32]byte
	pair     grants.Pair

	epoch, revision uint64
	pages           map[[32]byte]state.Item
	tree            translog.Tree // of the log, seen last
	note            []byte
	pending         *delivery // sent, perhaps, and not acknowledged

	much int                 // pages of a batch, with many words each; 0: one to three, with few
	took func(time.Duration) // told of each delivery; nil: nobody is
}

// A delivery is a batch, in the octets in which it is sent until it is answered.
type delivery struct {
	manifest *envelope.Object
	body     translog.Manifest
	batch    *oiv1.Batch
	frame    []byte
	leaves   [][32]byte
	after    map[[32]byte]state.Item
}

// newWriter makes an identity whom the indexer trusts, with a grant for it.
func newWriter(t testing.TB, p *pair.Pair, trusts [2]*identity.Trust, card *identity.Card, r *record, n int) *writer {
	name := envelope.Name(fmt.Sprintf("spiffe://w%d.test/publisher", n))
	w := &writer{
		indexer: card, trust: trusts[0], address: p.Address, record: r,
		origin: fmt.Sprintf("https://w%d.test", n), series: fmt.Sprintf("pages-%d", n), epoch: uint64(n) + 1, pages: map[[32]byte]state.Item{},
	}
	now := time.Now()
	var err error
	w.local, err = identity.Create(filepath.Join(t.TempDir(), "id"), identity.Options{Identity: name, Role: identity.Publisher, Now: now})
	pair.Check(t, err)
	_, err = trusts[1].Add(w.local.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{identity.Origin(w.origin)}, Now: now})
	pair.Check(t, err)
	var g, pol grants.Nonce
	for _, b := range [][]byte{w.leafKey[:], w.relation[:], g[:], pol[:]} {
		rand.Read(b)
	}
	scope, err := grants.PrefixScope(w.origin + "/")
	pair.Check(t, err)
	w.pair, _, err = grants.Issue(grants.Draft{
		Stamp: w.stamp(), Publisher: name, Series: w.series, Scope: scope, Purposes: grants.Purposes{grants.SearchIndex},
		LeafKeyCommit: w.leafKey.Commit(), Lifetime: 24 * time.Hour, GrantNonce: g, PolicyNonce: pol,
	}, w.local.Envelope)
	pair.Check(t, err)
	return w
}

func (w *writer) stamp() grants.Stamp {
	return grants.Stamp{Indexer: w.indexer.Identity, Epoch: w.local.Epoch(envelope.UseEnvelope), Sequence: 1, At: time.Now().Truncate(time.Second)}
}

// run writes, over one session after the other, until ctx ends and nothing is
// pending any more. It returns what must never happen.
func (w *writer) run(ctx, final context.Context) error {
	for {
		err := w.session(ctx, final)
		var broken *violation
		switch {
		case errors.As(err, &broken):
			return err
		case final.Err() != nil:
			return fmt.Errorf("%s is not answered: %w", w.local.Name(), err)
		case err == nil:
			return nil
		}
		select { // the indexer was killed, or is not back yet
		case <-final.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A violation is what no crash excuses.
type violation struct{ err error }

func (v *violation) Error() string { return v.err.Error() }

func violated(format string, args ...any) error { return &violation{fmt.Errorf(format, args...)} }

// session is one connection: what is pending is delivered again, in the same
// octets, and then one batch after the other. An error that is no violation
// means that the connection was lost.
func (w *writer) session(ctx, final context.Context) error {
	one, cancel := context.WithTimeout(final, time.Minute)
	defer cancel()
	config := identity.ClientConfig(w.local.Certificate, w.trust, identity.Indexer, w.indexer.Identity, time.Now)
	conn, err := grpc.NewClient("passthrough:///"+w.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := oiv1.NewOutboundIndexingClient(conn).Session(one)
	if err != nil {
		return err
	}
	l := &line{stream}
	welcome, err := w.greet(l)
	if err != nil {
		return err
	}
	if err := w.announce(l, welcome); err != nil {
		return err
	}
	for {
		if w.pending == nil {
			if ctx.Err() != nil {
				return nil
			}
			if err := w.write(); err != nil {
				return violated("batch: %w", err)
			}
		}
		if err := w.deliver(l); err != nil {
			return err
		}
	}
}

// A line is one stream.
type line struct {
	stream grpc.BidiStreamingClient[oiv1.PublisherFrame, oiv1.IndexerFrame]
}

// ask sends frames and receives the next one that is no heartbeat.
func (l *line) ask(frames ...*oiv1.PublisherFrame) (*oiv1.IndexerFrame, error) {
	for _, f := range frames {
		if l.stream.Send(f) != nil {
			break // Recv tells why
		}
	}
	for {
		f, err := l.stream.Recv()
		if err != nil || f.GetHeartbeat() == nil {
			return f, err
		}
	}
}

// greet shows the note that is known, and verifies that the log goes on from it.
func (w *writer) greet(l *line) (*oiv1.Welcome, error) {
	f, err := l.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: &oiv1.Hello{Versions: []string{"uzpif-oi-session/1"}, Note: w.note}}})
	if err != nil {
		return nil, err
	}
	welcome := f.GetWelcome()
	if welcome == nil {
		return nil, violated("no welcome but %v", f)
	}
	if len(welcome.Note) == 0 {
		welcome.Note = w.note
	}
	tree, err := evaluate.Grow(w.tree, welcome.Note, w.indexer.Log.VKey, w.indexer.Log.Origin, path(welcome.Consistency))
	if err != nil || tree.Size < w.tree.Size {
		return nil, violated("the log of Welcome (%d entries) does not go on from %d: %w", tree.Size, w.tree.Size, err)
	}
	w.tree, w.note = tree, welcome.Note
	return welcome, w.record.checkpoint(tree)
}

func path(raw [][]byte) [][32]byte {
	out := make([][32]byte, len(raw))
	for i := range raw {
		out[i] = [32]byte(raw[i])
	}
	return out
}

// announce presents the grant, and finds the series where it was acknowledged
// last, or behind what is pending.
func (w *writer) announce(l *line, welcome *oiv1.Welcome) error {
	pr, _ := peer.FromContext(l.stream.Context())
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return violated("no TLS")
	}
	exporter, err := info.State.ExportKeyingMaterial("EXPORTER-uzpif-oi-announce-v1", nil, 32)
	if err != nil {
		return err
	}
	g, p := w.pair.Grant, w.pair.Policy
	a, err := grants.SignAnnouncement(grants.AnnouncementBody{
		Exporter: grants.Binding(exporter), Nonce: grants.Binding(welcome.Nonce), Publisher: w.local.Name(),
		Grants: []envelope.Hash{g.Object.ID}, Policies: []envelope.Hash{p.Object.ID},
		Requests: []grants.Request{{Actions: []grants.Action{grants.Discover, grants.Refresh}, Purposes: g.Body.Purposes, Scope: g.Body.Scope, Series: w.series}},
	}, w.stamp(), w.local.Envelope)
	if err != nil {
		return violated("announcement: %w", err)
	}
	f, err := l.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: &oiv1.Announce{
		Announcement: a.Object.Raw, Grants: [][]byte{g.Object.Raw}, Policies: [][]byte{p.Object.Raw},
		Secrets: []*oiv1.SeriesSecret{{Series: w.series, LeafKey: w.leafKey[:], Relationship: w.relation[:], Collection: "pages"}},
	}}})
	if err != nil {
		return err
	}
	result := f.GetAnnounceResult()
	if result == nil || len(result.Refusals) > 0 || len(result.Collections) != 1 {
		return violated("the announcement is answered by %v", f)
	}
	held := result.Collections[0].Revision
	if held != w.revision && (w.pending == nil || held != w.pending.body.Through) {
		return violated("%s was acknowledged up to revision %d and is held up to %d", w.series, w.revision, held)
	}
	return nil
}

// write makes the next batch: one to three pages, new or changed, or as many as
// much says.
func (w *writer) write() error {
	d := &delivery{after: maps.Clone(w.pages)}
	var items oiv1.Items
	var payloads []byte
	n, apart, words := 1+int(w.revision%3), uint64(5), 1
	if w.much > 0 {
		n, apart, words = w.much, uint64(w.much), 300
	}
	for i := range n {
		revision := w.revision + uint64(i) + 1
		url := fmt.Sprintf("%s/p%d", w.origin, revision%apart) // one batch has a new page and a changed one
		payload, _ := tct.Encode(nil, tct.Document{URL: url, Title: "A page", Content: strings.Repeat(fmt.Sprintf("Words of revision %d", revision), words)})
		h, digest := sha256.Sum256([]byte(url)), sha256.Sum256(payload)
		items.Items = append(items.Items, &oiv1.Item{
			Op: oiv1.Op_OP_PUT, RevisionDelta: 1, Url: url, Format: uint32(content.FormatTCT), Length: uint64(len(payload)),
		})
		payloads = append(payloads, payload...)
		d.after[h] = state.Item{URLHash: h, Digest: digest, Format: uint8(content.FormatTCT)}
		d.leaves = append(d.leaves, w.leafKey.Leaf(translog.OpPut, w.epoch, revision, url, digest).Hash())
	}
	d.body = translog.Manifest{
		CollectionRef: w.leafKey.CollectionRef("pages"), From: w.revision, GrantID: w.pair.Grant.Object.ID, JournalEpoch: w.epoch,
		Offered: translog.SetOf(d.leaves), Publisher: w.local.Name(), StateBefore: rootOf(w.pages), StateAfter: rootOf(d.after),
		Through: w.revision + uint64(len(d.leaves)),
	}
	var err error
	d.manifest, err = envelope.Sign(envelope.Header{
		Type: envelope.BatchManifest, Authority: w.local.Name().Authority(), Subject: translog.RelationshipName(w.relation, w.local.Name()),
		Audience: w.indexer.Identity, Epoch: w.local.Epoch(envelope.UseEnvelope), Sequence: d.body.Through, IssuedAt: time.Now(),
	}, &d.body, w.local.Envelope)
	if err != nil {
		return err
	}
	raw, err := proto.Marshal(&items)
	if err != nil {
		return err
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	d.frame = encoder.EncodeAll(slices.Concat(raw, payloads), nil)
	d.batch = &oiv1.Batch{
		Series: w.series, Manifest: d.manifest.Raw, ItemsBytes: uint64(len(raw)),
		RawBytes: uint64(len(raw) + len(payloads)), FrameBytes: uint64(len(d.frame)),
	}
	w.pending = d
	return encoder.Close()
}

func rootOf(pages map[[32]byte]state.Item) envelope.Hash {
	all := slices.SortedFunc(maps.Values(pages), func(a, b state.Item) int { return slices.Compare(a.URLHash[:], b.URLHash[:]) })
	root, _, err := state.Of(func(yield func(state.Item, error) bool) {
		for _, it := range all {
			if !yield(it, nil) {
				return
			}
		}
	})
	if err != nil {
		panic(err) // the items yield none
	}
	return root
}

// deliver sends what is pending and evaluates the answer as a publisher does
// (UZPIF-OI 9.1.4): receipt, proofs and checkpoint are of one tree size.
func (w *writer) deliver(l *line) error {
	d := w.pending
	if w.took != nil {
		defer func(begun time.Time) { w.took(time.Since(begun)) }(time.Now())
	}
	f, err := l.ask(
		&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: d.batch}},
		&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: &oiv1.Chunk{Data: d.frame}}},
	)
	if err != nil {
		return err
	}
	r := f.GetBatchResult()
	if retry := r.GetRefused(); retry != nil && retry.RetryMs > 0 {
		return errors.New(retry.Reason) // told to come again
	}
	c := r.GetCommitted()
	if c == nil || len(c.Decisions) != len(d.leaves) {
		return violated("the batch is answered by %v", f)
	}
	answer := evaluate.Answer{Receipt: c.Receipt, Entries: c.Entries, Checkpoint: c.Checkpoint, Note: c.Note, Consistency: path(r.Consistency)}
	for _, p := range c.Inclusion {
		answer.Inclusion = append(answer.Inclusion, path(p.Hashes))
	}
	e := w.expect(d)
	for i, leaf := range d.leaves {
		decision := map[oiv1.Decision]translog.Decision{
			oiv1.Decision_DECISION_INCLUDE: translog.Include, oiv1.Decision_DECISION_UPDATE: translog.Update,
		}[oiv1.Decision(c.Decisions[i])]
		e.Sets = append(e.Sets, evaluate.Decided{Op: translog.OpPut, LeafHash: leaf, Decision: decision})
	}
	accepted, err := evaluate.Batch(answer, e)
	if err != nil {
		return violated("%s, revision %d: %w", w.series, d.body.Through, err)
	}
	if accepted.Own == accepted.Tree {
		w.tree, w.note = accepted.Tree, c.Note
	}
	w.revision, w.pages, w.pending = d.body.Through, d.after, nil
	return w.record.receipt(accepted)
}

func (w *writer) expect(d *delivery) evaluate.Expected {
	g := w.pair.Grant
	return evaluate.Expected{
		Agreed: evaluate.Agreed{
			Publisher: w.local.Name(), Indexer: w.indexer.Identity, Keys: w.indexer, LogVKey: w.indexer.Log.VKey, LogOrigin: w.indexer.Log.Origin,
			GrantID: g.Object.ID, PolicyHash: w.pair.Policy.Object.ID, ScopeHash: g.ScopeHash, GrantExpiresAt: g.Object.ExpiresAt,
			Purposes: g.Body.Purposes.Strings(), CollectionRef: d.body.CollectionRef,
			Subject: translog.RelationshipName(w.relation, w.local.Name()),
		},
		BatchID: d.manifest.ID, JournalEpoch: d.body.JournalEpoch, From: d.body.From, Through: d.body.Through,
		StateCommitment:  w.leafKey.StateCommitment(d.body.JournalEpoch, d.body.Through, d.body.StateAfter),
		ManifestIssuedAt: d.manifest.IssuedAt, Now: time.Now(), Seen: w.tree,
	}
}
