package indexer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// stateOf is all that a batch could have changed of a series.
func (r *rig) stateOf(s *series) (rec seriesRecord, size uint64, rows int) {
	r.t.Helper()
	held := must[*seriesRecord](r.t)(readSeries(r.x.store, s.p.local.Name(), s.name))
	if held == nil {
		r.t.Fatal("no such series")
	}
	for _, part := range []string{"BL", "MV"} { // all rows but the log's own, and revocations
		for _, err := range r.x.store.Scan([]byte(part[:1]), []byte(part[1:])) {
			if err != nil {
				r.t.Fatal(err)
			}
			rows++
		}
	}
	return *held, r.x.tlog.Released().Tree.Size, rows
}

func TestReceiptComesAfterItsCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(3)
	answer := c.push(s, change{url: urls(site, 1)[0], text: "other words"}, change{url: urls(site, 2)[1]}, change{url: site + "new", text: "new"})

	var receipt translog.Receipt
	o := must[*envelope.Object](t)(envelope.Parse(answer.Committed.Receipt))
	if err := o.DecodeBody(&receipt); err != nil {
		t.Fatal(err)
	}
	checkpoint := must[*envelope.Object](t)(envelope.Parse(answer.Committed.Checkpoint))
	if receipt.Checkpoint.ObjectID != checkpoint.ID || len(receipt.Entries) != 3 {
		t.Errorf("the receipt is under checkpoint %s, over %d entries", receipt.Checkpoint.ObjectID, len(receipt.Entries))
	}
	// What the receipt says is there already, and is still there when nothing
	// but the disk is left of the indexer.
	check := func() {
		t.Helper()
		rec, size, _ := r.stateOf(s)
		if rec.Revision != s.revision || rec.State != s.root() || rec.Pages != 3 || size != receipt.Checkpoint.Size {
			t.Errorf("revision %d, state %s, %d pages, %d entries", rec.Revision, rec.State, rec.Pages, size)
		}
		root, count, err := stateTree(rec.SID).Root(r.x.store)
		if err != nil || root != s.root() || count != 3 {
			t.Errorf("the state tree has root %s over %d pages (%v)", root, count, err)
		}
		if last := must[lastReceipt](t)(readReceipt(r.x.store, rec.SID)); last.ID != o.ID {
			t.Errorf("the last receipt is %s, want %s", last.ID, o.ID)
		}
		for i, raw := range answer.Committed.Entries {
			if logged := must[[]byte](t)(r.x.tlog.Released().Entry(receipt.Entries[i].Index)); !bytes.Equal(logged, raw) {
				t.Errorf("entry %d of the log is another one", receipt.Entries[i].Index)
			}
		}
		got, err := r.x.ownPayload(s.p.local.Name(), s.name, urls(site, 1)[0])
		if want := payloadOf(urls(site, 1)[0], "other words"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("payload %q (%v)", got, err)
		}
	}
	check()
	r.close()
	r.open()
	check()
}

func TestPayloadsAreSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	// What does not shrink is found again as it is, if it is stored in the clear.
	const secret = "qX7vR2mK9pLwZ4tN8bYcJ3hGfD6sA1eU5oIxTz0VnMkQyWrEaBgHjPlSdFcCuKiO"
	p.session(s).push(s, change{url: site + "secret", text: secret})
	if err := r.readable(s, site+"secret"); err != nil {
		t.Fatal(err)
	}
	r.close()
	if where := filesWith(t, r.dir, secret, site+"no-such"); where != nil {
		t.Errorf("the payload stands in the clear in %q", where)
	}
	r.open()
}

// filesWith finds the files below dir that hold one of words.
func filesWith(t testing.TB, dir string, words ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for _, w := range words {
			if bytes.Contains(b, []byte(w)) {
				found = append(found, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSupersededGrantIsRefusedInCommitOrder proposes a batch whose checks were
// made before a renewal took the state over, and that comes to its commit
// after it.
func TestSupersededGrantIsRefusedInCommitOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	old := s.parcel(puts("late", site+"late")...).pack()
	late := &ingest{}
	{
		ses := &session{x: r.x, peer: must2(r.x.trust.Lookup(s.p.local.Name())), self: r.x.sessions.of(s.p.local.Name()), live: make(map[string]*held)}
		rec, _, _ := r.stateOf(s)
		ses.live[s.name] = &held{&rec, s.pair}
		late = must[*ingest](t)(ses.ingest(old.batch, old.frame))
	}
	c.close()
	s.pair = s.grant(2, nil)
	c = s.p.session(s)
	if a := c.rebind(s); a.Refused != nil {
		t.Fatal(a.Refused)
	}
	late.s.self = r.x.sessions.of(s.p.local.Name()) // not fenced: it is the grant that counts
	before, size, rows := r.stateOf(s)
	if err := r.x.tlog.Commit(context.Background(), late); !errors.Is(err, grants.ErrSuperseded) {
		t.Errorf("refused for %v, want %v", err, grants.ErrSuperseded)
	}
	if after, n, m := r.stateOf(s); after.State != before.State || n != size || m != rows {
		t.Error("the refused batch left traces")
	}
}

func must2[T any](v T, _ bool) T { return v }

// from has the batch begin at another revision.
func (b *parcel) from(revision uint64) {
	s, moved := b.s, *b.s
	moved.revision = revision
	*b = *moved.parcel(puts("other words", urls(site, 3)...)...)
	b.s = s
}

// A spoilt batch is refused whole.
type spoilt struct {
	name   string
	spoil  func(*parcel) // before it is signed
	change func(*parcel) // after
	offer  []change      // nil: one new page
	want   grants.Reason
}

func spoiltBatches() []spoilt {
	return []spoilt{
		{name: "a page outside the scope", offer: puts("words", site+"in", blogs+"out"), want: grants.ErrScope},
		{name: "a URL that is not canonical", offer: puts("words", site+"a/../b"), want: grants.ErrMalformed},
		{name: "one page twice", offer: puts("words", site+"twin", site+"twin"), want: grants.ErrMalformed},
		{name: "revisions with a gap before them", spoil: func(b *parcel) { b.from(b.s.revision + 1) }, want: grants.ErrConflict},
		{name: "revisions that were used for another batch", spoil: func(b *parcel) { b.from(0) }, want: grants.ErrConflict},
		{name: "a state before that is not held", spoil: func(b *parcel) { b.body.StateBefore[0]++ }, want: grants.ErrState},
		{name: "a state after that is not reached", spoil: func(b *parcel) { b.body.StateAfter[0]++ }, want: grants.ErrState},
		{name: "a manifest for another indexer", spoil: func(b *parcel) { b.header.Audience = "spiffe://other.example/indexer" }, want: grants.ErrAudience},
		{name: "a manifest in another's name", spoil: func(b *parcel) { b.body.Publisher = "spiffe://other.example/publisher" }, want: grants.ErrSignature},
		{name: "a manifest about another", spoil: func(b *parcel) { b.header.Subject = b.s.p.local.Name() }, want: grants.ErrMalformed},
		{name: "a manifest for another collection", spoil: func(b *parcel) { b.body.CollectionRef[0]++ }, want: grants.ErrScope},
		{name: "a grant that nobody knows", spoil: func(b *parcel) { b.body.GrantID[0]++ }, want: grants.ErrSuperseded},
		{name: "a batch that was not asked for", spoil: func(b *parcel) { b.body.Request, b.body.From = 1, b.body.Through }, want: grants.ErrMalformed},
		{name: "other items than those signed for", change: func(b *parcel) {
			b.manifest = must[*envelope.Object](b.s.p.r.t)(envelope.Sign(b.header, func() *translog.Manifest { m := b.body; m.Offered.Root[0]++; return &m }(), b.signer))
			b.batch.Manifest = b.manifest.Raw
		}, want: grants.ErrMalformed},
		{name: "a manifest that was changed", change: func(b *parcel) {
			b.batch.Manifest = bytes.Replace(b.manifest.Raw, []byte(`"from":`), []byte(`"from":1`), 1)
		}, want: grants.ErrMalformed},
		{name: "a frame that is no zstd", change: func(b *parcel) { b.frame[0]++ }, want: grants.ErrMalformed},
		{name: "a frame of another length", change: func(b *parcel) { b.batch.RawBytes-- }, want: grants.ErrMalformed},
		{name: "a series that was not announced", change: func(b *parcel) { b.batch.Series = "blog-1" }, want: grants.ErrNoGrant},
		{name: "a page deleted with a payload", spoil: func(b *parcel) { b.items.Items[0].Op = oiv1.Op_OP_TOMBSTONE }, want: grants.ErrMalformed},
		{name: "an operation that does not exist", spoil: func(b *parcel) { b.items.Items[0].Op = 9 }, want: grants.ErrMalformed},
		{name: "a revision beyond the batch", spoil: func(b *parcel) { b.items.Items[0].RevisionDelta = 9 }, want: grants.ErrMalformed},
		{name: "a revision that stands still", spoil: func(b *parcel) { b.items.Items[0].RevisionDelta = 0 }, want: grants.ErrMalformed},
		{name: "octets behind the last page", spoil: func(b *parcel) { b.payloads = append(b.payloads, ' ') }, want: grants.ErrMalformed},
	}
}

func TestRefusedBatchChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(3)
	for i, tt := range spoiltBatches() {
		t.Run(tt.name, func(t *testing.T) {
			if tt.offer == nil {
				tt.offer = puts("words", site+"new")
			}
			before, size, rows := r.stateOf(s)
			b := s.parcel(tt.offer...)
			if tt.spoil != nil {
				tt.spoil(b)
			}
			b.pack()
			if tt.change != nil {
				tt.change(b)
			}
			answer := c.deliver(b)
			if answer.Refused.GetReason() != string(tt.want) {
				t.Errorf("refused for %q (%s), want %q", answer.Refused.GetReason(), answer.Refused.GetDetail(), tt.want)
			}
			after, n, m := r.stateOf(s)
			if after.Revision != before.Revision || after.State != before.State || after.Pages != before.Pages || n != size || m != rows {
				t.Errorf("revision %d, %d pages, %d entries, %d rows; before it %d, %d, %d, %d",
					after.Revision, after.Pages, n, m, before.Revision, before.Pages, size, rows)
			}
			// The session goes on, and the same revisions can be offered well.
			good := fmt.Sprintf("%sgood-%d", site, i)
			c.push(s, puts("words", good)...)
			if err := r.readable(s, good); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFramesOverTheLimitEndTheSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.example().series("docs-1", site, nil)
	for _, tt := range []struct {
		name   string
		change func(*oiv1.Batch)
	}{
		{"a frame that would be too large", func(b *oiv1.Batch) { b.RawBytes = 1 << 40 }},
		{"a frame that is too large compressed", func(b *oiv1.Batch) { b.FrameBytes = 1 << 40 }},
		{"a list of items that is too large", func(b *oiv1.Batch) { b.ItemsBytes, b.RawBytes = 9<<20, 10<<20 }},
		{"more items than there is", func(b *oiv1.Batch) { b.ItemsBytes = b.RawBytes + 1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := s.p.session(s)
			b := s.parcel(puts("words", site+"new")...).pack()
			tt.change(b.batch)
			c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
			if got := c.next().GetFault().GetReason(); got != string(grants.ErrOversize) {
				t.Errorf("fault %q, want %q", got, grants.ErrOversize)
			}
		})
	}
}

func TestMalformedPageIsExcludedAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	bad := change{url: site + "bad", payload: []byte(`{"canonical_url":"https://example.com/elsewhere"}`)}
	answer := c.push(s, change{url: site + "good", text: "words"}, bad, change{url: site + "never"})
	want := []byte{byte(oiv1.Decision_DECISION_INCLUDE), byte(oiv1.Decision_DECISION_EXCLUDE), byte(oiv1.Decision_DECISION_EXCLUDE)}
	if got := answer.Committed.Decisions; !bytes.Equal(got, want) {
		t.Errorf("decisions %v, want %v", got, want)
	}
	var reasons []string
	for _, f := range answer.Committed.Refusals {
		reasons = append(reasons, f.Reason)
	}
	if got := strings.Join(reasons, " "); got != "malformed-payload not-held" {
		t.Errorf("reasons %s", got)
	}
	if err := r.readable(s, site+"bad"); !errors.Is(err, grants.ErrNotHeld) {
		t.Errorf("the excluded page: %v", err)
	}
	if err := r.readable(s, site+"good"); err != nil {
		t.Error(err)
	}
}

func TestTheSameBatchIsAnsweredByTheSameOctets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(1)
	b := s.parcel(puts("words", urls(site, 4)...)...).pack()
	first := c.deliver(b)
	b.take()
	c.push(s, puts("more", site+"more")...)
	size := r.x.tlog.Released().Tree.Size
	r.forward(5 * time.Second)
	again := c.deliver(b)
	if !proto.Equal(first.Committed, again.Committed) || first.Refused != nil {
		t.Error("the second answer is another one")
	}
	id := b.manifest.ID
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ReceiptRequest{ReceiptRequest: &oiv1.ReceiptRequest{Series: s.name, BatchId: id[:]}}})
	if asked := c.next().GetBatchResult(); !proto.Equal(first.Committed, asked.GetCommitted()) {
		t.Error("the answer to the request is another one")
	}
	if n := r.x.tlog.Released().Tree.Size; n != size {
		t.Errorf("the log grew from %d to %d entries", size, n)
	}
}

func TestABatchWithoutItemsMovesTheCursorAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(3)
	b := s.parcel()
	b.body.JournalEpoch, b.body.From, b.body.Through, b.header.Sequence = 99, 0, 12, 12
	b.pack()
	b.frame = nil
	b.batch.FrameBytes, b.batch.ItemsBytes, b.batch.RawBytes = 0, 0, 0
	if a := c.deliver(b); a.Refused != nil {
		t.Fatal(a.Refused)
	}
	b.take()
	all := words(r.log())
	if got := all[len(all)-1]; got != "update/reconciled 0" {
		t.Errorf("logged %s", got)
	}
	rec, _, _ := r.stateOf(s)
	if rec.JournalEpoch != 99 || rec.Revision != 12 || rec.Pages != 3 {
		t.Errorf("epoch %d, revision %d, %d pages", rec.JournalEpoch, rec.Revision, rec.Pages)
	}
	c.push(s, puts("words", site+"new")...)
}

// TestAPlanMadeAheadHoldsAsLongAsTheState stands: one that another commit has overtaken is
// made anew, on what is there then.
func TestAPlanMadeAheadHoldsAsLongAsTheState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	c.push(s, puts("words", site+"a")...)
	rec, _, _ := r.stateOf(s)
	in := &ingest{s: &session{x: r.x}, held: &held{rec: &rec}, rec: &rec, items: []item{
		{op: translog.OpPut, h: sha256.Sum256([]byte("new")), digest: [32]byte{1}, format: 1},
		{op: translog.OpTombstone, h: sha256.Sum256([]byte(site + "a"))},
	}}
	if in.planAhead(); in.plan != nil {
		t.Error("a batch on another state than this was worked out")
	}
	in.body.StateBefore = rec.State
	in.planAhead()
	ahead := in.plan
	b := r.x.store.NewBatch()
	defer b.Close()
	if err := in.makePlan(b); err != nil || ahead == nil || in.plan != ahead {
		t.Errorf("on the same state the plan is another one: %v", err)
	}
	tree := stateTree(rec.SID)
	other := must[*state.Plan](t)(tree.Plan(b, []state.Item{{URLHash: sha256.Sum256([]byte("other")), Digest: [32]byte{2}, Format: 1}}))
	if err := other.Apply(b); err != nil {
		t.Fatal(err)
	}
	if err := in.makePlan(b); err != nil || in.plan == ahead {
		t.Fatalf("on another state the plan is the same one: %v", err)
	}
	want := must[*state.Plan](t)(tree.Plan(b, in.changes()))
	if in.plan.Root() != want.Root() || in.plan.Root() == ahead.Root() || in.plan.Count() != want.Count() {
		t.Errorf("the root is %s of %d pages, want %s of %d", in.plan.Root(), in.plan.Count(), want.Root(), want.Count())
	}
}
