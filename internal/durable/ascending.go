package durable

import (
	"bytes"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// mostAscending bounds the prefixes that Ascending heeds at a time, since each may make
// three tables of what would be one.
const mostAscending = 24

// ascending has the bounds of the prefixes that rows are written to by ascending key.
type ascending struct {
	mu     sync.RWMutex
	users  map[string]int // by prefix
	bounds [][]byte       // where each prefix begins and ends, by ascending key
}

// Ascending says that many rows below each of the prefixes are going to be written by
// ascending key, until done is called. Tables then begin and end where the prefixes do.
// Without that a table has some rows of each, and overlaps all that was written below
// any: every merge writes all of it anew. With it what comes lies behind what is there,
// and goes down a level as it is.
//
// It changes no outcome. Prefixes beyond the first 24 of a store are not heeded.
func (s *Store) Ascending(prefixes ...[]byte) (done func()) {
	a := s.ascending
	var taken []string
	a.mu.Lock()
	for _, p := range prefixes {
		if a.users[string(p)] == 0 && (len(a.users) == mostAscending || PrefixEnd(p) == nil) {
			continue
		}
		if a.users == nil {
			a.users = make(map[string]int)
		}
		a.users[string(p)]++
		taken = append(taken, string(p))
	}
	a.bound()
	a.mu.Unlock()
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, p := range taken {
			if a.users[p]--; a.users[p] == 0 {
				delete(a.users, p)
			}
		}
		a.bound()
	})
}

func (a *ascending) bound() {
	a.bounds = nil
	for p := range a.users {
		a.bounds = append(a.bounds, []byte(p), PrefixEnd([]byte(p)))
	}
	slices.SortFunc(a.bounds, bytes.Compare)
}

// policy tells Pebble before which key a table that begins with key has to end; nil if
// anywhere.
func (a *ascending) policy(key []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	i, found := slices.BinarySearchFunc(a.bounds, key, bytes.Compare)
	for ; found && i < len(a.bounds) && bytes.Equal(a.bounds[i], key); i++ {
	}
	if i < len(a.bounds) {
		end = a.bounds[i]
	}
	return policy, end, nil
}
