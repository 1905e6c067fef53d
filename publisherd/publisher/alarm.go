package publisher

import (
	"errors"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
)

// An Alarm says why an agreement came to a stop, or nearly: the indexer was
// found to be dishonest, or not sound. It stands in the status until the same
// agreement goes well again.
type Alarm struct {
	At envelope.Time `json:"at"`
	// Reason is "protocol", "probe", "split-view", or the rule of package
	// evaluate that did not hold.
	Reason string `json:"reason"`
	Detail string `json:"detail"`
}

// maxDetail bounds what is kept, and shown, of the words of another side.
const maxDetail = 500

// clean makes of another side's words something that a terminal and a log can
// show: bounded, on one line, and without control characters. Lines, such as errors
// that were joined, stand behind one another.
func clean(s string) string {
	lines := strings.FieldsFunc(s[:min(len(s), maxDetail)], func(r rune) bool { return r == '\n' || r == '\r' })
	s = strings.Join(lines, "; ")
	s = strings.ToValidUTF8(s[:min(len(s), maxDetail)], "?")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r >= '\u202a' && r <= '\u202e' {
			return '?'
		}
		return r
	}, s)
}

// reasonOf is the short name of an alarm.
func reasonOf(err error) string {
	var failure *evaluate.Failure
	switch {
	case errors.Is(err, ErrSplitView):
		return "split-view"
	case errors.Is(err, ErrProbe):
		return "probe"
	case errors.As(err, &failure):
		return string(failure.Rule)
	}
	return "protocol"
}

func alarmKey(rel *Relationship) []byte {
	return rowKey('L', string(rel.Indexer), 'a', []byte(rel.Series))
}

// raise writes an alarm of one agreement down.
func (p *Publisher) raise(rel *Relationship, err error) error {
	b := p.store.NewBatch()
	defer b.Close()
	a := Alarm{envelope.At(p.now()), reasonOf(err), clean(err.Error())}
	if err := durable.WriteJSON(b, alarmKey(rel), a); err != nil {
		return err
	}
	return b.Commit()
}

// judged raises an alarm of each agreement if err asks for one, and gives err
// back.
func (p *Publisher) judged(rels []*Relationship, err error) error {
	if !judge(err).alarm {
		return err
	}
	for _, r := range rels {
		err = errors.Join(err, p.raise(r, err))
	}
	return err
}

// calm ends an alarm of an agreement that went well.
func (p *Publisher) calm(rel *Relationship) error {
	if a, err := p.alarm(rel); err != nil || a == nil {
		return err
	}
	b := p.store.NewBatch()
	defer b.Close()
	if err := b.Delete(alarmKey(rel)); err != nil {
		return err
	}
	return b.Commit()
}

// alarm is the one of an agreement; nil if there is none.
func (p *Publisher) alarm(rel *Relationship) (*Alarm, error) {
	var a Alarm
	ok, err := durable.ReadJSON(p.store, alarmKey(rel), &a)
	if err != nil || !ok {
		return nil, err
	}
	return &a, nil
}
