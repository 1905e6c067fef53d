package indexer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A lookout ends its session when the publisher is not trusted any more, at once;
// when its certificate ends, behind what is being served; and likewise when none
// of its grants is in force; and when it takes nothing that it is sent. It looks
// every two seconds, and whenever it is woken. Before the announcement there are
// no grants to look at. Between two looks it is a timer and no goroutine, since
// nearly all sessions have nothing else to do.
type lookout struct {
	s     *session
	woken atomic.Bool

	// lookingMu guards the rest; it is held for one look.
	lookingMu         sync.Mutex
	timer             *time.Timer
	over              bool // no more looks
	finishing, ending bool
}

// watch begins to look.
func (s *session) watch() *lookout {
	l := &lookout{s: s}
	l.lookingMu.Lock()
	defer l.lookingMu.Unlock()
	l.timer = time.AfterFunc(watchEvery, l.look)
	return l
}

// wake has it look now. It does not wait for that, unless for a look under way.
func (l *lookout) wake() {
	l.woken.Store(true)
	l.timer.Reset(0)
}

// stop ends the looking; on return no look is under way.
func (l *lookout) stop() {
	l.lookingMu.Lock()
	defer l.lookingMu.Unlock()
	l.over = true
	l.timer.Stop()
}

// look is called by the timer.
func (l *lookout) look() {
	l.lookingMu.Lock()
	defer l.lookingMu.Unlock()
	if l.over {
		return
	}
	if l.over = !l.goesOn(l.woken.Swap(false)); !l.over {
		l.timer.Reset(watchEvery)
	}
}

// goesOn looks once, and reports whether there is more to look at.
func (l *lookout) goesOn(woken bool) bool {
	s := l.s
	if s.link.Stuck() > s.x.times.stuck {
		s.self.end(errStuck)
		return false
	}
	now := s.x.cfg.Now()
	switch ended, err := s.standing(now); {
	case err != nil:
		s.x.log.Info("session without trust", "publisher", s.peer.Card.Identity, "error", err)
		s.self.end(errRemoved)
		return false
	case ended && l.ending && !woken:
		s.self.end(errLapsed)
		return false
	case ended:
		if !l.ending {
			s.x.readers.Go(func() { s.self.comeBackLater(errLapsed, 1) })
		}
		l.ending = true
	case !s.self.ready.Load(), s.mayStay(now):
		l.finishing = false
	case l.finishing && !woken:
		s.self.end(errLapsed)
		return false
	default:
		// What is being served is refused when it comes to its commit; the
		// session ends behind that, or at the next look.
		s.self.finish(errLapsed)
		l.finishing = true
	}
	return true
}

// standing judges the peer of the connection anew if the trust has changed, and
// says whether its certificate has ended. It is owned by the lookout.
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
