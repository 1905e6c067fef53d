package indexer

import (
	"context"
	"sync"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// Content flows under credits, so that what waits here in memory is what this side
// has room for: each batch may begin with a few octets, and gets the rest when
// memory is reserved for it; a page alone gets a window, again and again as it is
// written. What comes without a credit ends the session before it is queued
// (TestContentWithoutCreditIsAFault). Nothing else needs any: a revocation, a
// heartbeat or a request waits behind no content that was not read yet
// (TestARevocationPassesABatchThatWaits).
const (
	// creditPool is what initial credits are taken from, in octets, over all
	// sessions: as long as it lasts a session has creditInitial, and creditLeast
	// when it is used up.
	creditPool    = 256 << 20
	creditInitial = 1 << 20
	creditLeast   = 64 << 10
	// aloneWindow is how much of a page alone may be under way.
	aloneWindow = 4 << 20
)

// A credit is what a session's peer may still send of the batch under way.
type credit struct {
	initial uint64

	// leftMu guards left.
	leftMu sync.Mutex
	left   uint64
}

// newCredit takes a session's initial credit out of the pool; giveBack returns it.
func (x *Indexer) newCredit() (c *credit, giveBack func()) {
	if x.credits.TryAcquire(creditInitial) {
		return &credit{initial: creditInitial}, func() { x.credits.Release(creditInitial) }
	}
	return &credit{initial: creditLeast}, func() {}
}

// admit counts a frame as it comes off the stream, in the reading goroutine. The
// header of a batch follows the answer to the one before, with which all that was
// left of its credit ended.
func (c *credit) admit(f *oiv1.PublisherFrame) error {
	c.leftMu.Lock()
	defer c.leftMu.Unlock()
	if f.GetBatch() != nil {
		c.left = c.initial
	}
	n := uint64(len(f.GetChunk().GetData()))
	if n > c.left {
		return refuse(grants.ErrCredit, "a chunk of %d octets, and %d may come", n, c.left)
	}
	c.left -= n
	return nil
}

func (c *credit) add(n uint64) {
	c.leftMu.Lock()
	defer c.leftMu.Unlock()
	c.left += n
}

// allow lets so many octets of a batch come in all, for which there is room.
func (s *session) allow(ctx context.Context, octets uint64) error {
	if octets <= s.credit.initial {
		return nil
	}
	return s.more(ctx, octets-s.credit.initial)
}

// more gives credit for so many octets more.
func (s *session) more(ctx context.Context, octets uint64) error {
	s.credit.add(octets)
	return s.link.Urgent(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Credit{Credit: &oiv1.Credit{Octets: octets}}})
}
