package indexer

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// Why the indexer ends a session.
var (
	errFenced   = errors.New("a newer session of this identity has begun")
	errShutdown = errors.New("the indexer is shutting down")
	errLapsed   = errors.New("no grant is in force any more, or the certificate has ended")
	errRemoved  = errors.New("this identity is not trusted any more")
)

// A registry knows the one live session of each publisher.
type registry struct {
	// byNameMu guards byName and draining.
	byNameMu sync.Mutex
	byName   map[envelope.Name]*member
	draining bool // no more sessions begin
}

// A member is one session in the registry.
type member struct {
	name envelope.Name
	// end ends the session at once. finish lets the frame that is being served
	// come to its answer, and what is urgent go out.
	end, finish context.CancelCauseFunc
	send        func(*oiv1.IndexerFrame)   // urgent; does not block for long
	ask         func()                     // has it look at what is wanted; does not block
	underWay    func(series string) uint64 // pages that it asked for and that are not answered
	look        func()                     // has it look at what is in force; does not block
	ready       atomic.Bool                // past the announcement: may be told what it did not ask
	serving     atomic.Bool                // a frame is being served
}

// join makes m the session of its publisher; an older one is ended. It refuses
// while the indexer drains.
func (r *registry) join(m *member) error {
	r.byNameMu.Lock()
	old, draining := r.byName[m.name], r.draining
	if !draining {
		r.byName[m.name] = m
	}
	r.byNameMu.Unlock()
	if draining {
		return errShutdown
	}
	if old != nil {
		old.end(errFenced)
	}
	return nil
}

// of is the session of a publisher, nil if there is none.
func (r *registry) of(name envelope.Name) *member {
	r.byNameMu.Lock()
	defer r.byNameMu.Unlock()
	return r.byName[name]
}

// wake has the session of a publisher look whether it still may live.
func (r *registry) wake(name envelope.Name) {
	if m := r.of(name); m != nil {
		m.wake()
	}
}

// wakeAll has every session look.
func (r *registry) wakeAll() {
	r.byNameMu.Lock()
	defer r.byNameMu.Unlock()
	for _, m := range r.byName {
		m.wake()
	}
}

func (m *member) wake() { m.look() }

// comeBackLater asks the publisher to begin a new session after a while, so that
// not all of so many do at once, and ends this one behind the frame that it is serving.
func (m *member) comeBackLater(why error, sessions int) {
	m.send(&oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Drain{Drain: &oiv1.Drain{ComeBackMs: comeBack + rand.Uint32N(spreadOf(sessions)+1)}}})
	m.finish(why)
}

// spreadOf is over how many milliseconds sessions come back: no more than about a
// hundred a second, up to 5,750 sessions.
func spreadOf(sessions int) uint32 {
	return uint32(comeSpread + min(comeEach*sessions, comeMost-comeSpread))
}

// leave takes m out, unless a newer session has taken its place.
func (r *registry) leave(m *member) {
	r.byNameMu.Lock()
	defer r.byNameMu.Unlock()
	if r.byName[m.name] == m {
		delete(r.byName, m.name)
	}
}

// current reports whether m is still the session of its publisher.
func (r *registry) current(m *member) bool {
	r.byNameMu.Lock()
	defer r.byNameMu.Unlock()
	return r.byName[m.name] == m
}

func (r *registry) count() int {
	r.byNameMu.Lock()
	defer r.byNameMu.Unlock()
	return len(r.byName)
}

func (r *registry) endAll(why error) {
	r.byNameMu.Lock()
	defer r.byNameMu.Unlock()
	for _, m := range r.byName {
		m.end(why)
	}
}

// Times of a drain.
const (
	drainTime  = 10 * time.Second      // for what is in flight
	drainMost  = 20 * time.Second      // while sessions go on ending
	flushTime  = 2 * time.Second       // for a peer to take what it is sent at the end, and more
	flushEach  = time.Millisecond      // for each session that there was
	flushMost  = 8 * time.Second       // but no more than this
	drainLook  = 20 * time.Millisecond // between two looks
	comeBack   = 500                   // milliseconds, at the least
	comeSpread = 2500                  // so that not all come back at once, and more
	comeEach   = 10                    // for each session that there is
	comeMost   = 60_000                // but no more than this
)

// drain takes no more sessions, asks every session to come back later, lets
// each finish what it is serving, and returns when all have ended or the time
// is up: limit, and drainMost as long as sessions end, which thousands of them
// may need on a busy machine only to be told. It gives how many sessions were
// told, and how many of them were at work.
func (r *registry) drain(limit time.Duration) (told, atWork int) {
	r.byNameMu.Lock()
	r.draining = true
	members := make([]*member, 0, len(r.byName))
	for _, m := range r.byName {
		members = append(members, m)
	}
	r.byNameMu.Unlock()
	var telling sync.WaitGroup
	for _, m := range members {
		if m.serving.Load() {
			atWork++
		}
		telling.Go(func() { m.comeBackLater(errShutdown, len(members)) })
	}
	telling.Wait()
	begun := time.Now()
	ended, left := begun, r.count() // when the last session ended, as far as was seen
	for left > 0 && (time.Since(begun) < limit || time.Since(begun) < drainMost && time.Since(ended) < flushTime) {
		time.Sleep(drainLook)
		if n := r.count(); n < left {
			ended, left = time.Now(), n
		}
	}
	return len(members), atWork
}
