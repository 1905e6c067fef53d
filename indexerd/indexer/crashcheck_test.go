package indexer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// announced lists the series that a session may announce.
func (c *crashRun) announced() []*series {
	if c.script.whole && c.seen.next >= c.script.revoke {
		return []*series{c.series[docs]}
	}
	return []*series{c.series[docs], c.series[blog]}
}

// connect begins a session, by a publisher that kept the newest note it got.
func (c *crashRun) connect() {
	c.t.Helper()
	if c.client != nil {
		c.client.close()
	}
	c.client = c.p.greetedWith(c.seen.note)
	if r := c.client.announce(c.client.announcement(c.announced()...)); len(r.Refusals) > 0 {
		c.t.Fatalf("step %d: the announcement is refused: %v", c.seen.next, r.Refusals)
	}
	c.client.deaf = true
}

// holds checks that an indexer that has just been opened contradicts nothing
// that was seen before.
func (c *crashRun) holds() {
	c.t.Helper()
	was := c.seen.copy()
	c.holdsTrees(was)
	recs := c.agree()
	for name := range c.series {
		c.standsWhere(was, name, recs[name])
	}
	c.connect()
	for i := range was.answers {
		a := &was.answers[i]
		c.holdsAnswer(a, recs[a.series])
	}
	if was.sent != nil {
		c.holdsAllOrNothing(was, recs[was.sent.series])
	}
	if len(was.acks) > 0 {
		c.holdsAcks(was.acks)
	}
}

// holdsTrees looks for every tree that was shown.
func (c *crashRun) holdsTrees(was *bystander) {
	c.t.Helper()
	released, published := c.r.x.tlog.Released(), c.r.x.tlog.Published().Tree.Size
	for size, root := range was.released {
		if got, err := released.RootAt(size); err != nil || got != root {
			c.t.Errorf("released was size %d with root %x, now %x, %v", size, root, got, err)
		}
	}
	for size, root := range was.published {
		if got, err := released.RootAt(size); err != nil || got != root || size > published {
			c.t.Errorf("published was size %d with root %x, now %x, %v, and published is %d", size, root, got, err, published)
		}
	}
}

// standsWhere checks that a series stands where the last answer left it, or
// where the step that was under way leads.
func (c *crashRun) standsWhere(was *bystander, name string, rec *seriesRecord) {
	c.t.Helper()
	before, after := was.before[name], was.after[name]
	if rec == nil {
		if before.revision > 0 {
			c.t.Errorf("series %s is gone", name)
		}
		return
	}
	could := []series{before, after}
	if name == blog && was.next >= c.script.revoke {
		could = append(could, before.settled(c.rev))
	}
	for _, s := range could {
		if rec.Revision == s.revision && rec.State == s.root() {
			return
		}
	}
	c.t.Errorf("series %s stands at revision %d, state %s; answered was revision %d, state %s", name, rec.Revision, rec.State, before.revision, before.root())
}

// holdsAnswer asks for an answer again, in every way there is.
func (c *crashRun) holdsAnswer(a *answer, rec *seriesRecord) {
	c.t.Helper()
	if rec == nil {
		c.t.Errorf("series %s, %s: the series is gone", a.series, a.id)
		return
	}
	var want, kept oiv1.Committed
	var row answeredBatch
	key, err := c.r.x.store.Get(sidKey('b', rec.SID, a.id[:]...))
	if err == nil {
		_, err = durable.ReadJSON(c.r.x.store, key, &row)
	}
	if err = errors.Join(err, proto.Unmarshal(a.octets, &want), proto.Unmarshal(row.Committed, &kept)); err != nil {
		c.t.Errorf("series %s, %s: the answer is gone: %v", a.series, a.id, err)
		return
	}
	view := c.r.x.tlog.Released()
	for i, raw := range want.Entries {
		if got, err := view.Entry(row.First + uint64(i)); err != nil || !bytes.Equal(got, raw) {
			c.t.Errorf("series %s, %s: entry %d is not in the log: %v", a.series, a.id, i, err)
		}
	}
	want.Inclusion = nil // made anew each time
	if !proto.Equal(&want, &kept) {
		c.t.Errorf("series %s, %s: another answer is kept", a.series, a.id)
	}
	if len(c.announced()) == 1 && a.series == blog {
		return // nobody may ask any more
	}
	if again := c.client.ask(a); !bytes.Equal(committedOctets(again), a.octets) {
		c.t.Errorf("series %s, %s: asked for again: %v", a.series, a.id, again.Refused)
	}
	if a.batch == nil {
		return
	}
	if id := a.batch.body.GrantID; id != rec.Bound && id != c.series[a.series].pair.Grant.Object.ID {
		return // offered again it is refused, for its grant
	}
	if again := c.client.deliver(a.batch); !bytes.Equal(committedOctets(again), a.octets) {
		c.t.Errorf("series %s, %s: offered again: %v", a.series, a.id, again.Refused)
	}
}

// ask asks what became of a batch or a rebind.
func (c *client) ask(a *answer) *oiv1.BatchResult {
	c.p.r.t.Helper()
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_ReceiptRequest{ReceiptRequest: &oiv1.ReceiptRequest{Series: a.series, BatchId: a.id[:]}}})
	return c.next().GetBatchResult()
}

// holdsAllOrNothing asks for what was under way.
func (c *crashRun) holdsAllOrNothing(was *bystander, rec *seriesRecord) {
	c.t.Helper()
	before, after := was.before[was.sent.series], was.after[was.sent.series]
	got := c.client.ask(was.sent)
	applied := rec != nil && rec.Revision == after.revision && rec.State == after.root()
	if was.sent.batch == nil {
		applied = rec != nil && rec.Bound == was.sent.id
	}
	switch {
	case got.Committed != nil && applied:
		c.promised[was.sent.id] = committedOctets(got)
	case got.Committed == nil && !applied && got.Refused.GetReason() == string(grants.ErrNotHeld):
	default:
		c.t.Errorf("%s, from revision %d to %d, is applied: %t; the answer is %v", was.sent.id, before.revision, after.revision, applied, got)
	}
}

// holdsAcks asks for every acknowledgement again.
func (c *crashRun) holdsAcks(acks []*oiv1.Acknowledged) {
	c.t.Helper()
	again := c.p.revoke(c.rev).Acknowledged
	if len(again) < len(acks) {
		c.t.Errorf("%d of %d acknowledgements are left", len(again), len(acks))
		return
	}
	for i, a := range acks {
		if !proto.Equal(again[i], a) {
			c.t.Errorf("acknowledgement %d is another", i)
		}
	}
}

// agree checks that catalogue, state tree, segments and cursor of every series
// agree, unless a deletion is under way, and gives their records.
func (c *crashRun) agree() map[string]*seriesRecord {
	c.t.Helper()
	snapshot := must[*durable.Snapshot](c.t)(c.r.x.store.Snapshot())
	defer snapshot.Close()
	recs := make(map[string]*seriesRecord)
	for _, rec := range must[[]*seriesRecord](c.t)(seriesOf(snapshot, "")) {
		recs[rec.Series] = rec
		if rec.Deletions == 0 {
			c.agreeOne(snapshot, rec)
		}
	}
	return recs
}

func (c *crashRun) agreeOne(r durable.Reader, rec *seriesRecord) {
	c.t.Helper()
	var pages, octets uint64
	root, count, err := state.Of(func(yield func(state.Item, error) bool) {
		err := eachPage(r, rec.SID, func(key []byte, row *catalogueRow) error {
			h := sha256.Sum256([]byte(row.URL))
			if !bytes.HasSuffix(key, h[:]) {
				return errors.New("a row under another key")
			}
			if row.Held {
				pages++
				octets += row.Length
				frame, err := c.r.x.frame(r, rec, row)
				if err == nil {
					_, err = row.payload(frame)
				}
				if err != nil {
					return err
				}
			}
			if !yield(state.Item{URLHash: h, Digest: [32]byte(row.Digest), Format: row.Format}, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && err != errStopped {
			yield(state.Item{}, err)
		}
	})
	if err != nil {
		c.t.Errorf("series %s: %v", rec.Series, err)
		return
	}
	treeRoot, n, err := stateTree(rec.SID).Root(r)
	if err != nil || root != rec.State || treeRoot != rec.State || n != count {
		c.t.Errorf("series %s: the catalogue has %d pages of state %s, the tree %d of %s, the record says %s (%v)", rec.Series, count, root, n, treeRoot, rec.State, err)
	}
	if pages != rec.Pages || octets != rec.PayloadBytes {
		c.t.Errorf("series %s: %d pages of %d octets are held, the record says %d of %d", rec.Series, pages, octets, rec.Pages, rec.PayloadBytes)
	}
}

// rowsOf counts the rows of a series in each of its spaces.
func (c *crashRun) rowsOf(rec *seriesRecord) map[string]int {
	c.t.Helper()
	counts := make(map[string]int)
	for _, space := range "CDGBbEJ" {
		lo := sidKey(byte(space), rec.SID)
		for _, err := range c.r.x.store.Scan(lo, durable.PrefixEnd(lo)) {
			if err != nil {
				c.t.Fatal(err)
			}
			counts[string(space)]++
		}
	}
	return counts
}

// TestAcknowledgementIsGivenOnceItIsDurable asks for the acknowledgement of a
// deletion while the disk is about to make it durable: it is in the store, for
// everybody to read, and might still be lost.
func TestAcknowledgementIsGivenOnceItIsDurable(t *testing.T) {
	t.Parallel()
	d := durabletest.New()
	var steps, looked atomic.Int32
	r := &rig{t: t, dir: t.TempDir(), fs: d.FS(), publish: time.Hour, before: func() error {
		steps.Add(1)
		return nil
	}}
	r.create()
	r.open()
	t.Cleanup(r.close)
	s, c := r.example().held(3)
	c.close()
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	id := rev.Object.ID
	rec, _, _ := r.stateOf(s)
	x := r.x
	d.OnWrite(func(_ int64, op, path string) error {
		if op != durabletest.OpSync || !strings.HasSuffix(path, ".log") || steps.Load() < 4 || !looked.CompareAndSwap(0, 1) {
			return nil // before the step that concludes, or behind it
		}
		for range 2000 {
			if _, err := x.store.Get(acknowledgementKey(id, rec.SID, translog.DeleteAck)); err == nil {
				looked.Store(2)
				break
			}
			time.Sleep(time.Millisecond)
		}
		a, err := x.wireAcknowledgements(id, 0)
		if err != nil || len(a.Acknowledged) != 1 || a.Pending != 1 {
			t.Errorf("given before it is durable: %v, %v", a, err)
		}
		return nil
	})
	s.p.revoke(rev)
	if a := s.p.settled(rev); len(a.Acknowledged) != 2 {
		t.Errorf("given at last: %v", a)
	}
	if looked.Load() != 2 {
		t.Error("nobody looked in time")
	}
}
