package publisher

import (
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A letterSum counts the dead letters of an agreement, so that a status reads ten
// of them however many there are. It is written in each commit that writes or takes
// away a letter (TestTheSumOfDeadLettersIsThatOfTheRows).
type letterSum struct {
	Count    int            `json:"count"`
	Excluded int            `json:"excluded"` // of them, those that are rows of the state
	Reasons  map[string]int `json:"reasons"`
	Since    envelope.Time  `json:"since,omitzero"` // since there was none
}

// maxReasons bounds how many reasons are told apart, whatever an indexer thinks of.
const maxReasons = 64

// otherReason stands for all beyond them.
const otherReason = "other"

func (s *letterSum) add(l letter) {
	if s.Count == 0 {
		s.Since = l.Since
	}
	s.Count++
	if l.Excluded {
		s.Excluded++
	}
	if s.Reasons == nil {
		s.Reasons = make(map[string]int)
	}
	if _, known := s.Reasons[l.Reason]; !known && len(s.Reasons) >= maxReasons {
		l.Reason = otherReason
	}
	s.Reasons[l.Reason]++
}

func (s *letterSum) remove(l letter) {
	s.Count--
	if l.Excluded {
		s.Excluded--
	}
	if _, known := s.Reasons[l.Reason]; !known {
		l.Reason = otherReason
	}
	if s.Reasons[l.Reason]--; s.Reasons[l.Reason] <= 0 {
		delete(s.Reasons, l.Reason)
	}
}

func (a agreement) letterSumKey() []byte { return rowKey('A', a.rel.Series, 'g') }

func (a agreement) letterSum(r durable.Reader) (s letterSum, err error) {
	_, err = durable.ReadJSON(r, a.letterSumKey(), &s)
	return s, err
}

// setLetterSum writes s, if there is anything to count or was.
func (a agreement) setLetterSum(b *durable.Batch, s letterSum) error {
	if s.Count == 0 {
		return b.Delete(a.letterSumKey())
	}
	return durable.WriteJSON(b, a.letterSumKey(), s)
}

// A RefusedStatus sums the dead letters of an agreement up.
type RefusedStatus struct {
	Count   int            `json:"count"`
	Reasons map[string]int `json:"reasons"`
	Since   envelope.Time  `json:"since,omitzero"` // since there was none
	// First are at most 10 of them.
	First []DeadLetter `json:"first"`
}

// maxFirst bounds RefusedStatus.First.
const maxFirst = 10

// refused sums up; nil if there are none.
func (a agreement) refused(r durable.Reader, sum letterSum) (*RefusedStatus, error) {
	if sum.Count == 0 {
		return nil, nil
	}
	s := &RefusedStatus{Count: sum.Count, Reasons: sum.Reasons, Since: sum.Since}
	err := a.letters(r, nil, func(_ []byte, l DeadLetter) (bool, error) {
		s.First = append(s.First, l)
		return len(s.First) < maxFirst, nil
	})
	return s, err
}

// delivered is how many of the pages of a state the indexer has: of those that it
// excluded it holds the row alone.
func (s letterSum) delivered(c cursor) uint64 { return c.Pages - min(c.Pages, uint64(s.Excluded)) }
