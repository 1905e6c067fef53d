package fetch_test

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

func TestRetryAfterIsHonouredWithinItsBound(t *testing.T) {
	for _, tt := range []struct {
		name       string
		status     int
		retryAfter string
		slept      []time.Duration
		requests   int32
	}{
		{"seconds", 429, "5", []time.Duration{5 * time.Second, 5 * time.Second}, 3},
		{"a date", 503, "Fri, 02 Jan 2026 03:04:15 GMT", []time.Duration{10 * time.Second, 2 * time.Second}, 3},
		{"longer than the bound", 429, "61", nil, 1},
		{"longer than a number holds", 503, "99999999999999999999", nil, 1},
		{"not said", 500, "", []time.Duration{time.Second, 2 * time.Second}, 3},
		{"no wish for a 500", 404, "5", nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int32
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
			})
			c, clock := newClient(t, func(c *fetch.Config) { c.Retries = 2 }, s)
			_, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
			var status *fetch.StatusError
			if !errors.As(err, &status) || status.Code != tt.status {
				t.Fatalf("Get = %v, want status %d", err, tt.status)
			}
			if !slices.Equal(clock.slept, tt.slept) || requests.Load() != tt.requests {
				t.Errorf("%d requests, slept %v; want %d, %v", requests.Load(), clock.slept, tt.requests, tt.slept)
			}
		})
	}
}

func TestAnOriginThatWantsToBeLeftAloneIs(t *testing.T) {
	var requests atomic.Int32
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	c, clock := newClient(t, func(c *fetch.Config) { c.Retries = 2 }, s)
	for range 3 {
		_, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
		var status *fetch.StatusError
		if !errors.As(err, &status) || status.Code != http.StatusTooManyRequests || status.RetryAfter == 0 {
			t.Fatalf("Get = %v, want 429 with a wait", err)
		}
	}
	if requests.Load() != 1 {
		t.Errorf("%d requests, want one", requests.Load())
	}
	clock.Sleep(t.Context(), time.Hour)
	r, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
	if err != nil {
		t.Fatalf("an hour later: %v", err)
	}
	r.Body.Close()
}

func TestRateLimitFieldsAreRespected(t *testing.T) {
	for _, fields := range []map[string]string{
		{"RateLimit-Remaining": "0", "RateLimit-Reset": "10"},
		{"RateLimit": `"default";r=0;t=10`},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for name, value := range fields {
				w.Header().Set(name, value)
			}
		})
		c, clock := newClient(t, nil, s)
		for range 2 {
			r, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
		}
		if want := []time.Duration{10 * time.Second}; !slices.Equal(clock.slept, want) {
			t.Errorf("%v: slept %v, want %v", fields, clock.slept, want)
		}
	}
}

func TestRequestsAreSpacedOut(t *testing.T) {
	var under, most atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		most.Store(max(most.Load(), under.Add(1)))
		under.Add(-1)
	})
	c, clock := newClient(t, func(c *fetch.Config) { c.Rate, c.Concurrency = 10, 1 }, s)
	begin := clock.Now()
	get := func() {
		r, err := c.Get(t.Context(), s.URL+"/"+strconv.Itoa(int(most.Load())), fetch.Conditions{})
		if err != nil {
			t.Error(err)
			return
		}
		r.Body.Close()
	}
	for range 11 {
		get()
	}
	if took := clock.Now().Sub(begin); took != time.Second {
		t.Errorf("11 requests at 10 a second took %v", took)
	}
	if err := c.Slow(s.URL, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Slow(s.URL, 100); err != nil { // a wish for more changes nothing
		t.Fatal(err)
	}
	begin = clock.Now()
	for range 10 {
		get()
	}
	if took := clock.Now().Sub(begin); took < 9*time.Second {
		t.Errorf("10 requests at one a second took %v", took)
	}
}

func TestNoMoreRequestsAreUnderWayThanAllowed(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<16)) })
	c, _ := newClient(t, func(c *fetch.Config) { c.Concurrency = 1 }, s)
	first, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		r, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
		if err == nil {
			r.Body.Close()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("the second request did not wait for the first body: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	first.Body.Close()
	if err := <-second; err != nil {
		t.Error(err)
	}
}
