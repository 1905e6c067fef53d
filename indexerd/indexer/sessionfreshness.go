package indexer

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxSignals is the most signals of one frame.
const maxSignals = 1000

// freshness takes one frame of signals (UZPIF-OI 12.4) to its acknowledgement,
// which is given once they are durable. They grant nothing: what is not in scope
// refuses the frame whole, as it refuses a batch.
func (s *session) freshness(ctx context.Context, f *oiv1.Freshness) error {
	p, err := s.newSignalling(f)
	if err == nil {
		err = s.x.tlog.Commit(ctx, p)
	}
	ack := &oiv1.FreshnessAck{Series: f.Series, JournalEpoch: f.JournalEpoch, Through: f.Through}
	if err != nil {
		r, ok := asRefusal(err)
		if !ok {
			return err
		}
		s.x.log.Warn("signals refused", "publisher", s.peer.Card.Identity, "series", f.Series, "reason", string(r.reason), "detail", r.detail)
		ack.Refused, ack.Through = r.fault(), 0
	} else {
		ack.Wanted = p.rec.Wanted
		s.x.asks.signals.Add(uint64(len(p.pages)))
		defer s.asks.nudge()
	}
	return s.link.Urgent(ctx, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_FreshnessAck{FreshnessAck: ack}})
}

// A signalling is the proposal of one frame of signals. It makes no entry: that
// something was signalled is between the two sides.
type signalling struct {
	s     *session
	held  *held
	f     *oiv1.Freshness
	pages []wantedPage
	rec   *seriesRecord
}

// newSignalling checks all that does not depend on what else is committed.
func (s *session) newSignalling(f *oiv1.Freshness) (*signalling, error) {
	h := s.live[f.Series]
	switch {
	case h == nil:
		return nil, refuse(grants.ErrNoGrant, "series %.80q was not announced in this session", f.Series)
	case h.pair.Grant.Body.Mode != grants.ModeRequest:
		return nil, refuse(grants.ErrUnasked, "under a grant of mode %s what has changed is sent, and not signalled", h.pair.Grant.Body.Mode)
	case len(f.Signals) > maxSignals:
		return nil, refuse(grants.ErrOversize, "%d signals, at most %d", len(f.Signals), maxSignals)
	case len(f.StateRoot) != len(envelope.Hash{}), f.JournalEpoch == 0 || f.JournalEpoch > envelope.MaxInteger, f.From >= f.Through, f.Through > envelope.MaxInteger:
		return nil, refuse(grants.ErrMalformed, "signals for revisions %d to %d of journal epoch %d", f.From, f.Through, f.JournalEpoch)
	}
	p := &signalling{s: s, held: h, f: f, pages: make([]wantedPage, len(f.Signals))}
	seen := make(map[string]bool, len(f.Signals))
	revision := f.From
	for i, w := range f.Signals {
		if w == nil || w.RevisionDelta == 0 || w.RevisionDelta > f.Through-revision || len(w.Digest) != len(envelope.Hash{}) || seen[w.Url] {
			return nil, refuse(grants.ErrMalformed, "signal %d: revision, digest, or a page twice", i)
		}
		if err := content.IsCanonical(w.Url); err != nil {
			return nil, refuse(grants.ErrMalformed, "signal %d: %v", i, err)
		}
		if err := h.pair.Grant.Body.Scope.Match(w.Url); err != nil {
			return nil, refuse(grants.ReasonOf(err), "signal %d: %v", i, err)
		}
		seen[w.Url] = true
		revision += w.RevisionDelta
		p.pages[i] = wantedPage{URL: w.Url, Digest: envelope.Hash(w.Digest), Revision: revision, Modified: w.Modified}
	}
	return p, nil
}

// Prepare makes the checks that depend on the commits before it, and then moves
// the cursor and queues what is new, in one commit.
func (p *signalling) Prepare(tx *translog.Tx) error {
	b, f := tx.Batch(), p.f
	if err := p.recheck(tx); err != nil {
		return err
	}
	rec := p.rec
	if f.JournalEpoch != rec.JournalEpoch {
		if err := rec.turn(b); err != nil {
			return err
		}
	}
	for _, page := range p.pages {
		held, err := rec.holds(b, page)
		if err == nil && !held {
			err = rec.want(b, classSignalled, page.Revision, page)
		}
		if err != nil {
			return err
		}
	}
	rec.JournalEpoch, rec.Revision = f.JournalEpoch, f.Through
	rec.Signalled += uint64(len(p.pages))
	settings := p.s.x.requests.Load()
	if err := rec.trim(b, settings.Backlog, settings.Oldest); err != nil {
		return err
	}
	p.s.x.asks.note(rec)
	return rec.write(b)
}

// turn ends the journal epoch of a series, so that another may begin: what was
// signalled in it is signalled anew. What the operator asked for stays wanted.
func (r *seriesRecord) turn(b *durable.Batch) error {
	if r.JournalEpoch != 0 {
		r.PastEpochs = append(r.PastEpochs, r.JournalEpoch)
	}
	r.Request = 0
	return r.unwantAll(b, func(class byte, _ *wantedPage) bool { return class == classAsked })
}

// holds reports whether the payload of a signalled page is here already.
func (r *seriesRecord) holds(rd durable.Reader, p wantedPage) (bool, error) {
	h := sha256.Sum256([]byte(p.URL))
	var row catalogueRow
	ok, err := readRow(rd, sidKey('C', r.SID, h[:]...), &row)
	return ok && row.Held && row.Digest == p.Digest, err
}

// recheck looks at session, grant, journal epoch, cursor and state.
func (p *signalling) recheck(tx *translog.Tx) error {
	if !p.s.x.sessions.current(p.s.self) {
		return errFenced
	}
	var err error
	g, f := p.held.pair.Grant, p.f
	if p.rec, err = readSeries(tx.Batch(), p.s.peer.Card.Identity, g.Body.Series); err != nil {
		return err
	}
	rec := p.rec
	if rec == nil {
		return refuse(grants.ErrNoGrant, "the series is gone")
	}
	if err := inForce(tx.Batch(), p.held.pair, tx.Now()); err != nil {
		return err
	}
	here := f.JournalEpoch == rec.JournalEpoch
	switch {
	case rec.Grant.ID != g.Object.ID:
		return refuse(grants.ErrSuperseded, "grant %s is in force", rec.Grant.ID)
	case rec.Deletions > 0:
		return &refusal{reason: grants.ErrRevoked, detail: "a deletion is under way", retryMS: retryDeletion}
	case here && !rec.Bound.IsZero() && rec.Bound != g.Object.ID:
		return refuse(grants.ErrState, "the state is held under grant %s; grant %s takes it over by a rebind", rec.Bound, g.Object.ID)
	case here && f.From != rec.Revision:
		return refuse(grants.ErrConflict, "the signals begin at revision %d, acknowledged is %d", f.From, rec.Revision)
	case slices.Contains(rec.PastEpochs, f.JournalEpoch):
		return refuse(grants.ErrConflict, "journal epoch %d has ended", f.JournalEpoch)
	case !here && f.From != 0:
		return refuse(grants.ErrConflict, "a new journal epoch begins at revision 0")
	case envelope.Hash(f.StateRoot) != rec.State:
		return refuse(grants.ErrState, "the series stands at state %s, the signals say %x", rec.State, f.StateRoot)
	}
	return p.s.x.store.Room()
}

// Finish has nothing to add: signals make no entry.
func (p *signalling) Finish(*translog.Tx, *translog.Committed) error { return nil }
