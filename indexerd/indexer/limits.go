package indexer

import (
	"math"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The limits of a grant on octets and pages (UZPIF-OI 10.1). What is used up of
// them stands in the series' record, which the commit of each batch writes: no
// reconnection, second session, renewal or restart gives any of it back
// (TestNoWayRoundALimit). The check that counts is made by the log's writer; one
// before a batch's frame is received only spares receiving it.

// limitOf is what counts while pair admits batches: the tighter of its own limits
// and those of the newest grant.
func limitOf(pair, newest grants.Pair) grants.Constraints {
	return pair.Grant.Body.Constraints.Tighter(newest.Grant.Body.Constraints)
}

// retryAfter is the refusal that the other side waits on.
func retryAfter(err error, wait time.Duration) error {
	r, ok := asRefusal(err)
	if !ok || wait == 0 {
		return err
	}
	ms := (wait + time.Millisecond - 1) / time.Millisecond // never a moment too early
	r.retryMS = uint32(min(ms, math.MaxUint32))
	return r
}

// payload is how many pages the batch brings, and how large they are together.
// Deletions are no pages: a limit never keeps one waiting.
func (in *ingest) payload() (octets, pages uint64) {
	for i := range in.items {
		if in.items[i].op == translog.OpPut {
			octets += in.items[i].length
			pages++
		}
	}
	return octets, pages
}

// useUp takes what the batch brings off the limits, in the record that the
// batch's commit writes.
func (in *ingest) useUp(tx *translog.Tx) error {
	newest, err := readPair(tx.Batch(), in.rec)
	if err != nil {
		return err
	}
	octets, pages := in.payload()
	next, wait, err := in.rec.Used.Take(limitOf(in.pair, newest), in.s.x.finely(tx.Now()), octets, pages)
	if err != nil {
		return retryAfter(err, wait)
	}
	in.rec.Used = next
	return nil
}

// finely is the time of a commit, which is in whole seconds, as finely as the
// clock has it.
func (x *Indexer) finely(commit time.Time) time.Time {
	if now := x.cfg.Now(); now.After(commit) {
		return now
	}
	return commit
}
