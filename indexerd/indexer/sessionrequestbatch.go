package indexer

import (
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// checkMode holds a batch against who may begin a transfer under its grant
// (UZPIF-OI 12.3). A batch with a request number moves no cursor: it answers what
// this side asked for, and brings deletions where nothing else may be sent unasked.
func (in *ingest) checkMode(f *oiv1.Batch) error {
	in.answers = f.Request
	mode := in.pair.Grant.Body.Mode
	switch {
	case in.body.Request == 0 && f.Request != 0:
		return refuse(grants.ErrMalformed, "a batch that moves the cursor answers no request")
	case in.body.Request == 0 && !mode.Pushes():
		return refuse(grants.ErrUnasked, "under a grant of mode %s pages come when they are asked for", mode)
	case in.body.Request != 0 && !mode.Asks():
		return refuse(grants.ErrUnasked, "under a grant of mode %s nothing is asked for", mode)
	}
	return nil
}

// base is the revision from which the first item counts.
func (in *ingest) base() uint64 {
	if in.body.Request != 0 {
		return 0
	}
	return in.body.From
}

// checkAsked refuses, with the whole batch, a page that nobody asked for.
// Deletions need not be asked for.
func (in *ingest) checkAsked() error {
	if len(in.items) == 0 {
		return refuse(grants.ErrMalformed, "an answer without a page")
	}
	for i := range in.items {
		it := &in.items[i]
		if it.op == translog.OpPut && !in.s.asks.awaits(in.held.rec.Series, in.answers, it.url) {
			return refuse(grants.ErrUnasked, "item %d: %s", i, it.url)
		}
	}
	return nil
}

// checkRequest is checkCursor of an answer: it was asked for, stands where the
// series stands, and its number is the next of the journal epoch.
func (in *ingest) checkRequest() error {
	if err := in.checkAsked(); err != nil {
		return err
	}
	m, rec := &in.body, in.rec
	switch {
	case m.JournalEpoch != rec.JournalEpoch:
		return refuse(grants.ErrConflict, "an answer in journal epoch %d, the series is in %d", m.JournalEpoch, rec.JournalEpoch)
	case m.From != rec.Revision:
		return refuse(grants.ErrConflict, "an answer at revision %d, committed is %d", m.From, rec.Revision)
	case m.Request != rec.Request+1:
		return refuse(grants.ErrConflict, "an answer to request %d, the next one is %d", m.Request, rec.Request+1)
	case m.StateBefore != rec.State:
		return refuse(grants.ErrState, "the series stands at state %s, the manifest says %s", rec.State, m.StateBefore)
	}
	return nil
}

// settle takes what the batch brings out of the queue of what is wanted, in the
// commit that brings it.
func (in *ingest) settle(b *durable.Batch) error {
	m, rec := &in.body, in.rec
	if m.JournalEpoch != rec.JournalEpoch {
		if err := rec.turn(b); err != nil {
			return err
		}
	}
	var came []string
	for i := range in.items {
		it := &in.items[i]
		if rec.Wanted > 0 {
			if _, err := rec.unwant(b, it.h, it.revision); err != nil {
				return err
			}
		}
		if it.op == translog.OpPut {
			came = append(came, it.url)
		}
	}
	if m.Request != 0 {
		rec.Request = m.Request
		rec.Delivered += uint64(len(came))
		in.s.asks.came(rec.Series, in.answers, came)
		in.s.x.asks.delivered.Add(uint64(len(came)))
	}
	in.s.x.asks.note(rec)
	return nil
}
