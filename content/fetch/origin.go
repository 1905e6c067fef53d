package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// An origin is what a client knows about one server.
type origin struct {
	slots chan struct{} // one octet of nothing for each request under way

	scheduleMu sync.Mutex
	gap        time.Duration // between two requests
	next       time.Time     // when the next request may begin
	closed     time.Time     // until when the server wants to be left alone
	closedBy   int           // the status that said so
}

// maxOrigins bounds how many origins a client keeps in mind.
const maxOrigins = 1024

// origin returns what is known of a server. Where too many are known, idle ones
// that nothing is owed are forgotten.
func (c *Client) origin(name string) (*origin, error) {
	c.originsMu.Lock()
	defer c.originsMu.Unlock()
	if o := c.origins[name]; o != nil {
		return o, nil
	}
	if len(c.origins) >= maxOrigins {
		now := c.config.Now()
		for other, o := range c.origins {
			if o.idle(now) {
				delete(c.origins, other)
			}
		}
	}
	if len(c.origins) >= maxOrigins {
		return nil, fmt.Errorf("more than %d origins at once", maxOrigins)
	}
	o := &origin{slots: make(chan struct{}, c.config.Concurrency), gap: time.Duration(float64(time.Second) / c.config.Rate)}
	c.origins[name] = o
	return o, nil
}

func (o *origin) idle(now time.Time) bool {
	o.scheduleMu.Lock()
	defer o.scheduleMu.Unlock()
	return len(o.slots) == 0 && !o.next.After(now) && !o.closed.After(now)
}

// Slow lowers the rate for one origin, to what its own policy asks for. A rate
// that is not lower than the present one, or not positive, changes nothing.
func (c *Client) Slow(originName string, perSecond float64) error {
	o, err := c.origin(originName)
	if err != nil || perSecond <= 0 {
		return err
	}
	o.scheduleMu.Lock()
	defer o.scheduleMu.Unlock()
	gap := time.Duration(min(float64(time.Second)/perSecond, float64(maxRetryAfter)))
	o.gap = max(o.gap, gap)
	return nil
}

// turn returns how long to wait before the next request, and reserves it.
func (o *origin) turn(now time.Time, maxWait time.Duration) (time.Duration, error) {
	o.scheduleMu.Lock()
	defer o.scheduleMu.Unlock()
	if wait := o.closed.Sub(now); wait > maxWait {
		return 0, &StatusError{Code: o.closedBy, RetryAfter: wait}
	}
	at := now
	for _, t := range []time.Time{o.next, o.closed} {
		if t.After(at) {
			at = t
		}
	}
	o.next = at.Add(o.gap)
	return at.Sub(now), nil
}

// close keeps everybody away from the server for a while.
func (o *origin) close(until time.Time, status int) {
	o.scheduleMu.Lock()
	defer o.scheduleMu.Unlock()
	if until.After(o.closed) {
		o.closed, o.closedBy = until, status
	}
}

// An answer is a response whose slot is not given back yet.
type answer struct {
	*http.Response
	release func()
	ctx     context.Context // of the exchange
	cancel  context.CancelCauseFunc
}

// close gives connection and slot back, and reads no further.
func (a *answer) close() {
	a.Body.Close()
	a.cancel(context.Canceled)
	a.release()
}

// tried are the answers after which it is tried again.
var tried = []int{
	http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// try sends the request of one hop, and again where that may help.
func (g *get) try(u *url.URL) (*answer, error) {
	c := g.client
	o, err := c.origin(originOf(u))
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		a, err := g.once(o, u)
		if err != nil {
			return nil, err
		}
		now := c.config.Now()
		if wait := exhausted(a.Header); wait > 0 {
			o.close(now.Add(wait), http.StatusTooManyRequests)
		}
		if !slices.Contains(tried, a.StatusCode) {
			return a, nil
		}
		wait := retryAfter(a.Header, now)
		if wait == 0 {
			wait = min(time.Second<<min(attempt, 16), c.config.MaxWait)
		}
		o.close(now.Add(wait), a.StatusCode)
		if attempt >= c.config.Retries || wait > c.config.MaxWait {
			return a, nil
		}
		a.close()
	}
}

// once waits for its turn, and sends the request of one hop.
func (g *get) once(o *origin, u *url.URL) (*answer, error) {
	c := g.client
	select {
	case o.slots <- struct{}{}:
	case <-g.ctx.Done():
		return nil, g.ctx.Err()
	}
	release := func() { <-o.slots }
	wait, err := o.turn(c.config.Now(), c.config.MaxWait)
	if err == nil && wait > 0 {
		err = c.config.Sleep(g.ctx, wait)
	}
	if err != nil {
		release()
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(g.ctx)
	tooSlow := time.AfterFunc(c.config.HopTimeout, func() {
		cancel(fmt.Errorf("no header within %v: %w", c.config.HopTimeout, context.DeadlineExceeded))
	})
	defer tooSlow.Stop()
	request, err := g.request(ctx, u)
	if err != nil {
		cancel(err)
		release()
		return nil, err
	}
	r, err := c.transport(originOf(u)).RoundTrip(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(cause, context.DeadlineExceeded) {
			err = cause
		}
		cancel(err)
		release()
		return nil, err
	}
	return &answer{r, release, ctx, cancel}, nil
}
