package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A faultRun is one course of a publisher on a disk that fails: a grant, three
// batches, and a revocation, straight into the log's writer.
type faultRun struct {
	t     *testing.T
	r     *rig
	s     series
	rev   *grants.Revocation
	sid   uint32
	acked map[envelope.Hash][]byte // what was answered to each batch
	trees map[uint64][32]byte
	taken bool // the revocation was acknowledged
}

// TestEveryFailedWriteOfACommitLosesNothing fails each operation of a short
// course in turn, as a broken disk and as a full one. What was answered is
// there after the crash behind it, octet for octet; what was not is there whole
// or not at all; and no tree that was released is contradicted.
func TestEveryFailedWriteOfACommitLosesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.example().series("docs-1", site, nil)
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop))
	r.close()
	course := func(d *durabletest.Disk) (*faultRun, error) {
		c := &faultRun{t: t, r: r, s: *s, rev: rev, acked: make(map[envelope.Hash][]byte), trees: make(map[uint64][32]byte)}
		c.s.pages = maps.Clone(s.pages)
		return c, c.live(d)
	}
	whole := durabletest.New()
	if c, err := course(whole); err != nil || len(c.acked) != 3 || !c.taken {
		t.Fatalf("%d batches answered, %v", len(c.acked), err)
	}
	for n := int64(1); n <= whole.Writes(); n += faultStride {
		for _, fault := range []error{durabletest.EIO, durabletest.ENOSPC} {
			d := durabletest.New()
			d.FailAt(n, fault, errors.Is(fault, durabletest.ENOSPC))
			c, err := course(d)
			if err != nil && !errors.Is(err, fault) {
				t.Errorf("operation %d: %v does not name its cause", n, err)
			}
			c.holds(fmt.Sprintf("operation %d, %v", n, fault), d.Crash(rand.New(rand.NewPCG(uint64(n), 5)), 50))
		}
	}
	t.Logf("%d operations, one of %d of them failed in two ways", whole.Writes(), faultStride)
}

func (c *faultRun) open(d *durabletest.Disk) (*Indexer, error) {
	return Open(Config{Dir: c.r.dir, Now: c.r.now, FS: d.FS()})
}

// live plays the course until something fails.
func (c *faultRun) live(d *durabletest.Disk) error {
	x, err := c.open(d)
	if err != nil {
		return err
	}
	err = c.play(x)
	return errors.Join(err, x.Close())
}

func (c *faultRun) play(x *Indexer) error {
	c.r.x, c.s.p.r = x, c.r
	defer func() { c.r.x = nil }()
	ses := &session{x: x, peer: must2(x.trust.Lookup(c.s.p.local.Name())), live: make(map[string]*held)}
	ses.self = &member{name: c.s.p.local.Name(), end: func(error) {}, finish: func(error) {}, look: func() {}}
	if err := x.sessions.join(ses.self); err != nil {
		return err
	}
	defer x.sessions.leave(ses.self)
	secret := &oiv1.SeriesSecret{Series: c.s.name, LeafKey: c.s.key[:], Relationship: c.s.relation[:], Collection: "docs"}
	if refusals, err := ses.admit(context.Background(), []offer{{pair: c.s.pair, secret: secret}}); err != nil || len(refusals) > 0 {
		return errors.Join(err, errorOf(refusals))
	}
	c.sid = ses.live[c.s.name].rec.SID
	for _, changes := range [][]change{puts("first", urls(site, 3)...), puts("second", urls(site, 2)...), {{url: urls(site, 1)[0]}}} {
		b := c.s.parcel(changes...).pack()
		in, err := ses.ingest(b.batch, b.frame)
		if err == nil {
			err = x.tlog.Commit(context.Background(), in)
		}
		if err != nil {
			return err
		}
		b.take()
		c.acked[b.manifest.ID] = in.answered.Committed
		c.sees(x.tlog.Released().Tree)
	}
	_, err := x.revoke(context.Background(), c.rev.Object.Raw, "")
	c.taken = err == nil
	return err
}

func errorOf(refusals []grants.Refusal) error {
	if len(refusals) == 0 {
		return nil
	}
	return fmt.Errorf("%+v", refusals)
}

func (c *faultRun) sees(tree translog.Tree) {
	c.t.Helper()
	if old, ok := c.trees[tree.Size]; ok && old != tree.Root {
		c.t.Errorf("size %d was shown with two roots", tree.Size)
	}
	c.trees[tree.Size] = tree.Root
}

// holds opens what a crash has left, and looks for all that was answered.
func (c *faultRun) holds(what string, d *durabletest.Disk) {
	c.t.Helper()
	x, err := c.open(d)
	if err != nil {
		c.t.Errorf("%s: %v", what, err)
		return
	}
	defer func() {
		if err := x.Close(); err != nil {
			c.t.Errorf("%s: %v", what, err)
		}
	}()
	view := x.tlog.Released()
	for size, root := range c.trees {
		if got, err := view.RootAt(size); err != nil || got != root {
			c.t.Errorf("%s: released was size %d with root %x, now %x, %v", what, size, root, got, err)
		}
	}
	for id, octets := range c.acked {
		c.holdsAnswer(what, x, id, octets)
	}
	rec, err := readSeries(x.store, c.s.p.local.Name(), c.s.name)
	switch {
	case err != nil:
		c.t.Errorf("%s: %v", what, err)
	case rec == nil && len(c.acked) > 0, rec != nil && rec.Revision < c.s.revision:
		c.t.Errorf("%s: the series stands at %+v, answered was revision %d", what, rec, c.s.revision)
	case c.taken && (rec == nil || rec.Revoked == nil):
		c.t.Errorf("%s: the revocation was acknowledged, and the series stands at %+v", what, rec)
	}
}

// holdsAnswer compares an answer with what is kept of it, and its entries with
// those of the log.
func (c *faultRun) holdsAnswer(what string, x *Indexer, id envelope.Hash, octets []byte) {
	c.t.Helper()
	var row answeredBatch
	var w oiv1.Committed
	key, err := x.store.Get(sidKey('b', c.sid, id[:]...))
	if err == nil {
		_, err = durable.ReadJSON(x.store, key, &row)
	}
	if err = errors.Join(err, proto.Unmarshal(octets, &w)); err != nil || !bytes.Equal(row.Committed, octets) {
		c.t.Errorf("%s: the answer to %s: %v", what, id, err)
		return
	}
	for i, raw := range w.Entries {
		if got, err := x.tlog.Released().Entry(row.First + uint64(i)); err != nil || !bytes.Equal(got, raw) {
			c.t.Errorf("%s: entry %d of %s: %v", what, i, id, err)
		}
	}
}
