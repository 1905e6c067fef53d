package indexer

import (
	"context"
	"errors"
	"sync"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// Why the indexer ends a session.
var (
	errFenced   = errors.New("a newer session of this identity has begun")
	errShutdown = errors.New("the indexer is shutting down")
	errLapsed   = errors.New("no grant is in force any more, or the certificate has ended")
)

// A registry knows the one live session of each publisher.
type registry struct {
	// byNameMu guards byName.
	byNameMu sync.Mutex
	byName   map[envelope.Name]*member
}

// A member is one session in the registry.
type member struct {
	name envelope.Name
	end  context.CancelCauseFunc
}

// join makes m the session of its publisher; an older one is ended.
func (r *registry) join(m *member) {
	r.byNameMu.Lock()
	old := r.byName[m.name]
	r.byName[m.name] = m
	r.byNameMu.Unlock()
	if old != nil {
		old.end(errFenced)
	}
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
