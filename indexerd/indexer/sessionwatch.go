package indexer

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// watch ends the session when its publisher is not trusted any more, at once;
// when its certificate ends, behind what is being served; and likewise when none
// of its grants is in force; and when it takes nothing that it is sent. It looks
// every two seconds, and whenever it is woken. Before the announcement there are no grants to look at.
func (s *session) watch(done <-chan struct{}) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	finishing, ending := false, false
	for {
		woken := false
		select {
		case <-done:
			return
		case <-tick.C:
		case <-s.self.awake:
			woken = true
		}
		if s.link.Stuck() > s.x.times.stuck {
			s.self.end(errStuck)
			return
		}
		now := s.x.cfg.Now()
		switch ended, err := s.standing(now); {
		case err != nil:
			s.x.log.Info("session without trust", "publisher", s.peer.Card.Identity, "error", err)
			s.self.end(errRemoved)
			return
		case ended && ending && !woken:
			s.self.end(errLapsed)
			return
		case ended:
			if !ending {
				s.x.readers.Go(func() { s.self.comeBackLater(errLapsed, 1) })
			}
			ending = true
		case !s.self.ready.Load(), s.mayStay(now):
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

// standing judges the peer of the connection anew if the trust has changed, and
// says whether its certificate has ended. It is owned by watch.
func (s *session) standing(now time.Time) (ended bool, err error) {
	if !now.Before(s.until) {
		return true, nil
	}
	version := s.x.trust.Version()
	if version == s.judged {
		return false, nil
	}
	if _, s.until, err = identity.VerifyPeer(s.info.State, s.x.trust, identity.Publisher, now); err != nil {
		return false, err
	}
	s.judged = version
	return false, nil
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
	// Looked at behind the deletions: one that has ended since is still to be told.
	telling := s.x.tender.telling.Load()
	return telling != nil && *telling == s.peer.Card.Identity
}
