package publisher

import (
	"context"
	"time"
)

// How long a push waits for the comparison that began with its session, once
// everything is delivered; and for how long, after a public log could not be
// read, the next pushes do not wait for it at all.
const (
	compareGrace = 2 * time.Second
	compareSpare = time.Hour
)

// compareLog compares, in a goroutine of its own, the log that this session shows
// with the one that everybody is shown: at once, and daily while the session
// stays. A split view ends the session, whatever it is at.
func (s *session) compareLog(ctx context.Context) {
	tree, note := s.tree, s.note
	first := make(chan struct{})
	limited, hurry := context.WithTimeout(ctx, compareTimeout)
	s.compared, s.hurry = first, hurry
	s.watched.Go(func() {
		err := s.p.compare(ctx, limited, s.peer, tree, note)
		if err != nil {
			s.lose(err)
		}
		hurry()
		close(first)
		for err == nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(compareEvery):
			}
			limited, cancel := context.WithTimeout(ctx, compareTimeout)
			if tree, note, err = s.p.logTree(s.name()); err == nil {
				err = s.p.compare(ctx, limited, s.peer, tree, note)
			}
			cancel()
			if err != nil {
				s.lose(err)
			}
		}
	})
}

// agreedLog waits for the first comparison for a while, and gives what it found.
func (s *session) agreedLog() error {
	last, err := s.p.logCheck(s.peer)
	if err != nil {
		return err
	}
	grace := compareGrace
	if last != nil && last.State == LogUnreachable && s.p.now().Sub(last.At.Time) < compareSpare {
		grace = 0
	}
	timer := time.AfterFunc(grace, s.hurry)
	defer timer.Stop()
	<-s.compared
	if err := s.lost.Load(); err != nil {
		return *err
	}
	return nil
}
