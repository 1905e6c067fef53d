package publisher

import (
	"context"
	"errors"
)

// errAnew ends a session behind the batch in flight, because another one would
// be held by another certificate or under another card.
var errAnew = errors.New("the certificate, or what is trusted of the indexer, is another one now")

// replaced reports whether err ends a session only for the sake of the next.
func replaced(err error) bool { return errors.Is(err, errChanged) || errors.Is(err, errAnew) }

// ended is what err means of a push that stop may have cut short.
func ended(stop context.Context, err error) error {
	switch {
	case err == nil, stop.Err() == nil:
		return err
	case !errors.Is(context.Cause(stop), errAnew):
		return ErrStopping
	case errors.Is(err, ErrStopping), errors.Is(err, context.Canceled):
		return errAnew
	}
	return err
}

// giveBack leaves rounds to the next session, with what this one did for them.
func (l *indexerLoop) giveBack(rounds []*round, rels []*Relationship, results []Result) {
	l.partial = make(map[string]Result)
	for i, r := range results {
		l.partial[rels[i].Series] = r
	}
	l.roundsMu.Lock()
	defer l.roundsMu.Unlock()
	l.rounds = append(rounds, l.rounds...)
}

func (l *indexerLoop) answerAll(rounds []*round, results []Result, err error) {
	l.partial = nil
	answer(rounds, results, err)
}
