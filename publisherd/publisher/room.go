package publisher

import (
	"errors"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A HeldStatus says why an indexer takes nothing more of one agreement, while it
// takes what others bring: there is no room for it that its operator would give.
type HeldStatus struct {
	Reason string        `json:"reason"`
	Detail string        `json:"detail"` // in the indexer's words
	Since  envelope.Time `json:"since"`
	Last   envelope.Time `json:"last"` // when it said so last
	// Retry is when it is offered again, unless pages go or a push is asked for;
	// zero if no daemon runs.
	Retry envelope.Time `json:"retry,omitzero"`
}

func (a agreement) roomKey() []byte { return rowKey('A', a.rel.Series, 'h') }

// room is the last word on room; nil if there is some.
func (a agreement) room(r durable.Reader) (*HeldStatus, error) {
	var h HeldStatus
	known, err := durable.ReadJSON(r, a.roomKey(), &h)
	if err != nil || !known {
		return nil, err
	}
	return &h, nil
}

// noteRoom writes down what an answer to a batch says about room. It is nil for
// one that was taken.
func (a agreement) noteRoom(answer error, now time.Time) error {
	var refused *Refused
	full := errors.As(answer, &refused) && refused.Reason == grants.ErrQuota
	before, err := a.room(a.store)
	if err != nil || !full && (before == nil || answer != nil) {
		return err
	}
	b := a.store.NewBatch()
	defer b.Close()
	if full {
		h := HeldStatus{Reason: string(refused.Reason), Detail: refused.Detail, Since: envelope.At(now), Last: envelope.At(now)}
		if before != nil {
			h.Since = before.Since
		}
		err = durable.WriteJSON(b, a.roomKey(), h)
	} else {
		err = b.Delete(a.roomKey())
	}
	return errors.Join(err, b.Commit())
}

// waiting tells what an agreement waits for, if it does.
func (p *Publisher) waiting(line *IndexerStatus, a agreement) error {
	if line.State != "in-force" {
		return nil
	}
	session, held := p.sessionStatus(line.Identity)
	line.Session = session
	h, err := a.room(p.store)
	if err != nil || h == nil || line.Backlog == 0 && !line.Mode.Asks() {
		return err
	}
	if until := held[line.Series]; !until.IsZero() {
		h.Retry = envelope.At(until)
	}
	line.Held = h
	return nil
}

// A SessionStatus is how the session of a running daemon with an indexer stands.
type SessionStatus struct {
	Open      bool          `json:"open"`
	Since     envelope.Time `json:"since,omitzero"`      // since when it is so; zero before the first attempt has ended
	LastError string        `json:"last_error,omitzero"` // of the last session or attempt
	Next      envelope.Time `json:"next,omitzero"`       // when it is tried again
}

// sessionStatus is that with one indexer; nil if no daemon runs here.
func (p *Publisher) sessionStatus(name envelope.Name) (s *SessionStatus, held map[string]time.Time) {
	if !p.pulse.beats.Load() {
		return nil, nil
	}
	f := p.pulse.peer(name).read()
	s = &SessionStatus{Open: !f.Open.IsZero(), LastError: f.LastError}
	for t, at := range map[*envelope.Time]time.Time{&s.Since: f.Closed, &s.Next: f.Next} {
		if !at.IsZero() {
			*t = envelope.At(at)
		}
	}
	if s.Open {
		s.Since = envelope.At(f.Open)
	}
	return s, f.Held
}
