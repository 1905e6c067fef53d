package publisher

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/link"
)

// farewell is how long an indexer has to take the last frames of a session, and
// to end the stream.
const farewell = 5 * time.Second

// close ends the stream and waits for its goroutines. Behind an answer to a
// request nothing says that the indexer has taken it, so the stream is ended in
// order then: the indexer serves what came before the end.
func (s *session) close() {
	patience := time.NewTimer(farewell)
	defer patience.Stop()
	if s.link != nil && s.asking.answered {
		s.link.Finish()
		select {
		case <-s.link.Done():
		case <-patience.C:
			patience.Reset(0)
		}
	}
	if s.link != nil {
		s.link.Close()
	}
	select {
	case <-s.ended:
	case <-patience.C: // what is being written is not taken
	}
	s.cancel(link.ErrClosed)
	<-s.ended
	s.watched.Wait()
	s.conn.Close()
	s.span.End("")
}
