package publisher

import (
	"context"
	"sync"
)

// sharedOctets is how much of what was fetched last is kept for other sessions, in
// octets of payload and what they take around it. Sessions that push one collection
// side by side are rarely further apart than this: who is ahead fetches, and so is
// slower.
const sharedOctets = 8 << 20

// A sharer has sessions that push the same collection side by side fetch each page
// once: making a page out of its file costs more than all else that is done for it.
// What it keeps goes with the last of them. Its zero value is ready.
type sharer struct {
	mu     sync.Mutex
	users  int
	octets int
	pages  map[[32]byte]*sharedPayload
	order  []*sharedPayload // as they were fetched
}

type sharedPayload struct {
	h        [32]byte
	revision uint64
	fetched  chan struct{} // closed when payload counts
	payload  []byte        // nil if there was none
}

// use says that a session may come for pages until the function that it gives is called.
func (c *sharer) use() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users--; c.users == 0 {
			c.octets, c.pages, c.order = 0, nil, nil
		}
	}
}

// payload gives the payload of a page at a revision: the one that another session
// has fetched, or is about to, or else what fetch gives. What fetch finds to be none, or
// to be wrong, is no other session's: each tries by itself.
func (c *sharer) payload(ctx context.Context, h [32]byte, revision uint64, fetch func() ([]byte, error)) ([]byte, error) {
	p, mine := c.claim(h, revision)
	if p == nil {
		return fetch()
	}
	if !mine {
		select {
		case <-p.fetched:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if p.payload == nil {
			return fetch()
		}
		return p.payload, nil
	}
	var payload []byte
	defer func() { c.settle(p, payload) }() // even if fetch does not return
	var err error
	payload, err = fetch()
	return payload, err
}

// claim finds a page, or notes it as one that the caller is to settle. There is none if
// no session pushes beside the caller.
func (c *sharer) claim(h [32]byte, revision uint64) (p *sharedPayload, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pages[h]; p != nil && p.revision == revision {
		return p, false
	}
	if c.users < 2 {
		return nil, false
	}
	p = &sharedPayload{h: h, revision: revision, fetched: make(chan struct{})}
	if c.pages == nil {
		c.pages = make(map[[32]byte]*sharedPayload)
	}
	c.pages[h] = p
	return p, true
}

// settle ends a claim, and lets go of what was fetched first.
func (c *sharer) settle(p *sharedPayload, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.payload = payload
	close(p.fetched)
	if payload == nil {
		c.forget(p)
		return
	}
	if c.pages[p.h] != p { // the last session left meanwhile, or the page has changed
		return
	}
	c.order, c.octets = append(c.order, p), c.octets+len(payload)+keptOverhead
	for c.octets > sharedOctets {
		first := c.order[0]
		c.order[0] = nil // else what is behind order keeps it
		c.order, c.octets = c.order[1:], c.octets-len(first.payload)-keptOverhead
		c.forget(first)
	}
}

func (c *sharer) forget(p *sharedPayload) {
	if c.pages[p.h] == p {
		delete(c.pages, p.h)
	}
}
