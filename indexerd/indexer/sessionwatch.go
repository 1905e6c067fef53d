package indexer

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// watch ends the session when its certificate ends, when its publisher is not
// trusted any more, or when none of its grants is in force. It looks every two
// seconds, and whenever it is woken.
func (s *session) watch(done <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	finishing := false
	for {
		woken := false
		select {
		case <-done:
			return
		case <-tick.C:
		case <-s.self.awake:
			woken = true
		}
		now := s.x.cfg.Now()
		_, _, err := identity.VerifyPeer(s.info.State, s.x.trust, identity.Publisher, now)
		switch {
		case err != nil || !now.Before(s.until):
			s.self.end(errLapsed)
			return
		case s.mayStay(now):
			finishing = false
		case finishing && !woken:
			s.self.end(errLapsed)
			return
		default:
			// What is being served is refused when it comes to its commit; the
			// session ends behind that, or at the next look.
			s.self.finish(errLapsed)
			finishing = true
		}
	}
}

// mayStay reports whether the session still has a purpose: a grant in force, or
// a deletion that it is to be told of. A session that began with a revocation
// has no grants, and stays for as long as the publisher likes.
func (s *session) mayStay(now time.Time) bool {
	if len(s.live) == 0 {
		return true
	}
	for _, h := range s.live {
		err := inForce(s.x.store, h.pair, now)
		if err == nil {
			return true
		}
		if grants.ReasonOf(err) == "" {
			s.x.log.Error("grant in force", "series", h.rec.Series, "error", err)
		}
	}
	if !s.withdrew.Load() {
		return false
	}
	left, err := deletions(s.x.store)
	if err != nil {
		s.x.log.Error("deletions", "error", err)
	}
	for _, d := range left {
		if d.Publisher == s.peer.Card.Identity {
			return true
		}
	}
	return false
}
