package indexer

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// ErrEnding says that something may be read no more of what was read before.
var ErrEnding = errors.New("a permission has ended since")

// Place calls put, which shows others what was read of some offers up to a moment, if
// all of it may still be read, on the same terms, and before end. Else it is ErrEnding,
// and put is not called.
//
// The last look and put are one step of the log's writer, so that a revocation, a
// narrower grant or a deletion comes before that look or behind put: who is answered
// that consent has ended never sees put come after (TestNothingIsPlacedBehindARevocation).
// All else that wants to commit waits meanwhile, so put must take no longer than a
// rename.
func (r *Reading) Place(ctx context.Context, offers []Offer, moment uint64, end time.Time, put func() error) error {
	p := &placing{x: r.x, who: r.who, offers: make(map[uint32]bool), moment: moment, end: end, put: put}
	for i := range offers {
		p.offers[offers[i].sid] = true
	}
	for {
		// Most of it is looked at here, where nobody waits.
		newest, err := r.x.Reading(r.who.purpose, r.who.thirdParty)
		if err != nil {
			return err
		}
		_, err = p.look(newest, false)
		newest.Close()
		if err == nil {
			err = r.x.tlog.Commit(ctx, p)
		}
		if err != nil || p.done {
			return errors.Join(err, p.err)
		}
	}
}

// A placing is the proposal that calls put. It writes nothing.
type placing struct {
	x      *Indexer
	who    reader
	offers map[uint32]bool
	only   []byte // the hash of the one page that counts; nil: all do
	moment uint64 // up to which was looked
	end    time.Time
	put    func() error

	done bool
	err  error // of put
}

// look looks at the changes behind the moment, and moves it on; one step looks at
// maxLook at most. It reports whether it has seen all. ErrEnding is what it looks for.
func (p *placing) look(r *Reading, oneStep bool) (whole bool, err error) {
	if p.ended() {
		return false, ErrEnding
	}
	for {
		changes, err := changesAfter(r.rows, p.moment, maxLook)
		if err != nil {
			return false, err
		}
		for _, c := range changes {
			if err := p.judge(r, c); err != nil {
				return false, err
			}
			p.moment = c.number
		}
		if len(changes) < maxLook {
			return true, nil
		}
		if oneStep {
			return false, nil
		}
	}
}

// ended reports whether the first permission is over by the clock.
func (p *placing) ended() bool { return !p.end.IsZero() && !p.x.latest().Before(p.end) }

// judge is ErrEnding for a change that ends something.
func (p *placing) judge(r *Reading, c feedChange) error {
	if !p.offers[c.sid] {
		return nil
	}
	if c.h == nil {
		return ErrEnding
	}
	if p.only != nil && !bytes.Equal(c.h, p.only) {
		return nil
	}
	g, err := r.gate(c.sid)
	if err != nil {
		return err
	}
	if g == nil {
		return ErrEnding
	}
	if _, _, err = r.find(g, c.h); err != nil {
		if _, refused := asRefusal(err); refused {
			return ErrEnding
		}
	}
	return err
}

// Prepare looks at what has changed since the look outside of the writer, as of the
// very commit.
func (p *placing) Prepare(tx *translog.Tx) error {
	r := &Reading{x: p.x, who: p.who, rows: tx.Batch(), gates: make(map[uint32]*gate)}
	whole, err := p.look(r, true)
	if err != nil || !whole {
		return err
	}
	p.done, p.err = true, p.put()
	return nil
}

// Finish has nothing to add.
func (p *placing) Finish(*translog.Tx, *translog.Committed) error { return nil }
