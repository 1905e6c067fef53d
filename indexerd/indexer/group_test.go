package indexer

import (
	"context"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A pause holds the log's writer until it is let go, so that what is proposed
// meanwhile becomes one group.
type pause struct{ entered, leave chan struct{} }

func (p *pause) Prepare(*translog.Tx) error {
	close(p.entered)
	<-p.leave
	return nil
}

func (p *pause) Finish(*translog.Tx, *translog.Committed) error { return nil }

// together commits proposals in one group, in their order.
func (r *rig) together(all ...translog.Proposal) {
	r.t.Helper()
	hold := &pause{make(chan struct{}), make(chan struct{})}
	errs := make(chan error, len(all)+1)
	go func() { errs <- r.x.tlog.Commit(context.Background(), hold) }()
	<-hold.entered
	for i, p := range all {
		go func() { errs <- r.x.tlog.Commit(context.Background(), p) }()
		r.eventually("the proposal to wait", func() bool { return r.x.tlog.Stats().Queued == i+1 })
	}
	close(hold.leave)
	for range cap(errs) {
		if err := <-errs; err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestRevocationAndBatchOfOneGroupBothCount commits a batch and the revocation
// of its grant in one group, the batch first.
func TestRevocationAndBatchOfOneGroupBothCount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, _ := r.example().held(1)
	b := s.parcel(puts("words", site+"new")...).pack()
	ses := &session{x: r.x, peer: must2(r.x.trust.Lookup(s.p.local.Name())), self: r.x.sessions.of(s.p.local.Name()), live: make(map[string]*held)}
	rec, _, _ := r.stateOf(s)
	ses.live[s.name] = &held{&rec, s.pair}
	in := must[*ingest](t)(ses.ingest(b.batch, b.frame))
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop))

	r.together(in, &withdrawal{x: r.x, rev: rev})
	after, size, _ := r.stateOf(s)
	if after.Revoked == nil || after.Revoked.ID != rev.Object.ID || after.Revision != b.body.Through || after.Pages != 2 || size != 3 {
		t.Errorf("revoked %v, revision %d, %d pages, %d entries", after.Revoked, after.Revision, after.Pages, size)
	}
}
