package publisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The bounds of one frame of signals: their number, and about how many octets.
const (
	maxSignals     = 1000
	maxSignalBytes = 256 << 10
)

// An askedCount is what passed between the two sides by signals and requests,
// over all journal epochs of a series.
type askedCount struct {
	Signalled uint64 `json:"signalled"` // pages
	Asked     uint64 `json:"asked"`     // pages, refused ones included
	Delivered uint64 `json:"delivered"` // pages
}

func (a agreement) askedKey() []byte { return rowKey('A', a.rel.Series, 'a') }

func (a agreement) askedCount(r durable.Reader) (n askedCount, err error) {
	_, err = durable.ReadJSON(r, a.askedKey(), &n)
	return n, err
}

// count adds to the counts of the series.
func (a agreement) count(b *durable.Batch, more askedCount) error {
	n, err := a.askedCount(b)
	if err != nil {
		return err
	}
	n.Signalled, n.Asked, n.Delivered = n.Signalled+more.Signalled, n.Asked+more.Asked, n.Delivered+more.Delivered
	return durable.WriteJSON(b, a.askedKey(), n)
}

// countAnswer counts the pages of an answer whose receipt is stored with it.
func (a agreement) countAnswer(b *durable.Batch, items []offered) error {
	var more askedCount
	for _, it := range items {
		if it.Op == translog.OpPut {
			more.Delivered++
		}
	}
	return a.count(b, more)
}

// signal brings an indexer up to date that asks for pages itself (UZPIF-OI
// 12.4): it is told, in the order of revisions, which pages are new or changed,
// and deletions go to it at once. The cursor follows the signals, since the
// indexer has them durably when it acknowledges them; the state holds only what
// was delivered. Deletions come behind: Seen is moved only when those up to it
// have their receipt, so that no cut between the two loses one.
func (s *session) signal(ctx context.Context, a agreement, c cursor, d *drafter, report *Result) error {
	if s.welcome.Limits.Signals == 0 {
		return &Refused{Reason: grants.ErrVersion, Detail: "the indexer takes no signals; a grant with --mode push suits it"}
	}
	c, err := s.tell(ctx, a, c, d, report)
	if err != nil {
		return err
	}
	if c, err = s.deliverGone(ctx, a, c, d, report); err != nil {
		return err
	}
	c.Seen = d.target
	return a.setCursor(c)
}

// tell sends signals up to the drafter's target. Where there is nothing to
// signal and nothing to delete, nothing is sent.
func (s *session) tell(ctx context.Context, a agreement, c cursor, d *drafter, report *Result) (cursor, error) {
	for from := max(c.Acked, c.Seen); from < d.target; {
		f, gone, err := d.signals(from, c, min(maxSignals, int(s.welcome.Limits.Signals)))
		if err == nil {
			err = a.buryAll(d.dead, d.over)
		}
		if err != nil {
			return c, err
		}
		if len(f.Signals) == 0 && !gone && !c.Reconciling && f.Through == d.target {
			return c, nil // there were no rows to speak of, up to the target
		}
		if c, err = s.tellOne(ctx, a, c, f); err != nil {
			return c, err
		}
		report.Signalled += len(f.Signals)
		from = f.Through
	}
	return c, nil
}

// signals fills one frame with what changed behind revision from. gone says that
// deletions are among it, which need the cursor moved past them.
func (d *drafter) signals(from uint64, c cursor, most int) (f *oiv1.Freshness, gone bool, err error) {
	f = &oiv1.Freshness{
		Series: d.agreed.rel.Series, JournalEpoch: c.JournalEpoch, From: c.Acked, Through: d.target, StateRoot: c.State[:],
	}
	snapshot, err := d.agreed.store.Snapshot()
	if err != nil {
		return nil, false, err
	}
	defer snapshot.Close()
	d.dead, d.over = nil, nil
	previous, size := c.Acked, 0
	err = d.journal.changes(snapshot, from, d.target, func(h [32]byte, row pageRow) (bool, error) {
		it, err := d.item(snapshot, h, row)
		if err == nil && it == nil && len(d.dead)+len(d.over) >= lettersOfDraft {
			f.Through = row.Revision
			return false, nil
		}
		if err != nil || it == nil {
			return err == nil, err
		}
		if it.Op == translog.OpTombstone {
			gone = true
			return true, nil
		}
		if len(f.Signals) >= most || size >= maxSignalBytes {
			f.Through = row.Revision - 1
			return false, nil
		}
		w := &oiv1.Signal{RevisionDelta: it.Revision - previous, Url: it.URL, Digest: it.Digest[:]}
		if !row.Modified.IsZero() {
			w.Modified = row.Modified.Unix()
		}
		f.Signals = append(f.Signals, w)
		previous = it.Revision
		size += len(it.URL) + 56
		return true, nil
	})
	return f, gone, err
}

// tellOne sends one frame, and moves the cursor when it is acknowledged.
func (s *session) tellOne(ctx context.Context, a agreement, c cursor, f *oiv1.Freshness) (cursor, error) {
	// Durable before it is sent: after a crash an indexer that says that it has
	// come so far is believed, and one that says more is not.
	if err := a.noteTold(f.JournalEpoch, f.Through); err != nil {
		return c, err
	}
	c.ToldEpoch, c.Told, c.Under = f.JournalEpoch, f.Through, a.rel.Pair.Grant.Object.ID
	if err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Freshness{Freshness: f}}); err != nil {
		return c, err
	}
	in, err := s.next(ctx)
	if err != nil {
		return c, err
	}
	ack := in.GetFreshnessAck()
	switch {
	case ack == nil || ack.Series != f.Series:
		return c, s.violation("an answer to something else than the signals that were sent")
	case ack.Refused != nil:
		return c, refusedBy(ack.Refused)
	case ack.JournalEpoch != f.JournalEpoch || ack.Through != f.Through:
		return c, s.violation("it acknowledges signals up to revision %d of journal epoch %d, and was sent those up to %d of %d",
			ack.Through, ack.JournalEpoch, f.Through, f.JournalEpoch)
	}
	c.JournalEpoch, c.Acked = f.JournalEpoch, f.Through
	c.Reconciling = c.Reconciling && c.Acked < s.reach
	if err := a.acknowledged(c, uint64(len(f.Signals))); err != nil {
		return c, err
	}
	held := s.held[a.rel.Series]
	held.JournalEpoch, held.Revision = c.JournalEpoch, c.Acked
	s.asking.want(a.rel.Series, ack.Wanted)
	return c, nil
}

// noteTold makes durable how far signals are about to be sent. The rest of the
// cursor stays as it is stored.
func (a agreement) noteTold(epoch, through uint64) error {
	c, err := a.cursor(a.store)
	if err != nil {
		return err
	}
	c.ToldEpoch, c.Told, c.Under = epoch, through, a.rel.Pair.Grant.Object.ID
	return a.setCursor(c)
}

// acknowledged stores a cursor that signals have moved.
func (a agreement) acknowledged(c cursor, signals uint64) error {
	b := a.store.NewBatch()
	defer b.Close()
	return errors.Join(
		durable.WriteJSON(b, rowKey('A', a.rel.Series, 'c'), c), a.count(b, askedCount{Signalled: signals}), b.Commit(),
	)
}

// deliverGone sends the deletions up to the cursor, unasked.
func (s *session) deliverGone(ctx context.Context, a agreement, c cursor, d *drafter, report *Result) (cursor, error) {
	told := d.report
	defer func() { d.rows, d.report = nil, told }()
	target := c.Acked
	d.report = new(Result) // tell has noted what is left out
	d.rows = func(r durable.Reader, from uint64, yield func([32]byte, pageRow) (bool, error)) error {
		return d.journal.changes(r, from, target, func(h [32]byte, row pageRow) (bool, error) {
			it, err := d.item(r, h, row)
			d.dead, d.over = nil, nil // tell has buried them
			if err != nil || it == nil || it.Op != translog.OpTombstone {
				return err == nil, err
			}
			return yield(h, row)
		})
	}
	for from, last := c.Seen, c.Seen >= target; !last; {
		dr, err := d.next(ctx, from, 0) // which moves no cursor: revisions count from 0
		if err != nil {
			return c, err
		}
		from, last = dr.through, dr.last
		if len(dr.items) == 0 {
			continue
		}
		if c, err = s.offerAsked(ctx, a, c, dr, report); err != nil {
			return c, err
		}
	}
	return c, nil
}

// sameState reports whether the indexer names the state and the receipt that are
// stored here. There is no receipt while only signals have passed.
func sameState(held *oiv1.CollectionState, c cursor) bool {
	return sameHash(held.StateRoot, c.State) && sameHash(held.Receipt, c.Receipt)
}

func sameHash(raw []byte, h envelope.Hash) bool {
	return string(raw) == string(h[:]) || len(raw) == 0 && h.IsZero()
}

// catchUp moves the cursor to where the indexer says that it has signals, if
// they were sent: their acknowledgement was lost.
func (s *session) catchUp(a agreement, c cursor) (cursor, error) {
	held := s.held[a.rel.Series]
	switch {
	case c.Told == 0 || held.JournalEpoch != c.ToldEpoch || held.Revision > c.Told || !sameState(held, c):
		return c, nil
	case held.JournalEpoch == c.JournalEpoch && held.Revision <= c.Acked:
		return c, nil
	}
	c.JournalEpoch, c.Acked = held.JournalEpoch, held.Revision
	return c, a.setCursor(c)
}

// regrant looks at what was signalled under an earlier grant. Where the newest
// one reaches other pages, or lets the publisher send what it had only
// signalled, all is offered in a new journal epoch, in which only what differs
// is sent.
func (s *session) regrant(a agreement, c cursor) (cursor, error) {
	g := a.rel.Pair.Grant
	if c.Under.IsZero() || c.Under == g.Object.ID {
		return c, nil
	}
	old, err := s.p.pairOf(a.rel, c.Under)
	if err != nil {
		return c, fmt.Errorf("grant under which signals were sent: %w", err)
	}
	wider, err := s.p.wider(a.rel, c.Under, a.rel.Pair)
	if err != nil {
		return c, err
	}
	if wider || old.Grant.Body.Mode != g.Body.Mode {
		if err := c.renumber(); err != nil {
			return c, err
		}
	}
	c.Under = envelope.Hash{}
	return c, a.setCursor(c)
}
